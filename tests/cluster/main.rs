//! Tests on a real cluster, which all of them share; those of float IPs have
//! another one, see `racks`.
//!
//! Tests that break something everybody uses take the cluster alone.

mod addresses;
mod admission;
mod adoption;
mod api;
mod api_access;
mod api_certificates;
mod api_examples;
mod api_followers;
mod api_golden;
mod api_limits;
mod api_seeds;
mod api_server;
mod attached;
mod bad_input;
mod chart;
mod cli;
mod connectivity;
mod controller;
mod custom_workloads;
mod edited;
mod extender;
mod float_ips;
mod floe_nodes;
mod gates;
mod guides;
mod holdings;
mod http;
mod images;
mod imposter;
mod leader_killed;
mod moving;
mod node_faults;
mod node_loss;
mod nodepools;
mod policies;
mod pools;
mod racks;
mod ranges;
mod reconfiguration;
mod reservations;
mod restarts;
mod restore;
mod returning;
mod rollout;
mod schema;
mod segment;
mod services;
mod several;
mod underlay;
mod undone;
mod vips;
mod whole_nodes;
mod witness;

pub use floe_testbed::cluster::wait::SETTLED as LIMIT;
