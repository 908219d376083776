//! Cloudflare's zones.
//!
//! A zone is its identifier, and a name is full. All changes of a name are one batch, which
//! Cloudflare does whole or not at all. Records are never proxied: what stands in them is
//! an address that answers itself.

mod api;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use floe_core::nodepool::{
    cloud::Refusal,
    records::{Found, RecordSet, family_of},
};
use http::{Method, header::AUTHORIZATION};
use serde_json::{Value, json};

use self::api::{Api, Record};
use super::plan::{self, Existing, Note, Plan};
use crate::{
    cloud::query::{self, Environment},
    floating::Reply,
    http::{AGENT, Http},
    names::{Dns, OWNER_PREFIX},
};

/// How many changes a batch may have on every plan.
const BATCH: usize = 200;

/// How long a note may be remembered, in seconds: nobody asks for it often.
const NOTE_TTL: u32 = 300;

/// The client.
#[derive(Debug)]
pub struct Cloudflare {
    api: Api,
}

/// The client that the environment has a token for in `CLOUDFLARE_TOKEN`;
/// `CLOUDFLARE_API_URL` and `CLOUDFLARE_USER_AGENT` say where the API is and who calls.
///
/// # Errors
/// When a setting makes no sense, in words for whoever wrote it.
pub fn from_environment(environment: Environment<'_>) -> Result<Option<Cloudflare>, String> {
    let Some(token) = query::secret(environment, "CLOUDFLARE_TOKEN")? else {
        return Ok(None);
    };
    let url = query::option(environment, "CLOUDFLARE_API_URL");
    let agent = query::option(environment, "CLOUDFLARE_USER_AGENT");
    let http = Http::new(
        url.as_deref()
            .unwrap_or("https://api.cloudflare.com/client/v4"),
        agent.as_deref().unwrap_or(AGENT),
    )?;
    let bearer = format!("Bearer {}", token.expose());
    let http = http.with_secret(AUTHORIZATION, &bearer)?;
    Ok(Some(Cloudflare::new(http)))
}

impl Cloudflare {
    /// A client with the rights of the credentials of `http`.
    pub fn new(http: Http) -> Self {
        Self {
            api: Api::new(http),
        }
    }

    async fn addresses(&self, zone: &str, name: &str) -> Result<Vec<(IpAddr, Record)>, Refusal> {
        let records = self.api.records(zone, name).await?;
        let with_address = |record: Record| {
            let ip: IpAddr = record.content.parse().ok()?;
            (record.kind == plan::kind(ip)).then_some((ip, record))
        };
        Ok(records.into_iter().filter_map(with_address).collect())
    }

    /// The notes of a name, the oldest first.
    async fn notes(&self, zone: &str, name: &str) -> Result<Vec<Note>, Refusal> {
        let mut records = self.api.records(zone, &note_name(name)).await?;
        records.retain(|record| record.kind == "TXT");
        records.sort_by(|a, b| (&a.created_on, &a.id).cmp(&(&b.created_on, &b.id)));
        let note = |record: Record| Note {
            owner: record.content.trim_matches('"').to_owned(),
            id: record.id,
        };
        Ok(records.into_iter().map(note).collect())
    }

    /// Writes the note where there is none, and looks who was first.
    async fn claim(&self, zone: &str, name: &str, owner: &str) -> Result<(), Refusal> {
        let note = json!({
            "type": "TXT",
            "name": note_name(name),
            "content": format!("\"{owner}\""),
            "ttl": NOTE_TTL,
        });
        let path = format!("/zones/{zone}/dns_records");
        self.api.write(Method::POST, &path, &note).await?;
        let notes = self.notes(zone, name).await?;
        let Err(refusal) = plan::ours(&notes, owner, name) else {
            return Ok(());
        };
        let mine = notes.into_iter().filter(|note| note.owner == owner);
        self.batch(zone, "deletes", mine.map(|note| json!({"id": note.id})))
            .await?;
        Err(refusal)
    }

    /// Makes changes of one kind, in as few batches as possible.
    async fn batch(
        &self,
        zone: &str,
        kind: &str,
        changes: impl Iterator<Item = Value>,
    ) -> Result<(), Refusal> {
        let changes: Vec<Value> = changes.collect();
        for some in changes.chunks(BATCH) {
            self.send_batch(zone, &json!({kind: some})).await?;
        }
        Ok(())
    }

    async fn send_batch(&self, zone: &str, batch: &Value) -> Result<(), Refusal> {
        let path = format!("/zones/{zone}/dns_records/batch");
        self.api.write(Method::POST, &path, batch).await
    }

    async fn apply(&self, wanted: &RecordSet, plan: Plan) -> Result<(), Refusal> {
        let zone = &wanted.zone;
        let body = |ip: IpAddr| {
            let mut body = json!({
                "type": plan::kind(ip),
                "name": wanted.name,
                "content": ip,
                "proxied": false,
            });
            // Without one it is Cloudflare's business; 0 would be refused.
            if wanted.ttl != 0 {
                body["ttl"] = wanted.ttl.into();
            }
            body
        };
        let all = plan.edit.len() + plan.create.len() + plan.delete.len();
        let patches = plan.edit.into_iter().map(|(id, ip)| {
            let mut patch = body(ip);
            patch["id"] = id.into();
            patch
        });
        let posts = plan.create.into_iter().map(body);
        let deletes = plan.delete.into_iter().map(|id| json!({"id": id}));
        if all <= BATCH {
            let batch = json!({
                "deletes": deletes.collect::<Vec<_>>(),
                "patches": patches.collect::<Vec<_>>(),
                "posts": posts.collect::<Vec<_>>(),
            });
            return self.send_batch(zone, &batch).await;
        }
        // Too much for one: then addresses come before others go.
        self.batch(zone, "patches", patches).await?;
        self.batch(zone, "posts", posts).await?;
        self.batch(zone, "deletes", deletes).await
    }

    async fn ensure_all(&self, wanted: &RecordSet) -> Result<(), Refusal> {
        let (zone, name) = (&wanted.zone, &wanted.name);
        let mut addresses = self.addresses(zone, name).await?;
        addresses.retain(|(ip, _)| wanted.keeps(family_of(*ip)));
        let notes = self.notes(zone, name).await?;
        let kept = plan::ours(&notes, &wanted.owner, name)?.is_some();
        let existing = addresses.into_iter().map(|(ip, record)| Existing {
            ip,
            right: wanted.takes(record.ttl) && !record.proxied,
            id: record.id,
        });
        let plan = Plan::new(existing.collect(), &wanted.addresses);
        let nothing = plan.is_empty() && wanted.addresses.is_empty();
        if !kept && !nothing {
            self.claim(zone, name, &wanted.owner).await?;
        }
        if plan.is_empty() {
            return Ok(());
        }
        self.apply(wanted, plan).await
    }

    async fn remove_all(&self, set: &RecordSet) -> Result<(), Refusal> {
        let (zone, name, owner) = (&set.zone, &set.name, &set.owner);
        let notes = self.notes(zone, name).await?;
        let kept = plan::ours(&notes, owner, name)?.is_some();
        let mut addresses = self.addresses(zone, name).await?;
        addresses.retain(|(ip, _)| set.keeps(family_of(*ip)));
        if !kept {
            return if addresses.is_empty() {
                Ok(())
            } else {
                Err(plan::unkept(name))
            };
        }
        let addresses = addresses.into_iter().map(|(_, record)| record.id);
        let mine = notes.into_iter().filter(|note| note.owner == *owner);
        let ids = addresses.chain(mine.map(|note| note.id));
        self.batch(zone, "deletes", ids.map(|id| json!({"id": id})))
            .await
    }

    async fn read_all(&self, zone: &str, name: &str) -> Result<Found, Refusal> {
        let addresses = self.addresses(zone, name).await?;
        let notes = self.notes(zone, name).await?;
        Ok(Found {
            addresses: addresses.into_iter().map(|(ip, _)| ip).collect(),
            owner: notes.into_iter().next().map(|note| note.owner),
        })
    }
}

fn note_name(name: &str) -> String {
    format!("{OWNER_PREFIX}.{name}")
}

impl Dns for Cloudflare {
    fn read<'a>(&'a self, zone: &'a str, name: &'a str) -> Reply<'a, Found> {
        Box::pin(self.read_all(zone, name))
    }

    fn ensure<'a>(&'a self, wanted: &'a RecordSet) -> Reply<'a, ()> {
        Box::pin(self.ensure_all(wanted))
    }

    fn remove<'a>(&'a self, set: &'a RecordSet) -> Reply<'a, ()> {
        Box::pin(self.remove_all(set))
    }

    fn full_name(&self, _zone: &str, name: &str) -> String {
        name.to_owned()
    }
}
