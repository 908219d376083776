//! Nodes that say nothing and do not ask for this node's promises: only somebody who
//! vouches that they do not run can shorten the wait. Their Node objects are looked at
//! directly, and only then: a watch of all nodes on all nodes would not be quiet.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use floe_core::{
    lease::Moment,
    vip::{Timing, keeper::LeaseView},
};

/// How often a silent node is looked at.
const PACE: Duration = Duration::from_secs(5);

/// What is known about the silence of nodes.
#[derive(Debug, Default)]
pub struct Doubts {
    nodes: BTreeMap<String, Doubt>,
}

#[derive(Debug)]
struct Doubt {
    version: Option<String>,
    since: Moment,
    /// When it was looked at last, or is to be believed.
    looked: Option<Moment>,
    is_down: bool,
}

impl Doubts {
    /// Takes in the lease of a node as it was seen; whether the node was believed to be
    /// down and is not any more.
    pub fn seen(&mut self, node: &str, lease: Option<&LeaseView>, now: Moment) -> bool {
        let version = lease.map(|it| it.version.clone());
        match self.nodes.get_mut(node) {
            Some(doubt) if doubt.version == version => false,
            known => {
                let was_down = known.is_some_and(|it| it.is_down);
                let doubt = Doubt {
                    version,
                    since: now,
                    looked: None,
                    is_down: false,
                };
                self.nodes.insert(node.to_owned(), doubt);
                was_down
            }
        }
    }

    /// The nodes among these to be looked at now.
    pub fn due(&mut self, holders: &BTreeSet<String>, timing: &Timing, now: Moment) -> Vec<String> {
        self.nodes
            .retain(|node, it| holders.contains(node) || it.version.is_some());
        let silence = timing.duration + timing.margin;
        let mut due = Vec::new();
        for node in holders {
            let doubt = self.nodes.entry(node.clone()).or_insert(Doubt {
                version: None,
                since: now,
                looked: None,
                is_down: false,
            });
            let is_silent = doubt.since.after(silence) <= now;
            let is_old = doubt.looked.is_none_or(|it| it.after(PACE) <= now);
            if is_silent && is_old {
                doubt.looked = Some(now);
                due.push(node.clone());
            }
        }
        due
    }

    /// Takes in whether a node is down; whether that is news.
    pub fn is_down(&mut self, node: &str, is_down: bool) -> bool {
        let Some(doubt) = self.nodes.get_mut(node) else {
            return false;
        };
        // It has been heard from since it was looked at.
        if doubt.looked.is_none() {
            return false;
        }
        std::mem::replace(&mut doubt.is_down, is_down) != is_down
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn lease(version: &str) -> LeaseView {
        LeaseView {
            version: version.into(),
            term: 1,
            peers: BTreeSet::new(),
        }
    }

    #[test]
    fn only_silent_holders_are_looked_at_and_not_all_the_time() {
        let timing = Timing::default();
        let mut doubts = Doubts::default();
        let holders: BTreeSet<String> = ["a".to_owned(), "b".to_owned()].into();
        for node in ["a", "b", "c"] {
            assert!(!doubts.seen(node, Some(&lease("1")), at(10)));
        }
        assert!(doubts.due(&holders, &timing, at(12)).is_empty());
        assert!(!doubts.seen("b", Some(&lease("2")), at(13)));
        assert_eq!(doubts.due(&holders, &timing, at(14)), ["a"]);
        assert!(doubts.due(&holders, &timing, at(15)).is_empty());
        assert!(doubts.is_down("a", true));
        assert!(!doubts.is_down("a", true));
        assert_eq!(doubts.due(&holders, &timing, at(20)), ["a", "b"]);
        // It is heard from, while somebody still looks at it.
        assert!(doubts.seen("a", Some(&lease("2")), at(21)));
        assert!(!doubts.is_down("a", true));
        assert!(doubts.due(&holders, &timing, at(22)).is_empty());
    }
}
