//! Addresses as the API shows them.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use floe_api::rest::v2::{Holder, Ip, Phase, State};
use floe_core::{
    catalogue::{Item, Row},
    config::{Entry, EntryId, Topology},
    explain::is_releasable,
    ipam::{
        key::{HolderKey, KeyParts, KindPrefix},
        slot::Sighting,
        state,
    },
};
use jiff::Timestamp;

use crate::{
    cluster::{self, Pod},
    rest::Rest,
};

/// What an address has from its entry of the configuration.
#[derive(Clone)]
struct Place {
    subnet: String,
    gateway: String,
    vlan: Option<u16>,
    node_subnets: Vec<String>,
}

/// Addresses as they are shown. Their places are looked up in one short look at the
/// books.
pub fn ips(rest: &Rest, items: &[Item]) -> Vec<Ip> {
    let mut places: BTreeMap<usize, Place> = BTreeMap::new();
    let entries: Vec<Option<usize>> = rest.store.read(|books| {
        let topology = books.ledger().topology();
        let entries = items.iter().map(|item| {
            let id = entry_of(topology, item)?;
            let place = || Place::of(topology.entry(id));
            places.entry(id.position()).or_insert_with(place);
            Some(id.position())
        });
        entries.collect()
    });
    let knows_pods = rest.store.warmth().borrow().pods;
    let items = items.iter().zip(entries);
    items
        .map(|(item, entry)| {
            let place = entry.and_then(|entry| places.get(&entry));
            ip(rest, item, place, knows_pods)
        })
        .collect()
}

/// One address as it is shown.
pub fn one(rest: &Rest, item: &Item) -> Ip {
    let place = rest.store.read(|books| {
        let topology = books.ledger().topology();
        let entry = entry_of(topology, item)?;
        Some(Place::of(topology.entry(entry)))
    });
    let knows_pods = rest.store.warmth().borrow().pods;
    ip(rest, item, place.as_ref(), knows_pods)
}

/// The entry that has an address for its holder, or for anybody.
fn entry_of(topology: &Topology, item: &Item) -> Option<EntryId> {
    match item {
        Item::Held(row) if row.key.is_vip() => topology
            .shared_of(row.ip)
            .or_else(|| topology.entry_of(row.ip)),
        Item::Held(_) | Item::Free(_) => topology.entry_of(item.ip()),
    }
}

/// Who holds an address by its key; `None` for a key of another form.
pub fn holder(key: &HolderKey) -> Option<Holder> {
    key.parts().map(|parts| parts_of(&parts))
}

/// The parts of a key as they are shown.
pub fn parts_of(parts: &KeyParts<'_>) -> Holder {
    Holder {
        pool: parts.pool.unwrap_or_default().to_owned(),
        app_type: KindPrefix::from_key(parts.kind).app_type().to_owned(),
        namespace: parts.namespace.to_owned(),
        app: parts.app.to_owned(),
        pod: parts.pod.to_owned(),
    }
}

/// What a pod means for a record with this uid. One that shows the address runs
/// with it, whatever its uid is.
pub fn sighting<'a>(pod: Option<&'a Pod>, ip: IpAddr, uid: &'a str) -> Sighting<'a> {
    let Some(pod) = pod else {
        return Sighting::NotFound;
    };
    let finished = pod.phase == cluster::Phase::Finished;
    let shows = !finished && pod.addresses.contains(&ip);
    let uid = if shows && !uid.is_empty() {
        uid
    } else {
        &pod.uid
    };
    Sighting::Found { uid, finished }
}

fn ip(rest: &Rest, item: &Item, place: Option<&Place>, knows_pods: bool) -> Ip {
    let place = place.cloned();
    let (subnet, gateway, vlan, node_subnets) = match place {
        None => (None, None, None, Vec::new()),
        Some(it) => (Some(it.subnet), Some(it.gateway), it.vlan, it.node_subnets),
    };
    let free = Ip {
        ip: item.ip().to_string(),
        state: State::Free,
        key: None,
        holder: None,
        policy: None,
        node: None,
        pod_uid: None,
        pod_phase: None,
        since: None,
        releasable: false,
        subnet,
        gateway,
        vlan,
        node_subnets,
    };
    match item {
        Item::Free(_) => free,
        Item::Held(row) => held(rest, row, free, knows_pods),
    }
}

fn held(rest: &Rest, row: &Row, free: Ip, knows_pods: bool) -> Ip {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let holder = holder(&row.key);
    let named = holder.as_ref().filter(|holder| !holder.pod.is_empty());
    let pod: Option<Arc<Pod>> = named.and_then(|it| rest.cluster.pod(&it.namespace, &it.pod));
    let sighting = if knows_pods {
        sighting(pod.as_deref(), row.ip, &row.uid)
    } else {
        Sighting::Unreadable
    };
    let is_idle = row.uid.is_empty() && row.node.is_empty();
    let is_reserved = row.state == state::State::Reserved;
    let releasable = !is_reserved && is_releasable(&row.key, &row.uid, is_idle, sighting);
    let phase = (named.is_some() && knows_pods).then(|| phase(pod.as_deref()));
    Ip {
        state: shown(row.state),
        key: Some(row.key.as_str().to_owned()),
        holder,
        policy: Some(row.policy.text().to_owned()),
        node: given(&row.node),
        pod_uid: given(&row.uid),
        pod_phase: phase,
        since: (row.updated != Timestamp::UNIX_EPOCH).then(|| row.updated.to_string()),
        releasable,
        ..free
    }
}

fn phase(pod: Option<&Pod>) -> Phase {
    match pod.map(|pod| pod.phase) {
        None => Phase::Gone,
        Some(cluster::Phase::Pending) => Phase::Pending,
        Some(cluster::Phase::Running) => Phase::Running,
        Some(cluster::Phase::Finished) => Phase::Finished,
    }
}

fn shown(state: state::State) -> State {
    match state {
        state::State::Free => State::Free,
        state::State::Bound => State::Bound,
        state::State::Kept => State::Kept,
        state::State::Spare => State::Spare,
        state::State::Reserved => State::Reserved,
        state::State::Shared => State::Shared,
        state::State::Foreign => State::Foreign,
    }
}

impl Place {
    fn of(entry: &Entry) -> Self {
        let node_subnets = entry.node_subnets().iter();
        Self {
            subnet: entry.network().to_string(),
            gateway: entry.gateway().to_string(),
            vlan: Some(entry.vlan()).filter(|vlan| *vlan != 0),
            node_subnets: node_subnets.map(ToString::to_string).collect(),
        }
    }
}
