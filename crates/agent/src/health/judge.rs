//! What the facts about a node mean for its networks.

use std::collections::{BTreeMap, BTreeSet};

use floe_api::floe::{
    ADDRESS_CONFLICT, ConflictStatus, LinkStatus, MissingStatus, NetworkStatus, NodeNetworkStatus,
    READY, Summary,
};
use floe_core::node::settings::{NetworkConfig, Settings};
use floe_shell::version;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Map, Value};

/// What is known about a node.
pub struct Facts<'a> {
    /// Its networks.
    pub settings: &'a Settings,
    /// The links of [`parents`], each as it is, or why that is not known.
    pub links: &'a BTreeMap<String, Result<Option<LinkStatus>, String>>,
    /// The conflicts.
    pub conflicts: Vec<ConflictStatus>,
    /// The addresses that pods lack.
    pub missing: Vec<MissingStatus>,
    /// The conditions that were told before.
    pub before: &'a [Condition],
    /// Now, in whole seconds.
    pub now: Timestamp,
}

/// The names of all links that networks name as the one below them.
pub fn parents(settings: &Settings) -> BTreeSet<String> {
    let networks = settings.networks.values();
    let plugins = networks.flat_map(|network| &network.plugins);
    plugins.flat_map(candidates).collect()
}

/// What to tell about the node.
pub fn judge(facts: &Facts<'_>) -> NodeNetworkStatus {
    let networks: Vec<NetworkStatus> = facts
        .settings
        .networks
        .values()
        .map(|network| network_status(network, facts.links))
        .collect();
    let links = facts.links.values().flatten().flatten().cloned().collect();
    let ready = networks.iter().filter(|it| it.ready).count();
    let mut conditions = vec![
        ready_condition(&networks, facts.now),
        conflict_condition(&facts.conflicts, facts.now),
    ];
    keep_times(&mut conditions, facts.before);
    NodeNetworkStatus {
        agent_version: version::VERSION.to_owned(),
        last_seen: None,
        summary: Summary {
            networks: format!("{ready}/{}", networks.len()),
            conflicts: i64::try_from(facts.conflicts.len()).unwrap_or(i64::MAX),
        },
        networks,
        links,
        conflicts: facts.conflicts.clone(),
        missing: facts.missing.clone(),
        conditions,
    }
}

/// A condition has its time since its status changed, not since it was told.
pub fn keep_times(conditions: &mut [Condition], before: &[Condition]) {
    for condition in conditions {
        let same = before
            .iter()
            .find(|it| (&it.type_, &it.status) == (&condition.type_, &condition.status));
        if let Some(same) = same {
            condition.last_transition_time = same.last_transition_time.clone();
        }
    }
}

fn network_status(
    network: &NetworkConfig,
    links: &BTreeMap<String, Result<Option<LinkStatus>, String>>,
) -> NetworkStatus {
    let mut kinds = network.plugins.iter().filter_map(|it| it.get("type"));
    let kind = kinds.find_map(Value::as_str).unwrap_or_default();
    let verdicts = network.plugins.iter().filter_map(|it| parent(it, links));
    // Of several plugins one that cannot work counts.
    let mut verdicts: Vec<_> = verdicts.collect();
    verdicts.sort_by_key(|(ready, ..)| *ready);
    let (ready, reason, message) = verdicts.into_iter().next().unwrap_or((
        true,
        "NoParentLink",
        "it rests on no link".to_owned(),
    ));
    NetworkStatus {
        name: network.name.clone(),
        r#type: kind.to_owned(),
        ready,
        reason: reason.to_owned(),
        message,
    }
}

/// Whether the link below a plugin is fine; nothing if it names none.
fn parent(
    plugin: &Map<String, Value>,
    links: &BTreeMap<String, Result<Option<LinkStatus>, String>>,
) -> Option<(bool, &'static str, String)> {
    let names = candidates(plugin);
    let list = names.join(", ");
    let mut unknown = None;
    for name in &names {
        match links.get(name) {
            Some(Ok(Some(link))) if !link.up => {
                return Some((false, "ParentLinkDown", format!("{name} is down")));
            }
            Some(Ok(Some(link))) if !link.carrier => {
                let message = format!("{name} has no carrier");
                return Some((false, "ParentLinkNoCarrier", message));
            }
            Some(Ok(Some(_))) => return Some((true, "ParentLinkUp", format!("{name} is up"))),
            // The plugin takes the first one that is there.
            Some(Ok(None)) | None => {}
            Some(Err(error)) => unknown = Some(error),
        }
    }
    match unknown {
        Some(error) => Some((false, "ParentLinkUnknown", error.clone())),
        None if names.is_empty() => None,
        None => Some((false, "ParentLinkMissing", format!("there is no {list}"))),
    }
}

/// The links that a plugin may rest on: floe's name them `device` or `devices`, others
/// `master`.
fn candidates(plugin: &Map<String, Value>) -> Vec<String> {
    let text = |name: &str| {
        let text = plugin.get(name).and_then(Value::as_str);
        text.filter(|it| !it.is_empty()).map(ToOwned::to_owned)
    };
    if let Some(one) = text("device").or_else(|| text("master")) {
        return vec![one];
    }
    let several = plugin.get("devices").and_then(Value::as_array);
    let several = several.into_iter().flatten().filter_map(Value::as_str);
    several
        .filter(|it| !it.is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

fn ready_condition(networks: &[NetworkStatus], now: Timestamp) -> Condition {
    let failing = networks.iter().filter(|it| !it.ready);
    let failing: Vec<String> = failing
        .map(|it| format!("{}: {}: {}", it.name, it.reason, it.message))
        .collect();
    if failing.is_empty() {
        let message = format!("all {} networks can be served", networks.len());
        condition(READY, true, "NetworksReady", message, now)
    } else {
        condition(READY, false, "NetworksNotReady", failing.join("; "), now)
    }
}

fn conflict_condition(conflicts: &[ConflictStatus], now: Timestamp) -> Condition {
    let told: Vec<String> = conflicts
        .iter()
        .map(|it| format!("{} of {} is in use by {}", it.ip, it.pod, it.mac))
        .collect();
    if told.is_empty() {
        let message = "no address of this node's pods is in use elsewhere".to_owned();
        condition(ADDRESS_CONFLICT, false, "NoConflicts", message, now)
    } else {
        condition(
            ADDRESS_CONFLICT,
            true,
            "AddressConflict",
            told.join("; "),
            now,
        )
    }
}

/// The API server takes no longer message in a condition.
const LONGEST: usize = 32_768;

fn condition(
    kind: &str,
    status: bool,
    reason: &str,
    mut message: String,
    now: Timestamp,
) -> Condition {
    message.truncate(message.floor_char_boundary(LONGEST));
    Condition {
        type_: kind.to_owned(),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: Time(now),
        observed_generation: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(networks: &[Value]) -> Settings {
        let text = json!({ "NetworkConf": networks }).to_string();
        Settings::parse(&text).unwrap()
    }

    fn link(name: &str, up: bool, carrier: bool) -> LinkStatus {
        LinkStatus {
            name: name.into(),
            up,
            carrier,
        }
    }

    fn told(
        settings: &Settings,
        links: &[(&str, Result<Option<LinkStatus>, String>)],
    ) -> Vec<(bool, String)> {
        let links = links
            .iter()
            .map(|(name, link)| ((*name).to_owned(), link.clone()))
            .collect();
        let status = judge(&Facts {
            settings,
            links: &links,
            conflicts: Vec::new(),
            missing: Vec::new(),
            before: &[],
            now: Timestamp::UNIX_EPOCH,
        });
        let networks = status.networks.into_iter();
        networks.map(|it| (it.ready, it.reason)).collect()
    }

    #[test]
    fn a_network_is_ready_when_the_link_below_it_is() {
        let vlan = settings(&[json!({ "type": "galaxy-k8s-vlan", "device": "eth1" })]);
        let said = |link| told(&vlan, &[("eth1", link)])[0].clone();
        let case = |ready, reason: &str| (ready, reason.to_owned());
        assert_eq!(
            said(Ok(Some(link("eth1", true, true)))),
            case(true, "ParentLinkUp")
        );
        assert_eq!(
            said(Ok(Some(link("eth1", false, false)))),
            case(false, "ParentLinkDown")
        );
        assert_eq!(
            said(Ok(Some(link("eth1", true, false)))),
            case(false, "ParentLinkNoCarrier")
        );
        assert_eq!(said(Ok(None)), case(false, "ParentLinkMissing"));
        assert_eq!(said(Err("no".into())), case(false, "ParentLinkUnknown"));
    }

    #[test]
    fn the_first_of_several_devices_that_is_there_counts() {
        let several = settings(&[json!({ "type": "galaxy-k8s-vlan", "devices": ["a", "b", "c"] })]);
        assert_eq!(
            parents(&several).into_iter().collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
        let links = [
            ("a", Ok(None)),
            ("b", Ok(Some(link("b", true, true)))),
            ("c", Ok(Some(link("c", false, false)))),
        ];
        assert_eq!(told(&several, &links), [(true, "ParentLinkUp".to_owned())]);
        let links = [("a", Ok(None)), ("b", Ok(None)), ("c", Ok(None))];
        assert_eq!(
            told(&several, &links),
            [(false, "ParentLinkMissing".to_owned())]
        );
    }

    #[test]
    fn a_network_without_a_link_is_ready() {
        let plain = settings(&[json!({ "type": "galaxy-flannel" })]);
        assert!(parents(&plain).is_empty());
        assert_eq!(told(&plain, &[]), [(true, "NoParentLink".to_owned())]);
    }

    #[test]
    fn the_node_is_ready_when_all_networks_are_and_since_then() {
        let two = settings(&[
            json!({ "name": "a", "type": "galaxy-k8s-vlan", "device": "eth1" }),
            json!({ "name": "b", "type": "macvlan", "master": "eth2" }),
        ]);
        let at = |second| Timestamp::from_second(second).unwrap();
        let look = |up, before: &[Condition], second| {
            let links = BTreeMap::from([
                ("eth1".to_owned(), Ok(Some(link("eth1", true, true)))),
                ("eth2".to_owned(), Ok(Some(link("eth2", up, up)))),
            ]);
            judge(&Facts {
                settings: &two,
                links: &links,
                conflicts: Vec::new(),
                missing: Vec::new(),
                before,
                now: at(second),
            })
        };
        let first = look(true, &[], 1);
        assert_eq!(first.summary.networks, "2/2");
        assert_eq!(
            (&*first.conditions[0].status, &*first.conditions[0].type_),
            ("True", READY)
        );
        let second = look(true, &first.conditions, 2);
        assert_eq!(second.conditions[0].last_transition_time, Time(at(1)));
        let third = look(false, &second.conditions, 3);
        let ready = &third.conditions[0];
        assert_eq!(
            (&*ready.status, &*ready.reason),
            ("False", "NetworksNotReady")
        );
        assert_eq!(ready.message, "b: ParentLinkDown: eth2 is down");
        assert_eq!(ready.last_transition_time, Time(at(3)));
        assert_eq!(third.conditions[1].last_transition_time, Time(at(1)));
        assert_eq!(third.summary.networks, "1/2");
        assert_eq!(third.links.len(), 2);
    }

    #[test]
    fn a_conflict_is_a_condition_of_its_own() {
        let conflict = ConflictStatus {
            ip: "10.0.0.5".into(),
            mac: "02:42:0a:00:00:05".into(),
            pod: "default/web-0".into(),
            since: Time(Timestamp::UNIX_EPOCH),
        };
        let status = judge(&Facts {
            settings: &Settings::default(),
            links: &BTreeMap::new(),
            conflicts: vec![conflict],
            missing: Vec::new(),
            before: &[],
            now: Timestamp::UNIX_EPOCH,
        });
        assert_eq!(status.summary.conflicts, 1);
        assert_eq!(status.conditions[0].status, "True");
        let condition = &status.conditions[1];
        assert_eq!(
            (&*condition.type_, &*condition.status),
            (ADDRESS_CONFLICT, "True")
        );
        assert_eq!(
            condition.message,
            "10.0.0.5 of default/web-0 is in use by 02:42:0a:00:00:05"
        );
    }
}
