//! Tests on a real cluster, which all of them share.
//!
//! Tests that break something everybody uses take the cluster alone.

mod addresses;
mod api_server;
mod connectivity;
mod controller;
mod extender;
mod http;
mod images;
mod node_faults;

pub use floe_testbed::cluster::wait::SETTLED as LIMIT;
