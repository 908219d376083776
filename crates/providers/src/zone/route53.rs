//! Amazon Route 53.
//!
//! A zone is named by its id, a record by its full name. All changes of a name go in one
//! batch, which is done as a whole or not at all. The note that says who keeps the name is
//! in that batch too. A note that was not there is created, which fails if there is one by
//! then, so that of two that want the name at once one is refused; and a note is deleted
//! only as it was read. So a note changes hands only after its keeper has let go of it.
//!
//! A change has been taken when Route 53 answers; its name servers have it up to a minute
//! later, which nobody waits for.

#[cfg(test)]
mod tests;
mod text;
mod wire;

use std::{collections::BTreeSet, net::IpAddr};

use floe_core::ipam::families::Family;
use floe_core::nodepool::{
    cloud::{Class, Refusal},
    records::{Found, RecordSet, family_of},
};
use http::{HeaderValue, Method, header::CONTENT_TYPE};

use crate::{
    aws_request::{self, Service},
    cloud::query::{Environment, with_query},
    floating::Reply,
    http::Request,
    names::{Dns, OWNER_PREFIX},
};
use wire::{Action, Change, Changed, Page, Set};

/// The version of the API, as it stands in paths.
const VERSION: &str = "2013-04-01";

/// The most that a page can have.
const PER_PAGE: &str = "300";

/// The zones of an account.
#[derive(Clone, Debug)]
pub struct Route53 {
    service: Service,
}

/// The client that the environment has credentials for. See [`aws_request`].
///
/// # Errors
/// When what is set cannot be used, in words for whoever set it.
pub fn from_environment(environment: Environment<'_>) -> Result<Option<Route53>, String> {
    Ok(aws_request::route53(environment)?.map(Route53::new))
}

/// What there is of a name.
#[derive(Debug, Default)]
struct Now {
    a: Option<Set>,
    aaaa: Option<Set>,
    note: Option<Set>,
    /// Somebody has given the name another meaning than addresses.
    otherwise: Option<&'static str>,
}

impl Route53 {
    /// A client of Route 53.
    pub fn new(service: Service) -> Self {
        Self { service }
    }

    async fn now(&self, zone: &str, name: &str) -> Result<Now, Refusal> {
        let mut now = Now::default();
        for set in self.sets(zone, name, None).await? {
            if set.is_special() {
                now.otherwise = Some("a routing policy or an alias of AWS");
                continue;
            }
            match set.kind.as_str() {
                "A" => now.a = Some(set),
                "AAAA" => now.aaaa = Some(set),
                "CNAME" => now.otherwise = Some("an alias"),
                _ => {}
            }
        }
        let notes = self.sets(zone, &note_of(name), Some("TXT")).await?;
        now.note = notes.into_iter().find(|set| set.kind == "TXT");
        Ok(now)
    }

    /// All sets of a name, or those of one type.
    async fn sets(&self, zone: &str, name: &str, kind: Option<&str>) -> Result<Vec<Set>, Refusal> {
        let path = path(zone)?;
        let mut sets = Vec::new();
        let mut from = vec![("name", name.to_owned()), ("maxitems", PER_PAGE.to_owned())];
        if let Some(kind) = kind {
            from.push(("type", kind.to_owned()));
        }
        loop {
            let pairs: Vec<(&str, &str)> = from
                .iter()
                .map(|(key, value)| (*key, value.as_str()))
                .collect();
            let request = Request::new(Method::GET, with_query(&path, &pairs));
            let page: Page = self.service.ask(request).await?;
            let all = page.sets.all.into_iter();
            sets.extend(all.filter(|set| {
                text::same_name(&set.name, name) && kind.is_none_or(|kind| kind == set.kind)
            }));
            // Lists are in the order of names: those after it are of no interest.
            if !page.is_truncated || !text::same_name(&page.next_name, name) {
                return Ok(sets);
            }
            from = vec![
                ("name", page.next_name),
                ("type", page.next_kind),
                ("maxitems", PER_PAGE.to_owned()),
            ];
            if !page.next_identifier.is_empty() {
                from.push(("identifier", page.next_identifier));
            }
        }
    }

    async fn write(&self, wanted: &RecordSet) -> Result<(), Refusal> {
        let name = plain(&wanted.name);
        let now = self.now(&wanted.zone, name).await?;
        now.check(name, &wanted.owner)?;
        if let Some(what) = now.otherwise {
            let words = format!("{name} is {what}");
            return Err(Refusal::new(Class::HeldElsewhere, words));
        }
        let changes = changes(name, &now, wanted);
        self.change(&wanted.zone, &changes).await
    }

    async fn erase(&self, set: &RecordSet) -> Result<(), Refusal> {
        let (zone, name) = (&set.zone, plain(&set.name));
        let now = self.now(zone, name).await?;
        now.check(name, &set.owner)?;
        let own = [(Family::V4, now.a), (Family::V6, now.aaaa)];
        let own = own.into_iter().filter(|(family, _)| set.keeps(*family));
        let mut own = own.filter_map(|(_, records)| records).peekable();
        let Some(note) = now.note else {
            return if own.peek().is_none() {
                Ok(())
            } else {
                let words = format!("{name} has addresses, and no note says who keeps them");
                Err(Refusal::new(Class::HeldElsewhere, words))
            };
        };
        let changes = own.chain([note]);
        let changes: Vec<Change> = changes
            .map(|set| Change::new(Action::Delete, set))
            .collect();
        self.change(zone, &changes).await
    }

    async fn change(&self, zone: &str, changes: &[Change]) -> Result<(), Refusal> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut request = Request::new(Method::POST, format!("{}/", path(zone)?));
        let kind = HeaderValue::from_static("application/xml");
        request.headers.insert(CONTENT_TYPE, kind);
        request.body = wire::batch(VERSION, changes).into_bytes();
        let _: Changed = self.service.ask(request).await?;
        Ok(())
    }
}

impl Now {
    /// Refuses a name that somebody else keeps.
    fn check(&self, name: &str, owner: &str) -> Result<(), Refusal> {
        match self.owner() {
            Some(other) if other != owner => {
                let words = format!("{name} is kept by {other:?}");
                Err(Refusal::new(Class::HeldElsewhere, words))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn owner(&self) -> Option<String> {
        let value = self.note.as_ref()?.values().next()?;
        Some(text::unquoted(value))
    }

    fn addresses(&self) -> BTreeSet<IpAddr> {
        let sets = [&self.a, &self.aaaa].into_iter().flatten();
        let values = sets.flat_map(Set::values);
        values.filter_map(|value| value.parse().ok()).collect()
    }
}

/// The changes that make a name say what it shall.
fn changes(name: &str, now: &Now, wanted: &RecordSet) -> Vec<Change> {
    let mut changes = Vec::new();
    for (kind, family, set) in [("A", Family::V4, &now.a), ("AAAA", Family::V6, &now.aaaa)] {
        if !wanted.keeps(family) {
            continue;
        }
        let of_kind = wanted.addresses.iter();
        let of_kind = of_kind.filter(|ip| family_of(**ip) == family);
        let addresses: BTreeSet<IpAddr> = of_kind.copied().collect();
        match set {
            None if addresses.is_empty() => {}
            Some(set) if addresses.is_empty() => {
                changes.push(Change::new(Action::Delete, set.clone()));
            }
            Some(set) if set.says(&addresses) && wanted.takes(set.ttl) => {}
            Some(_) | None => {
                let values = addresses.iter().map(ToString::to_string);
                let set = Set::new(name, kind, wanted.ttl_or_usual(), values);
                changes.push(Change::new(Action::Upsert, set));
            }
        }
    }
    let value = text::quoted(&wanted.owner);
    let note = Set::new(&note_of(name), "TXT", wanted.ttl_or_usual(), [value]);
    match &now.note {
        // It has nothing to keep.
        None if changes.is_empty() && wanted.addresses.is_empty() => {}
        Some(_) if changes.is_empty() => {}
        Some(_) => changes.push(Change::new(Action::Upsert, note)),
        None => changes.push(Change::new(Action::Create, note)),
    }
    changes
}

fn note_of(name: &str) -> String {
    format!("{OWNER_PREFIX}.{name}")
}

fn plain(name: &str) -> &str {
    name.trim_end_matches('.')
}

/// Where the sets of a zone are. Whatever is no id would lead elsewhere.
fn path(zone: &str) -> Result<String, Refusal> {
    let id = zone.strip_prefix("/hostedzone/").unwrap_or(zone);
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        let words = format!("{zone:?} is no id of a hosted zone");
        return Err(Refusal::new(Class::ZoneUnknown, words));
    }
    Ok(format!("/{VERSION}/hostedzone/{id}/rrset"))
}

impl Dns for Route53 {
    fn read<'a>(&'a self, zone: &'a str, name: &'a str) -> Reply<'a, Found> {
        Box::pin(async move {
            let now = self.now(zone, plain(name)).await?;
            Ok(Found {
                addresses: now.addresses(),
                owner: now.owner(),
            })
        })
    }

    fn ensure<'a>(&'a self, wanted: &'a RecordSet) -> Reply<'a, ()> {
        Box::pin(self.write(wanted))
    }

    fn remove<'a>(&'a self, set: &'a RecordSet) -> Reply<'a, ()> {
        Box::pin(self.erase(set))
    }

    fn full_name(&self, _: &str, name: &str) -> String {
        plain(name).to_owned()
    }
}
