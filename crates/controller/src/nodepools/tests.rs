use axum::http::Method;
use floe_core::nodepool::cloud::{Class, Refusal};
use floe_shell::mock::Fault as ServerFault;
use serde_json::{Value, json};

use super::{
    fakes::{Fault, too_many, unavailable},
    scene::*,
};
use crate::leader::Standing;

mod buying;
mod deaths;
mod deleting;
mod failing;
mod names;
mod old_roles;
mod old_schema;
mod pools;
mod validation;

/// Two free addresses, and ready nodes n1 and n2.
fn two_nodes() -> Scene {
    let scene = Scene::new();
    scene.cloud.has(A, None);
    scene.cloud.has(B, None);
    for name in ["n1", "n2"] {
        scene.server.put(NODES, node(name, "True"));
    }
    scene
}

/// How many writes there were. A review of the client's own access is answered and not stored.
fn writes(scene: &Scene) -> usize {
    let state = scene.server.state();
    let mut calls = state.calls.iter().filter(|call| !call.contains("/events"));
    let mut calls = calls
        .by_ref()
        .filter(|call| !call.contains("accessreviews"));
    calls
        .by_ref()
        .filter(|call| !call.starts_with("GET "))
        .count()
}
