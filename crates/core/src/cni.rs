//! The Container Network Interface, as far as it is words: what a runtime says to a
//! plugin, and what it is answered, in all versions from 0.1.0 to 1.1.0.
//!
//! floe works with one model, that of the newest version; older ones are
//! written and read at the edge.

pub mod args;
pub mod call;
pub mod config;
pub mod error;
pub mod http;
mod object;
pub mod result;
pub mod version;
