//! Projects.

use axum::{
    Router,
    body::Bytes,
    extract::{Path, RawQuery, State as Extracted},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{delete, get},
};
use serde_json::{Value, json};

use super::{Shared, error, list, not_found, unprocessable};
use crate::fake::server::{json as answer, lock};

/// The longest name.
const LONGEST: usize = 175;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/v2/projects", get(all).post(create))
        .route("/v2/projects/{id}", delete(remove))
}

fn write(id: &str, name: &str) -> Value {
    json!({
        "id": id,
        "owner_uuid": "99525febec065ca37b2ffe4f852fd2b2581895e7",
        "owner_id": 258_992,
        "name": name,
        "description": "",
        "purpose": "Operational / Developer tooling",
        "environment": "Production",
        "is_default": name == "default",
        "created_at": "2018-09-27T20:10:35Z",
        "updated_at": "2018-09-27T20:10:35Z",
    })
}

async fn all(Extracted(state): Extracted<Shared>, RawQuery(raw): RawQuery) -> Response {
    let state = lock(&state);
    let projects = state.projects.iter();
    let items: Vec<Value> = projects.map(|(id, name)| write(id, name)).collect();
    list("/v2/projects", "projects", &items, raw.as_deref())
}

async fn create(Extracted(state): Extracted<Shared>, body: Bytes) -> Response {
    let mut state = lock(&state);
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (Some(name), Some(_)) = (body["name"].as_str(), body["purpose"].as_str()) else {
        return unprocessable("name and purpose are required");
    };
    if name.is_empty() || name.len() > LONGEST {
        return unprocessable("name is too short or too long");
    }
    if state.projects.values().any(|other| other == name) {
        return error(409, "conflict", "name is already in use");
    }
    let id = state.new_project_id();
    state.projects.insert(id.clone(), name.to_owned());
    answer(201, &json!({"project": write(&id, name)}))
}

async fn remove(Extracted(state): Extracted<Shared>, Path(id): Path<String>) -> Response {
    let mut state = lock(&state);
    if !state.projects.contains_key(&id) {
        return not_found();
    }
    if state.addresses.values().any(|held| held.project == id) {
        let words = "cannot delete a project with resources";
        return error(412, "precondition_failed", words);
    }
    state.projects.remove(&id);
    StatusCode::NO_CONTENT.into_response()
}
