//! The project: what there is, what runs, and what is answered.

use std::collections::BTreeMap;

use axum::http::{HeaderName, Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Answer, Order,
    forms::{labels_of, now, ok, page, query_of},
    objects::{Action, Effect, Fault, FloatingIp, LOCATIONS, Location, Server},
    selector,
};

/// How many calls a project has in an hour.
const CALLS: u64 = 3600;

/// What belongs to the token.
#[derive(Debug, Default)]
pub struct Project {
    pub floating_ips: BTreeMap<u64, FloatingIp>,
    actions: BTreeMap<u64, Action>,
    servers: BTreeMap<u64, Server>,
    last_id: u64,
    /// How many addresses were ever given, so that none comes twice.
    given: u8,
    hold: bool,
    quota: Option<usize>,
    calls: Option<u64>,
}

impl Project {
    pub fn obey(&mut self, order: Order) -> Option<u64> {
        match order {
            Order::AddServer(name) => {
                let id = self.next_id();
                let created = now();
                self.servers.insert(id, Server { id, name, created });
                return Some(id);
            }
            Order::RemoveServer(id) => {
                self.servers.remove(&id);
                for one in self.floating_ips.values_mut() {
                    one.server = one.server.filter(|server| *server != id);
                }
            }
            Order::Hold(hold) => self.hold = hold,
            Order::Finish => self.end_actions(None),
            Order::Fail(code, message) => self.end_actions(Some(&(code, message))),
            Order::Quota(quota) => self.quota = quota,
            Order::Calls(calls) => self.calls = calls,
        }
        None
    }

    /// Counts a call, if there is one left.
    pub fn count(&mut self) -> Result<(), Fault> {
        if let Some(left) = &mut self.calls {
            *left = left.checked_sub(1).ok_or_else(|| {
                let words = "limit of 3600 requests per hour reached";
                Fault::new(429, "rate_limit_exceeded", words)
            })?;
        }
        Ok(())
    }

    /// The headers that tell how many calls are left.
    pub fn limits(&self) -> [(HeaderName, String); 3] {
        let left = self.calls.unwrap_or(CALLS);
        let missing = i64::try_from(CALLS - left.min(CALLS)).unwrap_or(i64::MAX);
        let full = Timestamp::now().as_second().saturating_add(missing);
        [
            (
                HeaderName::from_static("ratelimit-limit"),
                CALLS.to_string(),
            ),
            (
                HeaderName::from_static("ratelimit-remaining"),
                left.to_string(),
            ),
            (HeaderName::from_static("ratelimit-reset"), full.to_string()),
        ]
    }

    pub fn answer(
        &mut self,
        method: &Method,
        path: &[&str],
        query: &[(String, String)],
        body: &Value,
    ) -> Answer {
        if !self.hold {
            self.end_actions(None);
        }
        match (method.as_str(), path) {
            ("GET", ["floating_ips"]) => self.list(query),
            ("POST", ["floating_ips"]) => self.create(body),
            ("GET", ["floating_ips", "actions"]) => self.list_actions(query, None),
            ("GET", ["floating_ips", "actions", id] | ["actions", id]) => self.show_action(id),
            ("GET", ["floating_ips", id]) => {
                let one = self.one(id)?;
                ok(json!({ "floating_ip": one.show() }))
            }
            ("PUT", ["floating_ips", id]) => self.update(id, body),
            ("DELETE", ["floating_ips", id]) => self.delete(id),
            ("GET", ["floating_ips", id, "actions"]) => {
                let id = self.one(id)?.id;
                self.list_actions(query, Some(id))
            }
            ("GET", ["floating_ips", id, "actions", action]) => {
                self.one(id)?;
                self.show_action(action)
            }
            ("POST", ["floating_ips", id, "actions", what]) => self.act(id, what, body),
            ("GET", ["servers"]) => {
                let servers = self.servers.values().map(|server| self.show_server(server));
                page("servers", servers.collect(), query)
            }
            ("GET", ["servers", id]) => {
                let number = id.parse().ok();
                let server = number.and_then(|id: u64| self.servers.get(&id));
                let server = server.ok_or_else(|| Fault::unknown("server", id))?;
                ok(json!({ "server": self.show_server(server) }))
            }
            ("GET", ["locations"]) => {
                let named = |location: &&Location| {
                    query_of(query, "name").is_none_or(|name| name == location.name)
                };
                let locations = LOCATIONS.iter().filter(named).map(Location::show);
                page("locations", locations.collect(), query)
            }
            _ => Err(Fault::new(404, "not_found", "page not found")),
        }
    }

    fn list(&self, query: &[(String, String)]) -> Answer {
        let mut found = Vec::new();
        for one in self.floating_ips.values() {
            let named = query_of(query, "name").is_none_or(|name| name == one.name);
            let labelled = match query_of(query, "label_selector") {
                Some(selector) => selector::fits(selector, &one.labels)
                    .ok_or_else(|| Fault::field("label_selector", "is invalid"))?,
                None => true,
            };
            if named && labelled {
                found.push(one.show());
            }
        }
        page("floating_ips", found, query)
    }

    fn create(&mut self, body: &Value) -> Answer {
        let v6 = match body["type"].as_str() {
            Some("ipv4") => false,
            Some("ipv6") => true,
            Some(_) | None => return Err(Fault::field("type", "must be one of ipv4, ipv6")),
        };
        let server = if body["server"].is_null() {
            None
        } else {
            Some(self.known_server(&body["server"])?)
        };
        let location = match (&body["home_location"], server) {
            (Value::Null, Some(_)) => &LOCATIONS[0],
            (Value::Null, None) => {
                return Err(Fault::field(
                    "home_location",
                    "is required without a server",
                ));
            }
            (wanted, _) => {
                let named = |location: &&Location| {
                    let id = location.id.to_string();
                    let text = wanted.as_str().map_or(wanted.to_string(), str::to_owned);
                    text == location.name || text == id
                };
                let location = LOCATIONS.iter().find(named);
                location.ok_or_else(|| Fault::field("home_location", "does not exist"))?
            }
        };
        if self
            .quota
            .is_some_and(|most| self.floating_ips.len() >= most)
        {
            let words = "floating IP limit exceeded";
            return Err(Fault::new(403, "resource_limit_exceeded", words));
        }
        let labels = labels_of(&body["labels"])?;
        let id = self.next_id();
        let name = body["name"].as_str().unwrap_or_default();
        let name = if name.is_empty() {
            format!("floating-ip-{id}")
        } else {
            name.to_owned()
        };
        self.unused(&name, id)?;
        self.given = self.given.wrapping_add(1);
        let one = FloatingIp {
            id,
            name,
            description: body["description"].as_str().unwrap_or_default().to_owned(),
            ip: if v6 {
                format!("2001:db8:{:x}::/64", self.given)
            } else {
                format!("203.0.113.{}", self.given)
            },
            v6,
            server: None,
            location,
            protected: false,
            labels,
            created: now(),
        };
        self.floating_ips.insert(id, one);
        let action = server.map(|server| self.begin(id, Effect::Assign(server)));
        let shown = self.floating_ips[&id].show();
        Ok((
            StatusCode::CREATED,
            Some(json!({ "floating_ip": shown, "action": action })),
        ))
    }

    fn update(&mut self, id: &str, body: &Value) -> Answer {
        let id = self.one(id)?.id;
        if let Some(name) = body["name"].as_str() {
            self.unused(name, id)?;
        }
        let labels = if body["labels"].is_null() {
            None
        } else {
            Some(labels_of(&body["labels"])?)
        };
        let one = self.floating_ips.get_mut(&id).expect("it was there");
        if let Some(name) = body["name"].as_str() {
            name.clone_into(&mut one.name);
        }
        if let Some(description) = body["description"].as_str() {
            description.clone_into(&mut one.description);
        }
        if let Some(labels) = labels {
            one.labels = labels;
        }
        ok(json!({ "floating_ip": one.show() }))
    }

    fn delete(&mut self, id: &str) -> Answer {
        let one = self.one(id)?;
        if one.protected {
            let words = "Floating IP deletion is protected";
            return Err(Fault::new(423, "protected", words));
        }
        self.unlocked(one.id)?;
        if one.server.is_some() {
            let words = "Floating IP must be unassigned";
            return Err(Fault::new(422, "must_be_unassigned", words));
        }
        let id = one.id;
        self.floating_ips.remove(&id);
        Ok((StatusCode::NO_CONTENT, None))
    }

    fn act(&mut self, id: &str, what: &str, body: &Value) -> Answer {
        let one = self.one(id)?;
        let (id, current) = (one.id, one.server);
        let effect = match what {
            "assign" => Effect::Assign(self.known_server(&body["server"])?),
            "unassign" => Effect::Unassign,
            "change_protection" => {
                let delete = body["delete"].as_bool();
                Effect::Protect(delete.ok_or_else(|| Fault::field("delete", "is required"))?)
            }
            _ => return Err(Fault::new(404, "not_found", "page not found")),
        };
        self.unlocked(id)?;
        if let Effect::Assign(server) = effect
            && current == Some(server)
        {
            let words = "The Floating IP is already assigned";
            return Err(Fault::new(422, "floating_ip_assigned", words));
        }
        let action = self.begin(id, effect);
        Ok((StatusCode::CREATED, Some(json!({ "action": action }))))
    }

    fn list_actions(&self, query: &[(String, String)], of: Option<u64>) -> Answer {
        let wanted = |action: &&Action| {
            let mut ids = query.iter().filter(|(name, _)| name == "id").peekable();
            let chosen = ids.peek().is_none() || ids.any(|(_, id)| *id == action.id.to_string());
            chosen && of.is_none_or(|of| of == action.floating_ip)
        };
        let actions = self.actions.values().filter(wanted).map(Action::show);
        page("actions", actions.collect(), query)
    }

    fn show_action(&self, id: &str) -> Answer {
        let number = id.parse().ok();
        let action = number.and_then(|id: u64| self.actions.get(&id));
        let action = action.ok_or_else(|| Fault::unknown("action", id))?;
        ok(json!({ "action": action.show() }))
    }

    fn show_server(&self, server: &Server) -> Value {
        let on_it = |one: &&FloatingIp| one.server == Some(server.id);
        let ids: Vec<u64> = self
            .floating_ips
            .values()
            .filter(on_it)
            .map(|one| one.id)
            .collect();
        server.show(&ids)
    }

    fn one(&self, id: &str) -> Result<&FloatingIp, Fault> {
        let number = id.parse().ok();
        let one = number.and_then(|id: u64| self.floating_ips.get(&id));
        one.ok_or_else(|| Fault::unknown("floating_ip", id))
    }

    fn known_server(&self, id: &Value) -> Result<u64, Fault> {
        let number = id
            .as_u64()
            .ok_or_else(|| Fault::field("server", "is required"))?;
        if self.servers.contains_key(&number) {
            return Ok(number);
        }
        Err(Fault::unknown("server", &number.to_string()))
    }

    fn unused(&self, name: &str, by: u64) -> Result<(), Fault> {
        let mut all = self.floating_ips.values();
        if all.any(|one| one.name == name && one.id != by) {
            return Err(Fault::taken("name"));
        }
        Ok(())
    }

    fn unlocked(&self, id: u64) -> Result<(), Fault> {
        let mut all = self.actions.values();
        if all.any(|action| action.floating_ip == id && action.ended.is_none()) {
            let words = "Floating IP is locked by another action";
            return Err(Fault::new(423, "locked", words));
        }
        Ok(())
    }

    fn begin(&mut self, floating_ip: u64, effect: Effect) -> Value {
        let id = self.next_id();
        let action = Action {
            id,
            floating_ip,
            effect,
            started: now(),
            ended: None,
        };
        let shown = action.show();
        self.actions.insert(id, action);
        shown
    }

    fn end_actions(&mut self, failure: Option<&(String, String)>) {
        let running = |action: &&mut Action| action.ended.is_none();
        for action in self.actions.values_mut().filter(running) {
            let mut failure = failure.cloned();
            if let Effect::Assign(server) = action.effect
                && !self.servers.contains_key(&server)
            {
                let words = "the server is gone".to_owned();
                failure = Some(("action_failed".to_owned(), words));
            }
            if failure.is_none()
                && let Some(one) = self.floating_ips.get_mut(&action.floating_ip)
            {
                match action.effect {
                    Effect::Assign(server) => one.server = Some(server),
                    Effect::Unassign => one.server = None,
                    Effect::Protect(protected) => one.protected = protected,
                }
            }
            action.ended = Some((now(), failure));
        }
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}
