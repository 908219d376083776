//! What every long-running part of floe does alike.
//!
//! **What it is for.** The controller and the agents write logs, take Go's flags, reach
//! the API server, follow what it has, also what makes no sense, tell Events, serve figures, notice writes that were not kept, let
//! one act at a time and stop in the same way. That way is here, once. With the feature `mock`
//! there also is an API server in memory for their tests.
//!
//! **What it never does.** It knows no address, no pod and no node, and decides nothing.
//! What only one program needs stays in that program.
//!
//! **Neighbours.** Below: nothing of floe. Above: `floe-controller` and `floe-agent`.

#![forbid(unsafe_code)]

mod backoff;
pub mod client;
#[cfg(any(test, feature = "mock"))]
pub mod document;
pub mod events;
pub mod figures;
pub mod go_flags;
pub mod logs;
#[cfg(any(test, feature = "mock"))]
pub mod mock;
mod seen;
pub mod stop;
pub mod tasks;
pub mod turns;
pub mod unkept;
pub mod version;
mod watch;

pub use backoff::backoff;
pub use seen::Seen;
pub use unkept::Unkept;
pub use watch::follow;
