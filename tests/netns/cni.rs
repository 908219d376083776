//! The plugins, called as a container runtime calls them, on the host's kernel: all
//! that needs neither VLANs nor ipvlan.
//!
//! They run the program that lies beside the tests: `cargo build -p floe-cni` makes
//! it where `cargo xtask test` does not.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes the helpers of these tests for ordinary code"
)]

mod announcements;
mod attachments;
mod checks;
mod cnitool;
mod crowd;
mod duplicates;
mod galaxy;
#[allow(
    dead_code,
    reason = "tests in the guest use the same, and other parts of it"
)]
pub mod harness;
mod host_address;
mod host_moves;
mod housekeeping;
mod refusals;
mod several;
mod unfinished;
