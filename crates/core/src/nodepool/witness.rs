//! When a node counts as dead before its kubelet is given up.
//!
//! Kubernetes waits 40 to 50 seconds before it calls a silent node not ready. floe does not,
//! but it never believes one witness alone: a silent agent may just be restarting, and an
//! agent that hears nothing may itself be cut off. Without an agent on a node there is no
//! first witness, and the conditions of the node say all that is known.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

use super::retry::after;

/// What is known of one node. All moments are by the clock of the observer, when it saw
/// that something had changed: clocks of others are not compared with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// When its agent was heard last; none when it never was, or when it said goodbye.
    pub agent: Option<Timestamp>,
    /// When its kubelet renewed its lease last; none when that was never seen.
    pub kubelet: Option<Timestamp>,
    /// Agents of other nodes that cannot reach the node itself (not its agent, which may be
    /// restarting), and since when.
    pub unreached: BTreeMap<String, Timestamp>,
}

/// How long silence lasts before it means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// That of an agent, which is heard every few seconds.
    pub agent: Duration,
    /// That of a kubelet, which renews its lease every ten seconds.
    pub kubelet: Duration,
    /// That of a node that another agent asks.
    pub unreached: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            agent: Duration::from_secs(5),
            // Two renewals have been left out, and a little more.
            kubelet: Duration::from_secs(22),
            unreached: Duration::from_secs(3),
        }
    }
}

/// The second witness against a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Witness {
    /// Its kubelet has not renewed its lease.
    Kubelet,
    /// The agent of this node cannot reach it.
    Agent(String),
}

/// The nodes that are dead, with the second witness.
///
/// When more than half of all nodes with an agent would be dead, none is: then it is the
/// observer who hears nothing, or the API server that takes no reports, and moving
/// everything to the rest would do more harm than waiting for the conditions.
pub fn dead(
    nodes: &BTreeMap<String, Evidence>,
    patience: &Patience,
    now: Timestamp,
) -> BTreeMap<String, Witness> {
    let silent: BTreeSet<&String> = nodes
        .iter()
        .filter(|(_, it)| it.agent.is_some_and(|at| after(at, patience.agent) <= now))
        .map(|(name, _)| name)
        .collect();
    let mut dead = BTreeMap::new();
    for (name, evidence) in nodes {
        if !silent.contains(name) {
            continue;
        }
        if let Some(witness) = second(evidence, nodes, &silent, patience, now) {
            dead.insert(name.clone(), witness);
        }
    }
    let with_agent = nodes.values().filter(|it| it.agent.is_some()).count();
    if dead.len() * 2 > with_agent {
        dead.clear();
    }
    dead
}

/// When the verdict may change next if nothing is heard.
pub fn wake(
    nodes: &BTreeMap<String, Evidence>,
    patience: &Patience,
    now: Timestamp,
) -> Option<Timestamp> {
    let moments = nodes.values().filter(|it| it.agent.is_some());
    let moments = moments.flat_map(|it| {
        let agent = it.agent.map(|at| after(at, patience.agent));
        let kubelet = it.kubelet.map(|at| after(at, patience.kubelet));
        let others = it.unreached.values();
        let others = others.map(|at| Some(after(*at, patience.unreached)));
        [agent, kubelet].into_iter().chain(others).flatten()
    });
    moments.filter(|at| *at > now).min()
}

fn second(
    evidence: &Evidence,
    nodes: &BTreeMap<String, Evidence>,
    silent: &BTreeSet<&String>,
    patience: &Patience,
    now: Timestamp,
) -> Option<Witness> {
    let kubelet = evidence.kubelet;
    if kubelet.is_some_and(|at| after(at, patience.kubelet) <= now) {
        return Some(Witness::Kubelet);
    }
    // Only who is heard can be believed.
    let is_heard = |name: &String| {
        let agent = nodes.get(name).and_then(|it| it.agent);
        agent.is_some() && !silent.contains(name)
    };
    let mut others = evidence.unreached.iter();
    let witness =
        others.find(|(name, since)| is_heard(name) && after(**since, patience.unreached) <= now);
    witness.map(|(name, _)| Witness::Agent(name.clone()))
}

#[cfg(test)]
mod tests;
