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
//!
//! Agents renew leases of two kinds: those that serve shared addresses one every second, and
//! those of nodes that have a cloud's address one as often as a kubelet does.

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
    /// Its agent; none when it was never heard, or not for long: an agent that holds nothing
    /// says nothing. Of several leases the one that is over last.
    pub agent: Option<Renewal>,
    /// Its kubelet; none when its lease was never seen.
    pub kubelet: Option<Renewal>,
}

/// When somebody renewed a lease last, and how long it usually takes until the next time.
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
    /// How often such a lease is renewed: four times while it lasts, which is for 40 seconds
    /// unless it says something else. Leases of shared addresses are not renewed quite so
    /// often; what a late renewal is given is far more than that.
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
    /// How late a renewal may be, beside a tenth of the usual interval: kubelets spread
    /// theirs by 4 %.
    pub late: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            late: Duration::from_secs(4),
        }
    }
}

impl Patience {
    /// How long somebody may be silent who renews so often: 15 s where that is every 10.
    pub fn of(&self, interval: Duration) -> Duration {
        interval + interval / 10 + self.late
    }

    /// When somebody is silent who has renewed then.
    pub fn ends(&self, renewal: &Renewal) -> Timestamp {
        after(renewal.at, self.of(renewal.interval))
    }
}

/// The nodes that are dead: the agent is silent, and the kubelet has not renewed its lease.
///
/// When more than half of all nodes with an agent would be dead, none is: then it is the
/// observer who hears nothing, or the API server that takes no reports, and moving
/// everything to the rest would do more harm than waiting for the conditions. Few nodes may
/// have an agent that says something, so `others` counts those beside them whose kubelets
/// were just heard.
pub fn dead(
    nodes: &BTreeMap<String, Evidence>,
    others: usize,
    patience: &Patience,
    now: Timestamp,
) -> BTreeSet<String> {
    let is_silent = |it: Option<Renewal>| it.is_some_and(|renewal| patience.ends(&renewal) <= now);
    let is_dead = |it: &Evidence| is_silent(it.agent) && is_silent(it.kubelet);
    let mut dead: BTreeSet<String> = nodes
        .iter()
        .filter(|(_, evidence)| is_dead(evidence))
        .map(|(name, _)| name.clone())
        .collect();
    let with_agent = nodes.values().filter(|it| it.agent.is_some()).count();
    if dead.len() * 2 > with_agent + others {
        dead.clear();
    }
    dead
}

#[cfg(test)]
mod tests;
