//! What a node does with the addresses of its pods: which networks a pod joins, how
//! its interfaces look, and what is left over and must go.

pub mod arguments;
mod json;
pub mod moves;
pub mod names;
pub mod networks;
pub mod nic;
pub mod notes;
pub mod settings;
pub mod stale;
pub mod state;
pub mod takeover;
