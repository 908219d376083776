//! DigitalOcean's domains.
//!
//! A zone is a domain, and a name is relative to it (`@` is the domain itself). Records are
//! written one by one: first the note, then addresses that come, last those that go. Notes
//! are numbered by the server, and of two the lower number counts.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use floe_core::nodepool::{
    cloud::{Class, Refusal},
    records::{Found, RecordSet, family_of},
};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::plan::{self, Existing, Note, Plan};
use crate::{
    cloud::{
        digitalocean::{
            self as cloud,
            api::{self, Api},
        },
        query::{Environment, with_query},
    },
    floating::Reply,
    http::{Http, Request},
    names::{Dns, OWNER_PREFIX},
};

/// How long a note may be remembered, in seconds: nobody asks for it often.
const NOTE_TTL: u32 = 300;

/// The client.
#[derive(Debug)]
pub struct DigitalOceanDns {
    api: Api,
}

/// A record of the zone.
#[derive(Debug, Deserialize)]
struct Record {
    id: u64,
    #[serde(rename = "type")]
    kind: String,
    data: String,
    ttl: u32,
}

/// Where a name is.
struct Place<'a> {
    zone: &'a str,
    name: &'a str,
    full: String,
}

impl<'a> Place<'a> {
    fn new(zone: &'a str, name: &'a str) -> Self {
        let name = if name.is_empty() { "@" } else { name };
        let full = full(zone, name);
        Self { zone, name, full }
    }

    /// The name of the note, relative and in full.
    fn note(&self) -> (String, String) {
        let relative = match self.name {
            "@" => OWNER_PREFIX.to_owned(),
            name => format!("{OWNER_PREFIX}.{name}"),
        };
        (relative, format!("{OWNER_PREFIX}.{}", self.full))
    }

    fn records(&self) -> Result<String, Refusal> {
        let zone = plan::part_of_path(self.zone)?;
        Ok(format!("/v2/domains/{zone}/records"))
    }
}

fn full(zone: &str, name: &str) -> String {
    if matches!(name, "" | "@") {
        zone.to_owned()
    } else {
        format!("{name}.{zone}")
    }
}

/// The client that the environment has credentials for: those of the cloud.
///
/// # Errors
/// When a setting makes no sense, in words for whoever wrote it.
pub fn from_environment(environment: Environment<'_>) -> Result<Option<DigitalOceanDns>, String> {
    Ok(cloud::http(environment)?.map(DigitalOceanDns::new))
}

impl DigitalOceanDns {
    /// A client of the account that the credentials of `http` are for.
    pub fn new(http: Http) -> Self {
        Self {
            api: Api::new(http),
        }
    }

    /// All records of a full name.
    async fn records(&self, place: &Place<'_>, full: &str) -> Result<Vec<Record>, Refusal> {
        let path = with_query(&place.records()?, &[("name", full)]);
        let found = self.api.pages(&path, "domain_records").await?;
        found.ok_or_else(|| {
            let words = format!("the account has no domain {}", place.zone);
            Refusal::new(Class::ZoneUnknown, words)
        })
    }

    async fn addresses(&self, place: &Place<'_>) -> Result<Vec<(IpAddr, Record)>, Refusal> {
        let records = self.records(place, &place.full).await?;
        let with_address = |record: Record| {
            let ip: IpAddr = record.data.parse().ok()?;
            (record.kind == plan::kind(ip)).then_some((ip, record))
        };
        Ok(records.into_iter().filter_map(with_address).collect())
    }

    async fn notes(&self, place: &Place<'_>) -> Result<Vec<Note>, Refusal> {
        let mut records = self.records(place, &place.note().1).await?;
        records.retain(|record| record.kind == "TXT");
        records.sort_by_key(|record| record.id);
        let note = |record: Record| Note {
            id: record.id.to_string(),
            owner: record.data.trim_matches('"').to_owned(),
        };
        Ok(records.into_iter().map(note).collect())
    }

    async fn write(&self, method: Method, path: String, body: &Value) -> Result<(), Refusal> {
        let answer = self.api.send(Request::new(method, path).json(body)).await?;
        api::good(&answer, Class::Busy).map(drop)
    }

    /// Deletes a record. Where there is none, it is done.
    async fn delete(&self, place: &Place<'_>, id: &str) -> Result<(), Refusal> {
        let path = format!("{}/{id}", place.records()?);
        let answer = self.api.send(Request::new(Method::DELETE, path)).await?;
        if answer.status == http::StatusCode::NOT_FOUND {
            return Ok(());
        }
        api::good(&answer, Class::Busy).map(drop)
    }

    /// Writes the note where there is none, and looks who was first.
    async fn claim(&self, place: &Place<'_>, owner: &str) -> Result<(), Refusal> {
        let (name, _) = place.note();
        let note = json!({"type": "TXT", "name": name, "data": owner, "ttl": NOTE_TTL});
        self.write(Method::POST, place.records()?, &note).await?;
        let notes = self.notes(place).await?;
        let Err(refusal) = plan::ours(&notes, owner, &place.full) else {
            return Ok(());
        };
        for note in notes.iter().filter(|note| note.owner == owner) {
            self.delete(place, &note.id).await?;
        }
        Err(refusal)
    }

    async fn ensure_all(&self, wanted: &RecordSet) -> Result<(), Refusal> {
        let place = Place::new(&wanted.zone, &wanted.name);
        let mut addresses = self.addresses(&place).await?;
        addresses.retain(|(ip, _)| wanted.keeps(family_of(*ip)));
        let notes = self.notes(&place).await?;
        let kept = plan::ours(&notes, &wanted.owner, &place.full)?.is_some();
        let existing = addresses.into_iter().map(|(ip, record)| Existing {
            id: record.id.to_string(),
            ip,
            right: wanted.takes(record.ttl),
        });
        let plan = Plan::new(existing.collect(), &wanted.addresses);
        let nothing = plan.is_empty() && wanted.addresses.is_empty();
        if !kept && !nothing {
            self.claim(&place, &wanted.owner).await?;
        }
        let body = |ip: IpAddr| {
            let mut body = json!({"type": plan::kind(ip), "name": place.name, "data": ip});
            // Without one the domain's own is taken; 0 would be refused.
            if wanted.ttl != 0 {
                body["ttl"] = wanted.ttl.into();
            }
            body
        };
        for (id, ip) in &plan.edit {
            let path = format!("{}/{id}", place.records()?);
            self.write(Method::PUT, path, &body(*ip)).await?;
        }
        for ip in &plan.create {
            self.write(Method::POST, place.records()?, &body(*ip))
                .await?;
        }
        for id in &plan.delete {
            self.delete(&place, id).await?;
        }
        Ok(())
    }

    async fn remove_all(&self, set: &RecordSet) -> Result<(), Refusal> {
        let place = Place::new(&set.zone, &set.name);
        let notes = self.notes(&place).await?;
        let kept = plan::ours(&notes, &set.owner, &place.full)?.is_some();
        let mut addresses = self.addresses(&place).await?;
        addresses.retain(|(ip, _)| set.keeps(family_of(*ip)));
        if !kept {
            return if addresses.is_empty() {
                Ok(())
            } else {
                Err(plan::unkept(&place.full))
            };
        }
        for (_, record) in addresses {
            self.delete(&place, &record.id.to_string()).await?;
        }
        // Last, so that whoever goes on after a failure still knows whose they were.
        for note in notes.iter().filter(|note| note.owner == set.owner) {
            self.delete(&place, &note.id).await?;
        }
        Ok(())
    }

    async fn read_all(&self, zone: &str, name: &str) -> Result<Found, Refusal> {
        let place = Place::new(zone, name);
        let addresses = self.addresses(&place).await?;
        let notes = self.notes(&place).await?;
        Ok(Found {
            addresses: addresses.into_iter().map(|(ip, _)| ip).collect(),
            owner: notes.into_iter().next().map(|note| note.owner),
        })
    }
}

impl Dns for DigitalOceanDns {
    fn read<'a>(&'a self, zone: &'a str, name: &'a str) -> Reply<'a, Found> {
        Box::pin(self.read_all(zone, name))
    }

    fn ensure<'a>(&'a self, wanted: &'a RecordSet) -> Reply<'a, ()> {
        Box::pin(self.ensure_all(wanted))
    }

    fn remove<'a>(&'a self, set: &'a RecordSet) -> Reply<'a, ()> {
        Box::pin(self.remove_all(set))
    }

    fn full_name(&self, zone: &str, name: &str) -> String {
        full(zone, name)
    }
}
