//! HTTP with TLS or without, for whoever answers: the scheduler extender, the
//! management API, and what is to come. It knows nothing of what they say.
//!
//! - [`serve`]: takes connections, within limits, and ends them at a stop.
//! - [`farewell`]: a server goes on for a while when it is asked to stop.
//! - [`linger`]: how a connection is closed.
//! - [`plain`]: what is answered to HTTP where TLS is spoken.
//! - [`tls`]: certificates and whom to trust, from files that may change.
//! - [`peer`]: the way to other replicas.
//! - [`address`]: where other replicas reach this one.

pub mod address;
pub mod farewell;
mod linger;
pub mod peer;
mod plain;
pub mod serve;
pub mod tls;

/// The header of a call that another replica has forwarded. It goes no further.
pub const FORWARDED: &str = "floe-forwarded";

#[cfg(test)]
mod tests;
