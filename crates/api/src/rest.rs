//! The bodies of the management API, for whoever serves it and whoever calls it.
//!
//! - [`v1`]: galaxy's, whose clients go on working.
//! - [`v2`]: floe's own.

pub mod v1;
pub mod v2;
