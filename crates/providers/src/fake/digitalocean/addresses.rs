//! Reserved IPs under both of their names, reserved IPv6, their actions, and droplets.

use std::net::IpAddr;

use axum::{
    Router,
    body::Bytes,
    extract::{Path, RawQuery, State as Extracted},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use super::{
    Shared, list, not_found, shapes,
    state::{Names, State},
    unprocessable,
};
use crate::fake::server::{json as answer, lock};

/// A collection: where it is, and what one and many are called.
#[derive(Clone, Copy)]
struct Product {
    path: &'static str,
    one: &'static str,
    many: &'static str,
    v6: bool,
    /// The names under which a server is known that has it no more.
    unless: Option<Names>,
}

const PRODUCTS: [Product; 3] = [
    Product {
        path: "/v2/reserved_ips",
        one: "reserved_ip",
        many: "reserved_ips",
        v6: false,
        unless: Some(Names::Floating),
    },
    Product {
        path: "/v2/floating_ips",
        one: "floating_ip",
        many: "floating_ips",
        v6: false,
        unless: Some(Names::Reserved),
    },
    Product {
        path: "/v2/reserved_ipv6",
        one: "reserved_ipv6",
        many: "reserved_ipv6s",
        v6: true,
        unless: None,
    },
];

pub(super) fn routes() -> Router<Shared> {
    let mut routes = Router::new()
        .route("/v2/droplets/{id}", get(droplet))
        .route("/v2/actions/{id}", get(action));
    for product in PRODUCTS {
        let path = product.path;
        routes = routes
            .route(
                path,
                get(move |state: Extracted<Shared>, raw: RawQuery| async move {
                    product.list(&lock(&state), raw.0.as_deref())
                })
                .post(move |state: Extracted<Shared>, body: Bytes| async move {
                    product.create(&mut lock(&state), &body)
                }),
            )
            .route(
                &format!("{path}/{{ip}}"),
                get(
                    move |state: Extracted<Shared>, ip: Path<IpAddr>| async move {
                        product.get(&lock(&state), ip.0)
                    },
                )
                .delete(
                    move |state: Extracted<Shared>, ip: Path<IpAddr>| async move {
                        product.delete(&mut lock(&state), ip.0)
                    },
                ),
            )
            .route(
                &format!("{path}/{{ip}}/actions"),
                post(
                    move |state: Extracted<Shared>, ip: Path<IpAddr>, body: Bytes| async move {
                        product.act(&mut lock(&state), ip.0, &body)
                    },
                ),
            );
        if !product.v6 {
            routes = routes.route(
                &format!("{path}/{{ip}}/actions/{{id}}"),
                get(
                    move |state: Extracted<Shared>, Path((ip, id)): Path<(IpAddr, u64)>| async move {
                        product.action(&lock(&state), ip, id)
                    },
                ),
            );
        }
    }
    routes
}

async fn droplet(Extracted(state): Extracted<Shared>, Path(id): Path<u64>) -> Response {
    match lock(&state).droplets.get(&id) {
        Some(region) => answer(200, &json!({"droplet": shapes::droplet(id, region)})),
        None => not_found(),
    }
}

async fn action(Extracted(state): Extracted<Shared>, Path(id): Path<u64>) -> Response {
    written_action(&lock(&state), 200, id)
}

fn written_action(state: &State, status: u16, id: u64) -> Response {
    let Some(action) = state.actions.get(&id) else {
        return not_found();
    };
    let address = state.addresses.get(&action.ip);
    let region = address.map_or("nyc3", |address| &address.region);
    answer(
        status,
        &json!({"action": shapes::action(id, action, region)}),
    )
}

impl Product {
    fn is_there(self, state: &State) -> bool {
        self.unless != Some(state.names)
    }

    fn has(self, state: &State, ip: IpAddr) -> bool {
        self.is_there(state) && ip.is_ipv6() == self.v6 && state.addresses.contains_key(&ip)
    }

    fn write(self, state: &State, ip: IpAddr) -> Value {
        let address = &state.addresses[&ip];
        if self.v6 {
            shapes::reserved_ipv6(ip, address)
        } else {
            shapes::reserved_ip(ip, address)
        }
    }

    fn all(self, state: &State) -> Vec<IpAddr> {
        let addresses = state.addresses.keys().copied();
        addresses.filter(|ip| ip.is_ipv6() == self.v6).collect()
    }

    fn list(self, state: &State, raw: Option<&str>) -> Response {
        if !self.is_there(state) {
            return not_found();
        }
        let all = self.all(state).into_iter();
        let items: Vec<Value> = all.map(|ip| self.write(state, ip)).collect();
        list(self.path, self.many, &items, raw)
    }

    fn get(self, state: &State, ip: IpAddr) -> Response {
        if !self.has(state, ip) {
            return not_found();
        }
        answer(200, &json!({self.one: self.write(state, ip)}))
    }

    fn create(self, state: &mut State, body: &[u8]) -> Response {
        if !self.is_there(state) {
            return not_found();
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if self.all(state).len() >= state.limit {
            return unprocessable("You have reached the limit of reserved IPs for this account.");
        }
        let region = if self.v6 { "region_slug" } else { "region" };
        let droplet = body["droplet_id"].as_u64().filter(|_| !self.v6);
        let place = droplet.and_then(|id| state.droplets.get(&id).cloned());
        let place = place.or_else(|| body[region].as_str().map(str::to_owned));
        let Some(place) = place.filter(|place| !place.is_empty()) else {
            return unprocessable("Region is missing or not available.");
        };
        let project = match body["project_id"].as_str() {
            Some(id) if state.projects.contains_key(id) => id.to_owned(),
            Some(_) => return unprocessable("Project does not exist."),
            None => state.default_project(),
        };
        let ip = state.fresh(self.v6);
        state.add(ip, &place, project);
        let mut links = json!({});
        if let Some(id) = droplet {
            let action = state.begin(ip, Some(id));
            links = json!({
                "droplets": [{"id": id, "rel": "droplet", "href": format!("https://api.digitalocean.com/v2/droplets/{id}")}],
                "actions": [{"id": action, "rel": "assign_ip", "href": format!("https://api.digitalocean.com/v2/actions/{action}")}],
            });
        }
        let written = self.write(state, ip);
        if self.v6 {
            answer(201, &json!({self.one: written}))
        } else {
            answer(202, &json!({self.one: written, "links": links}))
        }
    }

    fn delete(self, state: &mut State, ip: IpAddr) -> Response {
        if !self.has(state, ip) {
            return not_found();
        }
        if state.addresses[&ip].locked {
            return unprocessable("The reserved IP has a pending event.");
        }
        state.addresses.remove(&ip);
        StatusCode::NO_CONTENT.into_response()
    }

    fn act(self, state: &mut State, ip: IpAddr, body: &[u8]) -> Response {
        if !self.has(state, ip) {
            return not_found();
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let address = &state.addresses[&ip];
        if address.locked {
            return unprocessable("The reserved IP has a pending event.");
        }
        let id = match (body["type"].as_str(), body["droplet_id"].as_u64()) {
            (Some("unassign"), _) if address.droplet.is_none() => {
                return unprocessable("The reserved IP is not assigned.");
            }
            (Some("unassign"), _) => state.begin(ip, None),
            (Some("assign"), Some(droplet)) => {
                let held = state.addresses.iter().any(|(other, address)| {
                    other.is_ipv6() == self.v6 && address.droplet == Some(droplet)
                });
                match state.droplets.get(&droplet) {
                    None => return unprocessable("Droplet does not exist."),
                    Some(region) if *region != address.region => {
                        return unprocessable("The Droplet is in another region.");
                    }
                    Some(_) if held => {
                        return unprocessable("The Droplet already has a reserved IP.");
                    }
                    Some(_) => state.begin(ip, Some(droplet)),
                }
            }
            _ => return unprocessable("Action type or Droplet is missing."),
        };
        written_action(state, 201, id)
    }

    fn action(self, state: &State, ip: IpAddr, id: u64) -> Response {
        let of_it = state.actions.get(&id).is_some_and(|found| found.ip == ip);
        if !self.has(state, ip) || !of_it {
            return not_found();
        }
        written_action(state, 200, id)
    }
}
