//! The clouds.
pub mod aws;
pub mod digitalocean;
pub mod hetzner;
pub mod neutron;
pub mod query;
