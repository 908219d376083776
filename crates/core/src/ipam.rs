//! Who may hold which address, for how long, and why not.
//!
//! The words that are shared with galaxy, in records and on pods:
//!
//! - [`names`]: annotations, labels and the resource.
//! - [`key`]: the stored text that says who holds an address.
//! - [`attribute`]: the stored text that says where the holder runs.
//! - [`args`]: wished ranges in, addresses out.
//! - [`families`]: wished address families.
//!
//! The rules about workloads:
//!
//! - [`owner`]: from a pod's owners to its workload.
//! - [`policy`]: how long an address stays.
//! - [`workload`]: what is known about a workload, and what it supports.
//! - [`slot`]: what becomes of an address when its pod is gone.
//! - [`reclaim`]: the same for all that a pod or a workload has left.
//! - [`suspect`]: which records a check has to look at.
//! - [`overuse`]: who has more addresses than the limits allow.
//!
//! The books:
//!
//! - [`ledger`]: who holds which address, and what is promised.
//! - [`choice`]: which addresses a pod gets of those.
//! - [`adopt`]: what the records lack of what running pods show.
//! - [`preallocate`]: which addresses a pool gets ahead of its pods.
//!
//! What people see and do:
//!
//! - [`releasable`]: whether an address can be released by hand.
//! - [`reservation`]: addresses that no pod shall get.

pub mod adopt;
pub mod args;
pub mod attribute;
pub mod choice;
pub mod families;
pub mod key;
pub mod ledger;
pub mod names;
pub mod overuse;
pub mod owner;
pub mod policy;
pub mod preallocate;
pub mod reclaim;
pub mod releasable;
pub mod reservation;
pub mod slot;
pub mod state;
pub mod suspect;
pub mod workload;
