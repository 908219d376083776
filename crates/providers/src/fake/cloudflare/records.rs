//! The records of a zone.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Zone;

/// How many changes a batch may have on the free plan.
const BATCH: usize = 200;

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub status: u16,
    pub code: u64,
    pub message: &'static str,
}

impl Refused {
    pub const ROUTE: Self = Self::new(
        404,
        7003,
        "Could not route to /zones, perhaps your object identifier is invalid?",
    );
    pub const TOKEN: Self = Self::new(403, 9109, "Invalid access token");
    pub const LIMIT: Self = Self::new(
        429,
        971,
        "Please wait and consider throttling your request speed",
    );
    const GONE: Self = Self::new(404, 81044, "Record does not exist.");
    const TWICE: Self = Self::new(400, 81058, "An identical record already exists.");
    const BESIDE: Self = Self::new(
        400,
        81053,
        "An A, AAAA, or CNAME record with that host already exists.",
    );

    const fn new(status: u16, code: u64, message: &'static str) -> Self {
        Self {
            status,
            code,
            message,
        }
    }

    const fn invalid(message: &'static str) -> Self {
        Self::new(400, 9005, message)
    }
}

impl Zone {
    /// The records that a query asks for, also in the ways of today.
    pub(super) fn find(&self, asked: &BTreeMap<String, String>) -> Vec<Value> {
        let given = |names: &[&str]| names.iter().find_map(|name| asked.get(*name)).cloned();
        let name = given(&["name", "name.exact", "name[exact]"]);
        let content = given(&["content", "content.exact", "content[exact]"]);
        let kind = given(&["type"]);
        let is = |value: &Value, wanted: &Option<String>| {
            let text = value.as_str().unwrap_or_default();
            let same = |wanted: &String| text.eq_ignore_ascii_case(wanted);
            wanted.as_ref().is_none_or(same)
        };
        let wanted = |record: &&Value| {
            is(&record["name"], &name)
                && is(&record["content"], &content)
                && is(&record["type"], &kind)
        };
        self.records.iter().filter(wanted).cloned().collect()
    }

    pub(super) fn get(&self, id: &str) -> Result<Value, Refused> {
        let mut records = self.records.iter();
        let found = records.find(|record| record["id"] == id);
        found.cloned().ok_or(Refused::GONE)
    }

    pub(super) fn create(&mut self, last: &mut u64, body: &Value) -> Result<Value, Refused> {
        *last += 1;
        let id = format!("372e67954025e0ba6aaa{:012x}", *last);
        let record = self.complete(&id, &Value::Null, body)?;
        self.records.push(record.clone());
        Ok(record)
    }

    pub(super) fn patch(&mut self, id: &str, body: &Value) -> Result<Value, Refused> {
        let old = self.get(id)?;
        let record = self.complete(id, &old, body)?;
        self.replace(id, &record);
        Ok(record)
    }

    pub(super) fn put(&mut self, id: &str, body: &Value) -> Result<Value, Refused> {
        let old = self.get(id)?;
        let kept = json!({"created_on": old["created_on"]});
        let record = self.complete(id, &kept, body)?;
        self.replace(id, &record);
        Ok(record)
    }

    pub(super) fn delete(&mut self, id: &str) -> Result<Value, Refused> {
        self.get(id)?;
        self.records.retain(|record| record["id"] != id);
        Ok(json!({"id": id}))
    }

    /// All of it: deletions, patches, puts, posts.
    pub(super) fn batch(&mut self, last: &mut u64, body: &Value) -> Result<Value, Refused> {
        let part = |name: &str| body[name].as_array().cloned().unwrap_or_default();
        let id = |change: &Value| {
            let id = change["id"].as_str().map(str::to_owned);
            id.ok_or(Refused::invalid("id is missing"))
        };
        let (deletes, patches) = (part("deletes"), part("patches"));
        let (puts, posts) = (part("puts"), part("posts"));
        if deletes.len() + patches.len() + puts.len() + posts.len() > BATCH {
            return Err(Refused::invalid("too many changes in a batch"));
        }
        let mut done = json!({"deletes": [], "patches": [], "puts": [], "posts": []});
        let mut note = |kind: &str, record: Value| {
            if let Some(list) = done[kind].as_array_mut() {
                list.push(record);
            }
        };
        for change in &deletes {
            let id = id(change)?;
            let gone = self.get(&id)?;
            self.delete(&id)?;
            note("deletes", gone);
        }
        for change in &patches {
            note("patches", self.patch(&id(change)?, change)?);
        }
        for change in &puts {
            note("puts", self.put(&id(change)?, change)?);
        }
        for change in &posts {
            note("posts", self.create(last, change)?);
        }
        Ok(done)
    }

    fn replace(&mut self, id: &str, record: &Value) {
        let found = self.records.iter_mut().find(|record| record["id"] == id);
        if let Some(found) = found {
            found.clone_from(record);
        }
    }

    /// What a record becomes, or why not.
    fn complete(&self, id: &str, old: &Value, new: &Value) -> Result<Value, Refused> {
        let field = |name: &str| {
            let given = &new[name];
            if given.is_null() { &old[name] } else { given }.clone()
        };
        let text = |name: &str, words| {
            let value = field(name);
            let text = value.as_str().map(str::to_owned);
            text.ok_or(Refused::invalid(words))
        };
        let kind = text("type", "type is missing")?;
        let name = text("name", "name is missing")?;
        let name = match name.as_str() {
            "@" => self.name.clone(),
            inside if inside == self.name || inside.ends_with(&format!(".{}", self.name)) => {
                inside.to_owned()
            }
            relative => format!("{relative}.{}", self.name),
        };
        let content = text("content", "content is missing")?;
        let proxiable = matches!(kind.as_str(), "A" | "AAAA" | "CNAME");
        match kind.as_str() {
            "A" if content.parse::<std::net::Ipv4Addr>().is_err() => {
                return Err(Refused::invalid(
                    "Content for A record must be a valid IPv4 address.",
                ));
            }
            "AAAA" if content.parse::<std::net::Ipv6Addr>().is_err() => {
                return Err(Refused::invalid(
                    "Content for AAAA record must be a valid IPv6 address.",
                ));
            }
            "MX" if field("priority").is_null() => {
                return Err(Refused::invalid("priority is missing"));
            }
            "A" | "AAAA" | "CNAME" | "MX" | "TXT" | "NS" => {}
            _ => return Err(Refused::invalid("type is not known")),
        }
        let proxied = field("proxied").as_bool().unwrap_or(false);
        if proxied && !proxiable {
            return Err(Refused::invalid("This record type cannot be proxied."));
        }
        let ttl = if proxied {
            1
        } else {
            field("ttl").as_u64().unwrap_or(1)
        };
        if ttl != 1 && !(60..=86_400).contains(&ttl) {
            return Err(Refused::invalid(
                "ttl must be between 60 and 86400 seconds, or 1 for automatic.",
            ));
        }
        for other in self.records.iter().filter(|other| other["id"] != id) {
            if other["name"] != name.as_str() {
                continue;
            }
            if other["type"] == kind.as_str() && other["content"] == content.as_str() {
                return Err(Refused::TWICE);
            }
            if (other["type"] == "CNAME") != (kind == "CNAME") {
                return Err(Refused::BESIDE);
            }
        }
        let now = Timestamp::now().to_string();
        let mut record = json!({
            "id": id,
            "name": name,
            "type": kind,
            "content": content,
            "proxiable": proxiable,
            "proxied": proxied,
            "ttl": ttl,
            "settings": {},
            "meta": {},
            "comment": field("comment"),
            "tags": [],
            "created_on": old["created_on"].as_str().unwrap_or(&now),
            "modified_on": now,
        });
        if kind == "MX" {
            record["priority"] = field("priority");
        }
        Ok(record)
    }
}
