//! Records of addresses, as people see them.

use std::{cmp::Ordering, net::IpAddr};

use floe_api::galaxy::FloatingIP;
use floe_core::{
    addr::name,
    ipam::{
        key::{HolderKey, KeyParts, KindPrefix},
        policy::ReleasePolicy,
        state::State,
    },
};
use jiff::Timestamp;
use kube::{ResourceExt as _, api::DynamicObject, core::dynamic::ParseDynamicObjectError};

pub use filter::Filter;

use crate::{
    cluster::{Access, Cluster},
    console::Console,
    failure::Failure,
    fetch,
    ip::KIND,
};

mod filter;

/// One record.
#[derive(Clone, Debug)]
pub struct Record {
    /// The object with all that it has.
    pub raw: DynamicObject,
    /// The address; none when the name is no address.
    pub ip: Option<IpAddr>,
    /// The holder key.
    pub key: HolderKey,
    /// What the address is to its holder.
    pub state: State,
    /// How long it stays.
    pub policy: ReleasePolicy,
    /// The node that it is bound for; empty for none.
    pub node: String,
    /// The uid of the pod that runs with it; empty for none.
    pub uid: String,
    /// When it last changed hands.
    pub since: Option<Timestamp>,
    /// Whether it is marked as outside the configuration.
    pub is_outside: bool,
}

impl Record {
    /// Reads an object.
    pub fn read(raw: DynamicObject) -> Result<Self, ParseDynamicObjectError> {
        let object: FloatingIP = raw.clone().try_parse()?;
        let key = object.spec.holder();
        let place = object.spec.place().attribute;
        let state = if object.is_reserved() {
            State::Reserved
        } else {
            State::of_holding(&key, place.is_empty())
        };
        Ok(Self {
            ip: object.address().ok(),
            state,
            policy: object.spec.release_policy(),
            since: object.spec.update_time.as_ref().map(|time| time.0),
            is_outside: object.is_outside_configuration(),
            node: place.node_name,
            uid: place.uid,
            key,
            raw,
        })
    }

    /// The address, or the name of a record that has none.
    pub fn address(&self) -> String {
        self.ip
            .map_or_else(|| self.raw.name_any(), |ip| ip.to_string())
    }

    /// What the key says; nothing if it has another form.
    pub fn parts(&self) -> KeyParts<'_> {
        self.key.parts().unwrap_or_default()
    }

    /// Whether the key names a pod.
    pub fn names_pod(&self) -> bool {
        !self.parts().pod.is_empty()
    }

    /// Who holds the address, in short: a pod as `namespace/name`, a workload with its
    /// kind, a `VirtualIP` likewise, a pool, or what a reservation is for.
    pub fn holder(&self) -> String {
        if let Some(vip) = self.key.vip() {
            return format!("{}/vip/{}", vip.namespace, vip.name);
        }
        let parts = self.parts();
        match parts.pool {
            _ if !parts.pod.is_empty() => format!("{}/{}", parts.namespace, parts.pod),
            _ if !parts.app.is_empty() => format!("{}/{}", parts.namespace, self.workload()),
            Some(purpose) if self.state == State::Reserved => purpose.to_owned(),
            Some(pool) => format!("pool/{pool}"),
            None => self.key.to_string(),
        }
    }

    /// The workload with its kind, as kubectl names things; empty if there is none.
    pub fn workload(&self) -> String {
        let parts = self.parts();
        if parts.app.is_empty() {
            return String::new();
        }
        let kind = KindPrefix::from_key(parts.kind);
        if kind == KindPrefix::BARE {
            return String::new();
        }
        format!("{}/{}", kind.app_type(), parts.app)
    }

    /// By address, IPv4 first; records without one come last.
    pub fn order(&self, other: &Self) -> Ordering {
        let rank = |record: &Self| (record.ip.is_none(), record.ip, record.raw.name_any());
        rank(self).cmp(&rank(other))
    }
}

/// All records that a selector chooses, in order. One that cannot be read is told and
/// left out.
pub async fn all(
    cluster: &Cluster,
    console: &mut Console,
    selector: Option<&str>,
) -> Result<Vec<Record>, Failure> {
    let listed = fetch::all(&cluster.records(), selector, "records").await;
    let listed = listed.map_err(|error| cluster.failure(&error, Access::records("list")))?;
    let mut records = Vec::with_capacity(listed.len());
    for object in listed {
        let name = object.name_any();
        match Record::read(object) {
            Ok(record) => records.push(record),
            Err(error) => console.warn(&format!("record {name} cannot be read: {error}")),
        }
    }
    records.sort_by(Record::order);
    Ok(records)
}

/// The name without the kind before it, with which kubectl names objects.
pub fn bare(text: &str) -> &str {
    match text.split_once('/') {
        Some((KIND | "floatingip" | "floatingips" | "fip", name)) => name,
        _ => text,
    }
}

/// The object name of an address that somebody typed, in any spelling.
pub fn name_of(text: &str) -> Result<String, Failure> {
    let bare = bare(text);
    let typed = bare.parse().ok().or_else(|| name::parse(bare).ok());
    let ip = typed.ok_or_else(|| Failure::Usage(format!("{text:?} is no IP address")))?;
    Ok(name::name(ip))
}

#[cfg(test)]
mod tests;
