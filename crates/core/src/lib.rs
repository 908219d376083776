//! The pure heart of floe: every decision that floe takes.
//!
//! **What it is for.** Each module turns facts into a decision that is a plain
//! value. The value can be applied, printed by a dry run, asserted in a test
//! and shown to a person who asks why.
//!
//! **What it never does.** No I/O, no clock, no environment, no randomness, no
//! async, no Kubernetes crates. Time and dice are arguments, and collections
//! are ordered, so that the same input always gives the same answer. The
//! crate's own `clippy.toml` bans the calls that would break this.
//!
//! **Neighbours.** Nothing of floe lies below this crate. The binaries lie
//! above it: they gather the facts, ask here, apply the answer and report.
//!
//! - [`addr`]: addresses, ranges and sets of them.
//! - [`json`]: reads JSON of others into types, by their shape.
//! - [`config`]: which addresses there are, and on which nodes.
//! - [`ipam`]: who holds which address, and for how long.
//! - [`schedule`]: where a pod may run, and which addresses it gets there.
//! - [`rollout`]: how rolling updates go on that wait for addresses.
//! - [`cni`]: what container runtimes and network plugins say to each other.
//! - [`node`]: what a node does with the addresses of its pods.
//! - [`announce`]: telling neighbours where an address lives, and asking before.
//! - [`audit`]: what does not fit together.
//! - [`explain`]: why an address is where it is, and why a pod has none.
//! - [`vip`]: which pod holds an address that several share.
//! - [`nodepool`]: which node has which of a cloud's addresses.
//! - [`lease`]: who of several replicas leads.
//! - [`certificates`]: when certificates are made anew.
//! - [`admission`]: what the API server is told about objects before it stores them.
//! - [`wording`]: plurals, and errors of JSON texts in plain words.

#![forbid(unsafe_code)]

pub mod addr;
pub mod admission;
pub mod announce;
pub mod audit;
pub mod catalogue;
pub mod certificates;
pub mod cni;
pub mod config;
pub mod explain;
pub mod fingerprint;
pub mod ipam;
pub mod json;
pub mod lease;
pub mod node;
pub mod nodepool;
pub mod rollout;
pub mod schedule;
pub mod vip;
pub mod wording;
