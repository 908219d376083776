//! The rules of a keeper one by one, and a model of several that share an API server.

mod crowd;
mod desk;
mod handovers;
mod model;
mod nodes;
mod promises;
mod takeovers;
mod tenures;
