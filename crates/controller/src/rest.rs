//! The management API: galaxy's and floe's own, for people and tools.
//!
//! - [`access`]: who calls, and what he may do.
//! - [`front`]: what every call passes: limits, who calls, and the way to the leader.
//! - [`v1`]: galaxy's API, unchanged for its clients.
//! - [`v2`]: floe's own.
//! - [`setting`], [`refused`]: what both do alike.
//! - [`openapi`]: both described for tools; [`page`]: the same for people.
//!
//! Handlers gather, have the core decide, and answer. What changes something lives
//! in [`crate::actions`], because both APIs do the same there.

use axum::Router;
use kube::Client;

use crate::{
    actions::Actions, claims::Claims, cluster::Cluster, directory::Directory, store::Store,
    vips::store::Vips, waiting::Waiting,
};

pub mod access;
pub mod front;
pub mod openapi;
mod page;
mod refused;
mod setting;
pub mod v1;
pub mod v2;

/// What the routes need.
#[derive(Clone)]
pub struct Rest {
    /// Lists and searches of addresses.
    pub directory: Directory,
    /// The books.
    pub store: Store,
    /// Nodes and pods.
    pub cluster: Cluster,
    /// What pods ask for.
    pub claims: Claims,
    /// Addresses that several pods share.
    pub vips: Vips,
    /// The pods that wait for an address, and why nothing is handed over to them.
    pub waiting: Waiting,
    /// What people may change.
    pub actions: Actions,
    /// The way to the API server.
    pub client: Client,
}

/// All routes of both APIs, without what [`front`] puts before them.
pub fn router(rest: Rest) -> Router {
    v1::router().merge(v2::router()).with_state(rest)
}
