//! Real parts on one machine, for tests and demonstrations: a Kubernetes cluster
//! with nodes, a host outside of it, network hosts, and a guest kernel.
//!
//! Development only: nothing that ships depends on this crate. What it builds is
//! any cluster; only [`floe`] knows what floe is.
//!
//! - [`cluster`] is the handle that tests, the demo and people hold;
//! - [`supervisor`] is the process that owns a running cluster;
//! - [`host`] is the brick of both: a machine made of namespaces;
//! - [`guest`] boots another kernel for what this one lacks.

pub mod anchor;
pub mod cache;
pub mod capture;
pub mod cgroup;
pub mod chart;
pub mod cluster;
pub mod cnitool;
mod command;
mod daemon;
pub mod floe;
mod go_program;
pub mod guest;
pub mod helm;
pub mod host;
pub mod image;
pub mod kubernetes;
pub mod lab;
pub mod leftovers;
pub mod moto;
pub mod nameserver;
pub mod netns;
pub mod neutron;
pub mod packages;
pub mod progress;
pub mod python;
pub mod registry;
pub mod schemathesis;
pub mod supervisor;
