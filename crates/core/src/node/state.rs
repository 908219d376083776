//! The file that says what was attached for a container, so that it can be
//! detached without asking anybody.
//!
//! ```json
//! [{"NetworkType": "galaxy-k8s-vlan",
//!   "Args": {"ipinfos": "[{\"ip\":\"10.0.0.5/24\",\"vlan\":2,\"gateway\":\"10.0.0.1\"}]"},
//!   "Conf": {"name": "galaxy-k8s-vlan", "type": "galaxy-k8s-vlan", "device": "eth1"},
//!   "IfName": "eth0",
//!   "Netns": "/var/run/netns/cni-1",
//!   "Pod": {"Namespace": "ns1", "Name": "a-0", "Uid": "u1"}}]
//! ```
//!
//! Compat: the first four members are galaxy's, so that each daemon reads the files of
//! the other. floe adds the last two, and `TakenOff` where an address was taken off, which
//! galaxy ignores.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use serde::Serialize;
use serde_json::{Map, Value};

use super::json;
use crate::{
    addr::canonical,
    cni::result::Outcome,
    ipam::args::IpInfo,
    json::{Names, decode},
};

/// What was attached for one container, in the order in which it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The attachments.
    pub attached: Vec<Attached>,
}

/// One plugin that was called.
#[derive(Clone, Debug, PartialEq)]
pub struct Attached {
    /// `NetworkType`: the network. The plugin is [`Attached::plugin`].
    pub kind: String,
    /// Arguments that were added to `CNI_ARGS`, with their raw values.
    pub args: BTreeMap<String, String>,
    /// The configuration, as it was given to the plugin.
    pub conf: Map<String, Value>,
    /// The interface.
    pub ifname: String,
    /// The namespace; absent in galaxy's files.
    pub netns: Option<String>,
    /// The pod; absent in galaxy's files.
    pub pod: Option<PodId>,
    /// The addresses that were taken off since, because their records named another pod.
    pub taken_off: BTreeSet<IpAddr>,
}

/// A pod, as a state file names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodId {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("state file: {0}")]
pub struct StateError(pub String);

impl StateError {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        "StateMalformed"
    }
}

impl State {
    /// Reads a file of floe or galaxy.
    pub fn parse(text: &str) -> Result<Self, StateError> {
        let list: Option<Vec<Value>> =
            decode(text.as_bytes(), Names::Exact).map_err(|error| StateError(error.to_string()))?;
        let read = |(number, element): (usize, Value)| {
            let wrong = |why: String| StateError(format!("element {number}: {why}"));
            let Value::Object(element) = element else {
                return Err(wrong("not an object".into()));
            };
            Attached::of(&element).map_err(wrong)
        };
        let attached = (1..).zip(list.unwrap_or_default()).map(read);
        Ok(Self {
            attached: attached.collect::<Result<_, _>>()?,
        })
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        let written: Vec<Written<'_>> = self.attached.iter().map(Written::of).collect();
        serde_json::to_string(&written).expect("maps with texts as names always have a JSON form")
    }

    /// The pod, if the file names it.
    pub fn pod(&self) -> Option<&PodId> {
        self.attached.iter().find_map(|one| one.pod.as_ref())
    }
}

impl Attached {
    /// The plugin that was called.
    pub fn plugin(&self) -> &str {
        let own = self.conf.get("type").and_then(Value::as_str);
        own.filter(|kind| !kind.is_empty()).unwrap_or(&self.kind)
    }

    /// The addresses that the plugin was told to configure. None when it was told none,
    /// or nothing that can be read.
    pub fn addresses(&self) -> Vec<IpInfo> {
        let told = self.args.get("ipinfos");
        told.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// Whether the plugin has configured an address: its result names it. Every plugin of a pod
    /// gets all addresses as arguments, and not every plugin uses them. `None` where the result
    /// is not noted, as in galaxy's files.
    pub fn has_configured(&self, ip: IpAddr) -> Option<bool> {
        let result = Outcome::from_json(self.conf.get("prevResult")?).ok()?;
        let mut configured = result.ips.iter();
        Some(configured.any(|it| canonical(it.address.addr()) == canonical(ip)))
    }

    fn of(element: &Map<String, Value>) -> Result<Self, String> {
        let text = |name| json::text(element, name).map(ToOwned::to_owned);
        let pod = object(element, "Pod")?.map(|pod| {
            let text = |name| json::text(pod, name).map(ToOwned::to_owned);
            Ok::<_, String>(PodId {
                namespace: text("Namespace")?,
                name: text("Name")?,
                uid: text("Uid")?,
            })
        });
        let read = Self {
            kind: text("NetworkType")?,
            args: object(element, "Args")?
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.clone(), raw(value)))
                .collect(),
            conf: object(element, "Conf")?.cloned().unwrap_or_default(),
            ifname: text("IfName")?,
            netns: json::member(element, "Netns")
                .map(|_| text("Netns"))
                .transpose()?,
            pod: pod.transpose()?,
            taken_off: taken_off(element),
        };
        if read.plugin().is_empty() {
            return Err("it names no plugin".into());
        }
        Ok(read)
    }
}

/// An argument's value: the text that the string holds. Anything else is its own text,
/// so that a file which somebody mended by hand still detaches.
fn raw(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// What cannot be read as an address was taken off by no version of floe.
fn taken_off(element: &Map<String, Value>) -> BTreeSet<IpAddr> {
    let all = json::member(element, "TakenOff").and_then(Value::as_array);
    let all = all.into_iter().flatten().filter_map(Value::as_str);
    all.filter_map(|text| text.parse().ok()).collect()
}

fn object<'a>(
    element: &'a Map<String, Value>,
    name: &str,
) -> Result<Option<&'a Map<String, Value>>, String> {
    match json::member(element, name) {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(format!("{name:?} is not an object")),
    }
}

/// An [`Attached`] as it is written.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Written<'a> {
    network_type: &'a str,
    args: &'a BTreeMap<String, String>,
    conf: &'a Map<String, Value>,
    #[serde(rename = "IfName")]
    ifname: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    netns: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<WrittenPod<'a>>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    taken_off: &'a BTreeSet<IpAddr>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct WrittenPod<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl<'a> Written<'a> {
    fn of(one: &'a Attached) -> Self {
        Self {
            network_type: &one.kind,
            args: &one.args,
            conf: &one.conf,
            ifname: &one.ifname,
            netns: one.netns.as_deref(),
            pod: one.pod.as_ref().map(|pod| WrittenPod {
                namespace: &pod.namespace,
                name: &pod.name,
                uid: &pod.uid,
            }),
            taken_off: &one.taken_off,
        }
    }
}

#[cfg(test)]
mod tests;
