//! The short words in which the checks of a name server are written.

use std::{collections::BTreeSet, fmt::Debug, net::IpAddr};

use floe_core::ipam::families::Family;
use floe_core::nodepool::{
    cloud::{Class, Refusal},
    records::RecordSet,
};

use super::{Record, Zones};
use crate::{
    conformance::report::{Checked, Miss, demand},
    names::OWNER_PREFIX,
};

/// A label of a zone that one check has for itself.
pub struct Desk<'a> {
    /// The server.
    pub zones: &'a dyn Zones,
    /// The label.
    pub label: String,
}

impl<'a> Desk<'a> {
    /// A desk for that label.
    pub fn new(zones: &'a dyn Zones, label: &str) -> Self {
        // No label is longer than 63, and some of these sentences are.
        let label = label.chars().take(50).collect::<String>();
        Self {
            zones,
            label: label.trim_end_matches('-').to_owned(),
        }
    }

    /// A long owner, as they are in life.
    pub fn owner(&self, who: &str) -> String {
        format!("0b6dbe0f-5c9f-4be8-a37a-2f1e7b4a1d01/FloatingIPPool/{who}/9e0d4f0c")
    }

    /// What the label shall say.
    pub fn wanted(&self, who: &str, addresses: &[&str]) -> Result<RecordSet, Miss> {
        Ok(RecordSet {
            zone: self.zones.zone(),
            name: self.zones.name(&self.label),
            addresses: parse(addresses)?,
            ttl: self.ttl(),
            owner: self.owner(who),
            families: [Family::V4, Family::V6].into(),
        })
    }

    /// A record with the usual time.
    pub fn record(&self, kind: &str, data: &str) -> Record {
        Record {
            kind: kind.to_owned(),
            data: data.to_owned(),
            ttl: self.ttl(),
        }
    }

    fn ttl(&self) -> u32 {
        self.zones.shortest().max(60)
    }

    /// Makes the label say this.
    pub async fn ensure(&self, who: &str, addresses: &[&str]) -> Checked {
        self.write(&self.wanted(who, addresses)?).await
    }

    /// The same with all that belongs to it.
    pub async fn write(&self, wanted: &RecordSet) -> Checked {
        let written = self.zones.dns().ensure(wanted).await;
        written.map_err(|refusal| format!("not written: {refusal:?}").into())
    }

    /// Removes what the label says.
    pub async fn remove(&self, who: &str) -> Checked {
        let removed = self.try_remove(who).await;
        removed.map_err(|refusal| format!("not removed: {refusal:?}").into())
    }

    /// The same, which may be refused.
    pub async fn try_remove(&self, who: &str) -> Result<(), Refusal> {
        self.try_remove_of(who, &[Family::V4, Family::V6]).await
    }

    /// The same of some families only.
    pub async fn try_remove_of(&self, who: &str, families: &[Family]) -> Result<(), Refusal> {
        let set = RecordSet {
            zone: self.zones.zone(),
            name: self.zones.name(&self.label),
            addresses: BTreeSet::new(),
            ttl: self.ttl(),
            owner: self.owner(who),
            families: families.iter().copied().collect(),
        };
        self.zones.dns().remove(&set).await
    }

    /// The full name, as the client says it.
    pub fn full_name(&self) -> String {
        let (zone, name) = (self.zones.zone(), self.zones.name(&self.label));
        let full = self.zones.dns().full_name(&zone, &name);
        full.trim_end_matches('.').to_owned()
    }

    /// The A and AAAA records that the server has.
    pub async fn addresses(&self) -> Result<Vec<Record>, Miss> {
        let records = self.zones.records(&self.label).await?;
        let is_address = |record: &Record| matches!(record.kind.as_str(), "A" | "AAAA");
        Ok(records.into_iter().filter(is_address).collect())
    }

    /// What the notes of the label say.
    pub async fn notes(&self) -> Result<Vec<String>, Miss> {
        let label = format!("{OWNER_PREFIX}.{}", self.label);
        let records = self.zones.records(&label).await?;
        Ok(records.into_iter().map(|record| record.data).collect())
    }

    /// Fails unless the server has exactly these addresses, each once, as the right types
    /// and with the usual time.
    pub async fn expect(&self, addresses: &[&str]) -> Checked {
        let records = self.addresses().await?;
        let mut wanted = Vec::new();
        for ip in parse(addresses)? {
            let kind = if ip.is_ipv4() { "A" } else { "AAAA" };
            wanted.push(self.record(kind, &ip.to_string()));
        }
        let mut found = Vec::new();
        for record in &records {
            // Servers write addresses of IPv6 in their own ways.
            let ip: Result<IpAddr, _> = record.data.parse();
            let ip = ip.map_err(|_| format!("{record:?} has no address"))?;
            found.push(Record {
                data: ip.to_string(),
                ..record.clone()
            });
        }
        wanted.sort();
        found.sort();
        demand(found == wanted, || {
            format!("the server has {found:?} instead of {wanted:?}")
        })
    }

    /// Fails unless the client finds this.
    pub async fn expect_found(&self, who: Option<&str>, addresses: &[&str]) -> Checked {
        let (zone, name) = (self.zones.zone(), self.zones.name(&self.label));
        let found = self.zones.dns().read(&zone, &name).await;
        let found = found.map_err(|refusal| format!("not read: {refusal:?}"))?;
        let owner = who.map(|who| self.owner(who));
        let wanted = parse(addresses)?;
        demand(found.owner == owner && found.addresses == wanted, || {
            format!("found {found:?} instead of {wanted:?} kept by {owner:?}")
        })
    }

    /// Fails unless it was refused so.
    pub fn expect_refusal<T: Debug>(&self, answer: Result<T, Refusal>, class: Class) -> Checked {
        match answer {
            Ok(answer) => Err(format!("{answer:?} instead of {class:?}").into()),
            Err(refusal) => demand(refusal.class == class, || {
                format!("{refusal:?} instead of {class:?}")
            }),
        }
    }
}

fn parse(addresses: &[&str]) -> Result<BTreeSet<IpAddr>, Miss> {
    let parse = |address: &&str| address.parse().map_err(|_| format!("{address}?").into());
    addresses.iter().map(parse).collect()
}
