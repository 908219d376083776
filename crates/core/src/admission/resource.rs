//! floe's, galaxy's and FLIPOP's own kinds. What their schemas can say they say
//! themselves; here is the rest, and what depends on the books.

use serde_json::Value;

use super::{Finding, Verdict, Write, text, texts};
use crate::{
    addr::name,
    config::AddressConfig,
    ipam::{
        attribute::Attribute,
        key::{HolderKey, KeyParts, PoolName},
        ledger::{Ledger, Scope},
        policy::ReleasePolicy,
    },
    nodepool::{address, matching::Selector},
    vip::{
        VipId,
        grant::{self, Ask},
    },
    wording::counted,
};

/// A kind of floe, galaxy or FLIPOP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A taken address.
    FloatingIP,
    /// A limit for addresses that share the name of a pool.
    Pool,
    /// An address that several pods share.
    VirtualIP,
    /// Addresses of a cloud that are kept on nodes.
    FloatingIPPool,
    /// A name in DNS of nodes that fit.
    NodeDNSRecordSet,
}

impl Kind {
    /// The kind of a resource.
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        Some(match (group, resource) {
            ("galaxy.k8s.io", "floatingips") => Self::FloatingIP,
            ("galaxy.k8s.io", "pools") => Self::Pool,
            ("floe.dev", "virtualips") => Self::VirtualIP,
            ("flipop.digitalocean.com", "floatingippools") => Self::FloatingIPPool,
            ("flipop.digitalocean.com", "nodednsrecordsets") => Self::NodeDNSRecordSet,
            _ => return None,
        })
    }
}

/// The namespace whose Pools are for everybody.
const EVERYWHERE: &str = "kube-system";

/// Judges an object. Without books, what depends on them is not judged.
pub fn judge(kind: Kind, write: Write<'_>, ledger: Option<&Ledger>) -> Verdict {
    if write.is_farewell() {
        return Verdict::default();
    }
    let alone = |object| match kind {
        Kind::FloatingIP => record(object, ledger),
        Kind::Pool => pool(object, ledger),
        Kind::VirtualIP => shared(object, ledger),
        Kind::FloatingIPPool => node_pool(object),
        Kind::NodeDNSRecordSet => node_names(object),
    };
    match write {
        Write::Create(object) => alone(object),
        Write::Update { new, old } => {
            let mut verdict = alone(new).forgive(&alone(old));
            if kind == Kind::FloatingIP && text(new, "/spec/key") != text(old, "/spec/key") {
                let told = "and may lose it: its node takes the address off as soon as the \
                    record names another pod only, and configures it again when the key is \
                    reverted";
                verdict.warnings.extend(runs("spec.key", old, told));
            }
            verdict
        }
        Write::Delete(object) => Verdict {
            warnings: match kind {
                Kind::FloatingIP => runs("", object, "and goes on with it")
                    .into_iter()
                    .collect(),
                Kind::Pool | Kind::VirtualIP | Kind::FloatingIPPool | Kind::NodeDNSRecordSet => {
                    Vec::new()
                }
            },
            ..Verdict::default()
        },
    }
}

fn record(object: &Value, ledger: Option<&Ledger>) -> Verdict {
    let mut verdict = Verdict::default();
    let ip = match name::parse(text(object, "/metadata/name")) {
        Ok(ip) => Some(ip),
        Err(error) => {
            verdict.refuse(Finding::at("metadata.name", error.reason(), error));
            None
        }
    };
    let policy = &object["spec"]["policy"];
    let known = policy.as_i64().and_then(ReleasePolicy::from_number);
    if !policy.is_null() && known.is_none() {
        let told = format!("{policy} is none of 0, 1 and 2");
        verdict.refuse(Finding::at("spec.policy", "InvalidPolicy", told));
    }
    if Attribute::read(text(object, "/spec/attribute")).malformed {
        let told = "not a JSON text with NodeName and Uid, so it counts as empty";
        verdict.warn(Finding::at("spec.attribute", "MalformedAttribute", told));
    }
    if let Some((ip, ledger)) = ip.zip(ledger) {
        let topology = ledger.topology();
        if topology.entry_of(ip).is_none() && topology.shared_of(ip).is_none() {
            let told = format!("{ip} is in no entry of the address configuration");
            verdict.warn(Finding::at("metadata.name", "AddressNotConfigured", told));
        }
    }
    verdict
}

/// Whether a pod runs with the address of a record, and what the write means for it.
fn runs(place: &str, record: &Value, consequence: &str) -> Option<Finding> {
    let place_of_pod = Attribute::read(text(record, "/spec/attribute")).attribute;
    let key = HolderKey::from(text(record, "/spec/key"));
    if place_of_pod.uid.is_empty() || key.is_vip() {
        return None;
    }
    let told = format!(
        "{} runs with this address on {:?}, {consequence}",
        holder(&key),
        place_of_pod.node_name
    );
    Some(Finding::at(place, "PodRuns", told))
}

/// Whom a key stands for, in words for people.
pub(super) fn holder(key: &HolderKey) -> String {
    if let Some(VipId { namespace, name }) = key.vip() {
        return format!("VirtualIP {namespace}/{name}");
    }
    match key.parts() {
        Some(parts) if !parts.pod.is_empty() => format!("pod {}/{}", parts.namespace, parts.pod),
        _ => format!("holder {}", key.as_str()),
    }
}

fn pool(object: &Value, ledger: Option<&Ledger>) -> Verdict {
    let mut verdict = Verdict::default();
    let name = text(object, "/metadata/name");
    let namespace = text(object, "/metadata/namespace");
    if let Err(error) = PoolName::new(name) {
        verdict.refuse(Finding::at("metadata.name", error.reason(), error));
    }
    let size = object["size"].as_i64().unwrap_or_default();
    let Ok(limit) = usize::try_from(size) else {
        let told = format!("{size} is below 0");
        verdict.refuse(Finding::at("size", "InvalidPoolSize", told));
        return verdict;
    };
    let key = HolderKey::lookup(&KeyParts {
        pool: Some(name),
        ..KeyParts::default()
    });
    let scope = if namespace == EVERYWHERE {
        Scope::Group
    } else {
        Scope::Namespace(namespace)
    };
    let group = ledger.and_then(|ledger| ledger.group(&key));
    let used = group.map_or(0, |group| group.held(scope));
    if used > limit {
        let held = counted(used, "address of the pool is", "addresses of the pool are");
        let told = format!("{held} in use already; nothing is taken back");
        verdict.warn(Finding::at("size", "LimitExceeded", told));
    }
    verdict
}

fn shared(object: &Value, ledger: Option<&Ledger>) -> Verdict {
    let id = VipId {
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: match text(object, "/metadata/name") {
            // The API server makes one later.
            "" => "new".to_owned(),
            name => name.to_owned(),
        },
    };
    let list = |pointer| texts(object, pointer).map(|(_, text)| text.to_owned());
    let addresses: Vec<String> = list("/spec/addresses").collect();
    let ranges: Vec<String> = list("/spec/ranges").collect();
    let place = if addresses.is_empty() {
        "spec.ranges"
    } else {
        "spec.addresses"
    };
    let nothing = Ledger::new(AddressConfig::default());
    let ask = Ask {
        addresses: &addresses,
        ranges: &ranges,
    };
    let granted = grant::decide(&id, ask, ledger.unwrap_or(&nothing));
    let mut verdict = Verdict::default();
    for refusal in granted.refused {
        let finding = Finding::at(place, refusal.reason(), &refusal);
        if refusal.is_malformed() {
            verdict.refuse(finding);
        } else if ledger.is_some() {
            verdict.warn(finding);
        }
    }
    verdict
}

fn node_pool(object: &Value) -> Verdict {
    let mut verdict = selectors(object);
    let spec = &object["spec"];
    let none = texts(spec, "/ips").next().is_none();
    if none && spec["desiredIPs"].as_u64().unwrap_or_default() == 0 {
        let told = "ips or desiredIPs must be provided";
        verdict.refuse(Finding::at("spec", "NothingAsked", told));
    }
    for (number, ip) in texts(spec, "/ips") {
        if address::parse(ip).is_none() {
            let told = format!("{ip:?} is not an address");
            let place = format!("spec.ips[{number}]");
            verdict.refuse(Finding::at(place, "InvalidAddress", told));
        }
    }
    verdict
}

fn node_names(object: &Value) -> Verdict {
    let mut verdict = selectors(object);
    let named = |member: &str| !text(object, &format!("/spec/dnsRecordSet/{member}")).is_empty();
    if !named("zone") || !named("recordName") {
        let told = "invalid dnsRecordSet specification: zone and recordName must be provided";
        verdict.refuse(Finding::at("spec.dnsRecordSet", "InvalidRecordSet", told));
    }
    verdict
}

/// Compat: the words are FLIPOP's.
fn selectors(object: &Value) -> Verdict {
    let mut verdict = Verdict::default();
    for (member, what) in [("nodeLabel", "node"), ("podLabel", "pod")] {
        let written = text(object, &format!("/spec/match/{member}"));
        if let Err(error) = Selector::parse(written) {
            let told = format!("Error parsing {what} selector: {error}");
            let place = format!("spec.match.{member}");
            verdict.refuse(Finding::at(place, "InvalidSelector", told));
        }
    }
    verdict
}

#[cfg(test)]
mod tests;
