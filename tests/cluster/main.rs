//! Tests on a real cluster, which all of them share.
//!
//! Tests that break something everybody uses take the cluster alone.

mod api_server;
mod connectivity;
mod controller;
mod extender;
mod http;
mod images;
mod node_faults;

use std::time::Duration;

/// Long enough for a busy machine, and never waited for when all is well.
pub const LIMIT: Duration = Duration::from_secs(90);
