//! What is looked at of nodes and pods.

use std::{collections::BTreeSet, net::IpAddr};

use floe_api::flipop::{ALL_ANNOTATION, IPV4_ANNOTATION, IPV6_ANNOTATION};
use floe_core::nodepool::{
    census::{Entry, bare},
    matching::{NodeFacts, PodFacts, Taint},
};
use k8s_openapi::{
    api::core::v1::{Node, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// What decides whether it fits.
    pub facts: NodeFacts,
    /// Its addresses: type and text.
    pub addresses: Vec<(String, String)>,
    /// What its annotations say.
    pub notes: Notes,
}

impl Entry for NodeView {
    fn place(&self) -> &str {
        self.facts.place()
    }
}

impl AsRef<NodeFacts> for NodeView {
    fn as_ref(&self) -> &NodeFacts {
        &self.facts
    }
}

/// The annotations of a node about the addresses that pools have given it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// [`IPV4_ANNOTATION`].
    pub v4: Option<String>,
    /// [`IPV6_ANNOTATION`].
    pub v6: Option<String>,
    /// [`ALL_ANNOTATION`].
    pub all: Option<String>,
}

impl Notes {
    /// Of a node.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let annotations = metadata.annotations.as_ref();
        let said = |name: &str| annotations.and_then(|it| it.get(name)).cloned();
        Self {
            v4: said(IPV4_ANNOTATION),
            v6: said(IPV6_ANNOTATION),
            all: said(ALL_ANNOTATION),
        }
    }

    /// The addresses that they name.
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        let texts = self.named().into_iter().filter_map(|(_, text)| text);
        let texts = texts.flat_map(|text| text.split(','));
        texts.filter_map(|text| text.parse().ok()).collect()
    }

    /// The same with only those of its addresses, if it has others.
    ///
    /// [`ALL_ANNOTATION`] is written by nobody but floe. What does not stand there is from
    /// FLIPOP or somebody else, and stays.
    pub fn only(&self, living: &BTreeSet<IpAddr>) -> Option<Self> {
        let parse = |text: &str| text.parse::<IpAddr>().ok();
        let is_dead = |text: &str| parse(text).is_some_and(|ip| !living.contains(&ip));
        let texts: Vec<&str> = self.all.iter().flat_map(|all| all.split(',')).collect();
        let (dead, alive): (Vec<&str>, Vec<&str>) =
            texts.into_iter().partition(|text| is_dead(text));
        if dead.is_empty() {
            return None;
        }
        let next = |said: &Option<String>, v4: bool| match said {
            Some(text) if dead.contains(&text.as_str()) => alive
                .iter()
                .find(|it| parse(it).is_some_and(|ip| ip.is_ipv4() == v4))
                .map(|it| (*it).to_owned()),
            said => said.clone(),
        };
        Some(Self {
            v4: next(&self.v4, true),
            v6: next(&self.v6, false),
            all: (!alive.is_empty()).then(|| alive.join(",")),
        })
    }

    /// Each with its name.
    pub fn named(&self) -> [(&'static str, Option<&String>); 3] {
        [
            (IPV4_ANNOTATION, self.v4.as_ref()),
            (IPV6_ANNOTATION, self.v6.as_ref()),
            (ALL_ANNOTATION, self.all.as_ref()),
        ]
    }
}

/// What is looked at of a node.
pub fn node(node: Node) -> NodeView {
    let notes = Notes::of(&node.metadata);
    let name = node.metadata.name.unwrap_or_default();
    let spec = node.spec.unwrap_or_default();
    let status = node.status.unwrap_or_default();
    let taints = spec.taints.unwrap_or_default().into_iter();
    let conditions = status.conditions.unwrap_or_default();
    // Compat: of a condition that is there twice the last one counts.
    let mut conditions = conditions.iter().rev();
    let ready = conditions.find(|it| it.type_ == "Ready");
    NodeView {
        facts: NodeFacts {
            provider_id: spec
                .provider_id
                .filter(|it| !it.is_empty())
                .unwrap_or_else(|| bare(&name)),
            name,
            labels: node.metadata.labels.unwrap_or_default(),
            taints: taints
                .map(|taint| Taint {
                    key: taint.key,
                    value: taint.value.unwrap_or_default(),
                    effect: taint.effect,
                })
                .collect(),
            ready: ready.is_some_and(|it| it.status == "True"),
            deleting: node.metadata.deletion_timestamp.is_some(),
            unreachable: false,
        },
        addresses: status
            .addresses
            .unwrap_or_default()
            .into_iter()
            .map(|it| (it.type_, it.address))
            .collect(),
        notes,
    }
}

/// What is looked at of a pod.
pub fn pod(pod: Pod) -> PodFacts {
    let status = pod.status.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let mut conditions = conditions.iter().rev();
    let ready = conditions.find(|it| it.type_ == "Ready");
    PodFacts {
        namespace: pod.metadata.namespace.unwrap_or_default(),
        labels: pod.metadata.labels.unwrap_or_default(),
        node: pod.spec.and_then(|it| it.node_name).unwrap_or_default(),
        phase_running: status.phase.as_deref() == Some("Running"),
        ready: ready.is_some_and(|it| it.status == "True"),
        deleting: pod.metadata.deletion_timestamp.is_some(),
    }
}
