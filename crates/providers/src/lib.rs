//! The clouds around a cluster: what floe tells them, and how it waits.
//!
//! **What it is for.** A cloud must know on which node an address lives. This
//! crate has one port for that, [`IpProvider`], the clients behind it, and
//! [`Paced`], which any client is wrapped in: it retries, keeps the orders of
//! one address in their order and bounds how much is under way.
//!
//! **What it never does.** It decides nothing about addresses and knows nothing
//! of Kubernetes. It counts nothing either: an [`Observer`] is told.
//!
//! **Neighbours.** The controller is the user.
//!
//! Addresses of pods:
//!
//! - [`galaxy`]: any provider written for galaxy-ipam, over gRPC.
//! - [`pace`]: retries, order, and how many calls at once.
//!
//! Addresses of nodes, and names:
//!
//! - [`floating`]: the port for addresses that a cloud puts on its servers; [`cloud`] has
//!   the clouds behind it.
//! - [`names`]: the port for DNS; [`zone`] has the name servers behind it.
//! - [`http`]: how all of them are called; [`aws_request`]: how AWS is, which has both.
//! - [`registry`]: who of them has credentials in this process.
//!
//! For tests (feature `fake`): `fake` has clouds and name servers on local ports, and
//! `conformance` is what each client has to pass.

#![forbid(unsafe_code)]

pub mod aws_request;
pub mod cloud;
#[cfg(any(test, feature = "fake"))]
pub mod conformance;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod floating;
pub mod galaxy;
pub mod http;
pub mod names;
pub mod pace;
mod port;
pub mod registry;
pub mod zone;

pub use galaxy::Galaxy;
pub use pace::{Backoff, Call, Observer, Pace, Paced};
pub use port::{Answer, Func, IpProvider, ProviderError};
