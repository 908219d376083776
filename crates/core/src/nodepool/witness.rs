//! When a node counts as dead before its kubelet is given up.
//!
//! Kubernetes waits 40 to 50 seconds before it calls a silent node not ready. floe does not,
//! but it never believes one witness alone: a silent agent may just be restarting. The second
//! one is the lease of the kubelet, which another program renews by a connection of its own.
//! Without an agent on a node there is no first witness, and the conditions of the node say
//! all that is known.
//!
//! A kubelet is only looked at when its agent is silent: all of them all the time would be too
//! much. When it renewed before that is known all the same, because agent and kubelet write
//! the time of one clock, that of their node, into their leases.

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
    /// Its kubelet; none when its lease was never seen.
    pub kubelet: Option<Renewal>,
}

/// When a kubelet renewed its lease last, and how long it usually takes until the next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// When.
    pub at: Timestamp,
    /// The time between two.
    pub interval: Duration,
}

/// A lease as it was written: the time is by the clock of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// When it was renewed.
    pub renewed: Option<Timestamp>,
    /// How long it lasts.
    pub lasts: Option<Duration>,
}

impl Written {
    /// How often a kubelet renews such a lease: four times while it lasts, which is for 40
    /// seconds unless it says something else.
    pub fn interval(&self) -> Duration {
        let lasts = self.lasts.filter(|it| !it.is_zero());
        lasts.unwrap_or(Duration::from_secs(40)) / 4
    }
}

/// When a kubelet renewed its lease last, if it was `now` that it was looked at first, and its
/// agent was heard at a moment with what it wrote then.
///
/// It is never taken to be longer ago than a usual interval: if the clock of the node was set
/// in between, the kubelet still has the time of a late renewal from `now` on.
pub fn renewal(kubelet: &Written, agent: Option<(Timestamp, Written)>, now: Timestamp) -> Renewal {
    let interval = kubelet.interval();
    let renewed = agent.and_then(|(heard, agent)| {
        let before = agent.renewed?.duration_since(kubelet.renewed?);
        heard.checked_sub(before).ok()
    });
    let first = now.checked_sub(interval).unwrap_or(now);
    let at = renewed.unwrap_or(now).clamp(first, now);
    Renewal { at, interval }
}

/// How long silence lasts before it means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// That of an agent, which is heard every few seconds.
    pub agent: Duration,
    /// How late a kubelet may be with a renewal, beside a tenth of its usual interval:
    /// kubelets spread them by 4 %.
    pub late: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            agent: Duration::from_secs(5),
            late: Duration::from_secs(4),
        }
    }
}

impl Patience {
    /// How long a kubelet may be silent: 15 s where it renews every 10.
    pub fn kubelet(&self, interval: Duration) -> Duration {
        interval + interval / 10 + self.late
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
    let is_dead = |it: &Evidence| {
        let kubelet = it
            .kubelet
            .map(|it| (Some(it.at), patience.kubelet(it.interval)));
        let is_stale = kubelet.is_some_and(|(at, patience)| is_over(at, patience));
        is_over(it.agent, patience.agent) && is_stale
    };
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
