//! Node floating IPs: which node of a pool has which of a cloud's addresses.
//!
//! - [`address`]: the texts of a pool's addresses.
//! - [`census`]: the nodes and pods that pools look at, and what has changed there.
//! - [`matching`]: whether a node and its pods are what a pool asks for, and why not.
//! - [`cloud`]: what clouds say of addresses, and how they refuse.
//! - [`pool`]: the machine of one pool. Facts go in, calls come out; it never waits.
//! - [`retry`]: how long after a refusal the next try comes.
//! - [`rivals`]: pools that list the same address.
//! - [`records`]: the DNS records that follow, and the changes that make them so.
//! - [`witness`]: when a node counts as dead before its kubelet is given up.

pub mod address;
pub mod census;
pub mod cloud;
pub mod matching;
pub mod pool;
pub mod records;
pub mod retry;
pub mod rivals;
pub mod witness;
