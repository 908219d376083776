//! Whether a node and its pods are what a pool asks for.
//!
//! A node fits when it is there, ready and free of taints that are not tolerated, and when
//! a ready pod of the rule runs on it, if the rule asks for pods. Why a node does not fit
//! decides how long it may keep its address, so the causes have an order: what somebody
//! has ordered comes before what may pass by itself.

use std::collections::{BTreeMap, BTreeSet};

pub use selector::{Selector, SelectorError};

use super::pool::Unfit;

mod selector;

/// The taints that Kubernetes itself puts on a node that is not ready. They say the same as
/// the condition does, and nobody has ordered them.
const NOT_READY: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

/// What a pool or a record set asks of nodes and pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Which nodes.
    pub node_selector: Selector,
    /// Which pods, if labels matter.
    pub pod_selector: Option<Selector>,
    /// Pods of which namespace, if that matters.
    pub pod_namespace: Option<String>,
    /// Which taints are no hindrance.
    pub tolerations: Vec<Toleration>,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, or nothing.
    pub value: String,
    /// Its effect; all of them count.
    pub effect: String,
}

/// What makes a taint no hindrance, with the words of Kubernetes; an empty one is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toleration {
    /// The key of the taint; empty: any.
    pub key: String,
    /// `Equal`, or empty for the same, or `Exists`. Others tolerate nothing.
    pub operator: String,
    /// The value of the taint, unless it only has to exist.
    pub value: String,
    /// The effect of the taint; empty: any.
    pub effect: String,
}

/// What matters of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// `spec.providerID`; empty as long as it has none.
    pub provider_id: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Its condition `Ready` is `True`.
    pub ready: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// Two witnesses say that it is dead, see [`witness`](super::witness).
    pub unreachable: bool,
}

/// What matters of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Its namespace.
    pub namespace: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The node it is on; empty as long as it is on none.
    pub node: String,
    /// Its phase is `Running`.
    pub phase_running: bool,
    /// Its condition `Ready` is `True`.
    pub ready: bool,
    /// It is being deleted: it may still run for a while, but nobody should count on it.
    pub deleting: bool,
}

impl Rule {
    /// Whether pods matter at all.
    pub fn asks_for_pods(&self) -> bool {
        self.pod_selector.is_some() || self.pod_namespace.is_some()
    }

    /// Whether a pod is one of those that the rule asks for, in whatever state.
    pub fn selects_pod(&self, pod: &PodFacts) -> bool {
        let namespace = self.pod_namespace.as_ref();
        let selector = self.pod_selector.as_ref();
        self.asks_for_pods()
            && namespace.is_none_or(|it| *it == pod.namespace)
            && selector.is_none_or(|it| it.matches(&pod.labels))
    }

    /// Whether a pod makes its node fit.
    pub fn qualifies(&self, pod: &PodFacts) -> bool {
        self.selects_pod(pod)
            && !pod.node.is_empty()
            && !pod.deleting
            && pod.phase_running
            && pod.ready
    }

    /// Why a node does not fit by itself, whatever runs on it.
    pub fn node_unfit(&self, node: &NodeFacts) -> Option<Unfit> {
        if node.deleting {
            return Some(Unfit::Deleted);
        }
        if !self.node_selector.matches(&node.labels) {
            return Some(Unfit::Unlabelled);
        }
        let hindrances: BTreeSet<bool> = node
            .taints
            .iter()
            .filter(|taint| !self.tolerations.iter().any(|it| it.tolerates(taint)))
            .map(Taint::is_of_readiness)
            .collect();
        if hindrances.contains(&false) {
            return Some(Unfit::Tainted);
        }
        let is_known = !node.provider_id.is_empty();
        let fits = node.ready && !node.unreachable && is_known && hindrances.is_empty();
        (!fits).then_some(Unfit::NodeNotReady)
    }

    /// Why no pod makes a node fit. Only pods that are on that node count.
    pub fn pods_unfit<'a>(
        &self,
        node: &str,
        pods: impl IntoIterator<Item = &'a PodFacts>,
    ) -> Option<Unfit> {
        if !self.asks_for_pods() {
            return None;
        }
        let mut unfit = Unfit::NoPod;
        for pod in pods {
            if pod.node != node || pod.deleting || !self.selects_pod(pod) {
                continue;
            }
            if self.qualifies(pod) {
                return None;
            }
            unfit = Unfit::PodNotReady;
        }
        Some(unfit)
    }

    /// Why a node does not fit, or nothing when it does.
    pub fn unfit<'a>(
        &self,
        node: &NodeFacts,
        pods: impl IntoIterator<Item = &'a PodFacts>,
    ) -> Option<Unfit> {
        self.node_unfit(node)
            .or_else(|| self.pods_unfit(&node.name, pods))
    }
}

impl Taint {
    fn is_of_readiness(&self) -> bool {
        NOT_READY.contains(&self.key.as_str())
    }
}

impl Toleration {
    /// Whether it makes this taint no hindrance.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
