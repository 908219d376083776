//! When a node counts as dead before its kubelet is given up.
//!
//! Kubernetes waits 40 to 50 seconds before it calls a silent node not ready. floe does not,
//! but it never believes one witness alone: a silent agent may just be restarting. The second
//! one is the lease of the kubelet, which another program renews by a connection of its own.
//! Without an agent on a node there is no
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
    /// When its agent was heard last; none when it never was, or not for long: an agent that
    /// holds nothing says nothing.
    pub agent: Option<Timestamp>,
    /// When its kubelet renewed its lease last; none when that was never seen.
    pub kubelet: Option<Timestamp>,
}

/// How long silence lasts before it means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// That of an agent, which is heard every few seconds.
    pub agent: Duration,
    /// That of a kubelet, which renews its lease every ten seconds.
    pub kubelet: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            agent: Duration::from_secs(5),
            // Two renewals have been left out, and a little more.
            kubelet: Duration::from_secs(22),
        }
    }
}

/// The nodes that are dead: the agent is silent, and the kubelet has not renewed its lease.
///
/// When more than half of all nodes with an agent would be dead, none is: then it is the
/// observer who hears nothing, or the API server that takes no reports, and moving
/// everything to the rest would do more harm than waiting for the conditions.
pub fn dead(
    nodes: &BTreeMap<String, Evidence>,
    patience: &Patience,
    now: Timestamp,
) -> BTreeSet<String> {
    let is_over = |heard: Option<Timestamp>, patience| {
        let heard = heard.map(|at| after(at, patience));
        heard.is_some_and(|until| until <= now)
    };
    let is_dead =
        |it: &Evidence| is_over(it.agent, patience.agent) && is_over(it.kubelet, patience.kubelet);
    let mut dead: BTreeSet<String> = nodes
        .iter()
        .filter(|(_, evidence)| is_dead(evidence))
        .map(|(name, _)| name.clone())
        .collect();
    let with_agent = nodes.values().filter(|it| it.agent.is_some()).count();
    if dead.len() * 2 > with_agent {
        dead.clear();
    }
    dead
}

#[cfg(test)]
mod tests;
