//! The objects of the API, field by field.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde_json::{Value, json};

/// An error of the API.
#[derive(Debug)]
pub struct Fault {
    pub status: StatusCode,
    code: &'static str,
    message: String,
    details: Value,
}

impl Fault {
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::from_u16(status).expect("written as a status"),
            code,
            message: message.into(),
            details: Value::Null,
        }
    }

    /// Something is wrong with a field of the request.
    pub fn field(name: &str, words: &str) -> Self {
        let message = format!("invalid input in field '{name}'");
        Self {
            details: json!({ "fields": [{ "name": name, "messages": [words] }] }),
            ..Self::new(422, "invalid_input", message)
        }
    }

    /// A name that somebody else has.
    pub fn taken(name: &str) -> Self {
        Self {
            details: json!({ "fields": [{ "name": name }] }),
            ..Self::new(409, "uniqueness_error", format!("{name} is already used"))
        }
    }

    pub fn unknown(what: &str, id: &str) -> Self {
        Self::new(404, "not_found", format!("{what} with ID '{id}' not found"))
    }

    pub fn body(&self) -> Value {
        json!({ "error": {
            "code": self.code,
            "message": self.message,
            "details": self.details,
        }})
    }
}

#[derive(Clone, Debug)]
pub struct FloatingIp {
    pub id: u64,
    pub name: String,
    pub description: String,
    pub ip: String,
    pub v6: bool,
    pub server: Option<u64>,
    pub location: &'static Location,
    pub protected: bool,
    pub labels: BTreeMap<String, String>,
    pub created: String,
}

impl FloatingIp {
    pub fn show(&self) -> Value {
        // An address of a network gets a name when somebody gives it one.
        let names = if self.v6 {
            json!([])
        } else {
            let name = format!("static.{}.clients.example", self.ip);
            json!([{ "ip": self.ip, "dns_ptr": name }])
        };
        json!({
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "ip": self.ip,
            "type": if self.v6 { "ipv6" } else { "ipv4" },
            "server": self.server,
            "dns_ptr": names,
            "home_location": self.location.show(),
            "blocked": false,
            "protection": { "delete": self.protected },
            "labels": self.labels,
            "created": self.created,
        })
    }
}

/// What an action does when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Assign(u64),
    Unassign,
    Protect(bool),
}

#[derive(Clone, Debug)]
pub struct Action {
    pub id: u64,
    pub floating_ip: u64,
    pub effect: Effect,
    pub started: String,
    /// When it ended, and why it failed, if it did.
    pub ended: Option<(String, Option<(String, String)>)>,
}

impl Action {
    pub fn show(&self) -> Value {
        let mut resources = vec![json!({ "id": self.floating_ip, "type": "floating_ip" })];
        let command = match self.effect {
            Effect::Assign(server) => {
                resources.push(json!({ "id": server, "type": "server" }));
                "assign_floating_ip"
            }
            Effect::Unassign => "unassign_floating_ip",
            Effect::Protect(_) => "change_protection",
        };
        let (status, finished, error) = match &self.ended {
            None => ("running", None, Value::Null),
            Some((at, None)) => ("success", Some(at), Value::Null),
            Some((at, Some((code, message)))) => (
                "error",
                Some(at),
                json!({ "code": code, "message": message }),
            ),
        };
        json!({
            "id": self.id,
            "command": command,
            "status": status,
            "progress": if finished.is_some() { 100 } else { 0 },
            "started": self.started,
            "finished": finished,
            "resources": resources,
            "error": error,
        })
    }
}

#[derive(Clone, Debug)]
pub struct Server {
    pub id: u64,
    pub name: String,
    pub created: String,
}

impl Server {
    /// With the floating IPs that it has; the rest of a server has nothing to do with them.
    pub fn show(&self, floating_ips: &[u64]) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "status": "running",
            "created": self.created,
            "public_net": {
                "ipv4": null,
                "ipv6": null,
                "floating_ips": floating_ips,
                "firewalls": [],
            },
            "private_net": [],
            "location": LOCATIONS[0].show(),
            "labels": {},
            "protection": { "delete": false, "rebuild": false },
            "locked": false,
        })
    }
}

#[derive(Debug)]
pub struct Location {
    pub id: u64,
    pub name: &'static str,
    city: &'static str,
    country: &'static str,
    latitude: f64,
    longitude: f64,
    zone: &'static str,
}

/// Some of the places that there are.
pub static LOCATIONS: [Location; 2] = [
    Location {
        id: 1,
        name: "fsn1",
        city: "Falkenstein",
        country: "DE",
        latitude: 50.47612,
        longitude: 12.370_071,
        zone: "eu-central",
    },
    Location {
        id: 3,
        name: "hel1",
        city: "Helsinki",
        country: "FI",
        latitude: 60.169_855,
        longitude: 24.938_379,
        zone: "eu-central",
    },
];

impl Location {
    pub fn show(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "description": format!("{} DC Park 1", self.city),
            "country": self.country,
            "city": self.city,
            "latitude": self.latitude,
            "longitude": self.longitude,
            "network_zone": self.zone,
        })
    }
}
