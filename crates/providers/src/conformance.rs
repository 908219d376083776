//! What every cloud and every name server has to pass, whoever wrote the server.
//!
//! - [`ips`]: the suite of [`crate::floating::FloatingIps`]; a [`ips::Scene`] says what
//!   there is to play with.
//! - [`names`]: the suite of [`crate::names::Dns`] on a [`names::Zones`].
//! - [`faults`]: both again, while the way to the server fails in every way it can.
//! - [`proxy`]: that way.
//! - [`report`]: what was found. A check that a server gives no means for is named there,
//!   with the reason, and never counts as passed.

pub mod faults;
pub mod ips;
pub mod names;
pub mod proxy;
pub mod report;

use std::{pin::Pin, time::Duration};

/// Something that a server is asked to do behind the client's back.
pub type Deed<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// How long a condition may take to come true before a check fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(50);
