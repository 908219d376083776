//! Domains and their records.

use axum::{
    Router,
    body::Bytes,
    extract::{Path, RawQuery, State as Extracted},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};

use super::{Shared, list, not_found, unprocessable};
use crate::fake::server::{json as answer, lock, query};

/// The shortest time that a record may be remembered.
const SHORTEST: u64 = 30;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/v2/domains/{domain}", get(domain))
        .route("/v2/domains/{domain}/records", get(all).post(create))
        .route(
            "/v2/domains/{domain}/records/{id}",
            get(one).put(update).patch(update).delete(remove),
        )
}

async fn domain(Extracted(state): Extracted<Shared>, Path(domain): Path<String>) -> Response {
    if !lock(&state).domains.contains_key(&domain) {
        return not_found();
    }
    let written = json!({"name": domain, "ttl": 1800, "zone_file": ""});
    answer(200, &json!({"domain": written}))
}

/// The filter wants the full name, records have the relative one.
async fn all(
    Extracted(state): Extracted<Shared>,
    Path(domain): Path<String>,
    RawQuery(raw): RawQuery,
) -> Response {
    let state = lock(&state);
    let Some(records) = state.domains.get(&domain) else {
        return not_found();
    };
    let asked = query(raw.as_deref());
    let full = |record: &Value| match record["name"].as_str() {
        Some("@") | None => domain.clone(),
        Some(name) => format!("{name}.{domain}"),
    };
    let chosen: Vec<Value> = records
        .iter()
        .filter(|record| {
            let kind = asked.get("type");
            kind.is_none_or(|kind| record["type"].as_str() == Some(kind))
        })
        .filter(|record| asked.get("name").is_none_or(|name| full(record) == *name))
        .cloned()
        .collect();
    let path = format!("/v2/domains/{domain}/records");
    list(&path, "domain_records", &chosen, raw.as_deref())
}

/// What a record becomes, or why not.
fn complete(id: u64, old: &Value, new: &Value) -> Result<Value, &'static str> {
    let field = |name: &str| {
        let given = &new[name];
        if given.is_null() { &old[name] } else { given }.clone()
    };
    let kind = field("type");
    let kind = kind.as_str().ok_or("Type is missing.")?;
    let name = field("name");
    let name = name.as_str().ok_or("Name is missing.")?;
    let data = field("data");
    let data = data.as_str().ok_or("Data is missing.")?;
    let priority = field("priority");
    match kind {
        "A" if data.parse::<std::net::Ipv4Addr>().is_err() => {
            return Err("IP address did not match IPv4 format");
        }
        "AAAA" if data.parse::<std::net::Ipv6Addr>().is_err() => {
            return Err("IP address did not match IPv6 format");
        }
        "MX" if priority.is_null() => return Err("Priority is missing."),
        "MX" | "CNAME" | "NS" if !data.ends_with('.') && data != "@" => {
            return Err("Data needs to end with a dot (.)");
        }
        "TXT" if data.len() > 512 => return Err("Data is too long."),
        "A" | "AAAA" | "MX" | "CNAME" | "NS" | "TXT" => {}
        _ => return Err("Type is not known."),
    }
    let ttl = field("ttl");
    let ttl = ttl.as_u64().unwrap_or(1800);
    if ttl < SHORTEST {
        return Err("TTL must be at least 30 seconds.");
    }
    Ok(json!({
        "id": id,
        "type": kind,
        "name": name,
        "data": data.trim_end_matches('.'),
        "priority": priority,
        "port": null,
        "ttl": ttl,
        "weight": null,
        "flags": null,
        "tag": null,
    }))
}

async fn create(
    Extracted(state): Extracted<Shared>,
    Path(domain): Path<String>,
    body: Bytes,
) -> Response {
    let mut state = lock(&state);
    let id = state.next_id();
    let Some(records) = state.domains.get_mut(&domain) else {
        return not_found();
    };
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    match complete(id, &Value::Null, &body) {
        Ok(record) => {
            records.push(record.clone());
            answer(201, &json!({"domain_record": record}))
        }
        Err(words) => unprocessable(words),
    }
}

async fn one(
    Extracted(state): Extracted<Shared>,
    Path((domain, id)): Path<(String, u64)>,
) -> Response {
    let state = lock(&state);
    let records = state.domains.get(&domain);
    let found = records.and_then(|records| records.iter().find(|record| record["id"] == id));
    match found {
        Some(record) => answer(200, &json!({"domain_record": record})),
        None => not_found(),
    }
}

async fn update(
    Extracted(state): Extracted<Shared>,
    Path((domain, id)): Path<(String, u64)>,
    body: Bytes,
) -> Response {
    let mut state = lock(&state);
    let records = state.domains.get_mut(&domain);
    let found = records.and_then(|records| records.iter_mut().find(|record| record["id"] == id));
    let Some(found) = found else {
        return not_found();
    };
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    match complete(id, found, &body) {
        Ok(record) => {
            found.clone_from(&record);
            answer(200, &json!({"domain_record": record}))
        }
        Err(words) => unprocessable(words),
    }
}

async fn remove(
    Extracted(state): Extracted<Shared>,
    Path((domain, id)): Path<(String, u64)>,
) -> Response {
    let mut state = lock(&state);
    let Some(records) = state.domains.get_mut(&domain) else {
        return not_found();
    };
    let before = records.len();
    records.retain(|record| record["id"] != id);
    if records.len() == before {
        return not_found();
    }
    StatusCode::NO_CONTENT.into_response()
}
