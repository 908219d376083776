//! Which of several waiting pods goes first.
//!
//! A refused pod sleeps until something wakes it. When an address or a place in a
//! limit gets free, pods of the newest revision come first: during a rolling
//! update an old pod that came back would otherwise take what the new one needs.

use std::{cmp::Reverse, collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;

pub use self::round::{Candidate, fits, one_node_each, round};
use crate::ipam::{choice::Wish, key::HolderKey};

mod round;

/// A pod that waits for an address of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The revision of its workload that it is of; higher is newer.
    pub revision: u64,
    /// When it was made.
    pub created: Timestamp,
    /// The addresses that it asks for.
    pub wishes: Vec<Wish>,
}

/// What there is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// This address.
    Address(IpAddr),
    /// A place in a limit, for an address wherever it is.
    Place,
}

/// The waiting pods that can use what was freed, in the order in which they are
/// to be woken: the newest revision first, then the one that is oldest.
pub fn order<'a>(waiting: impl IntoIterator<Item = &'a Waiting>, freed: Freed) -> Vec<&'a Waiting> {
    let can_use = |pod: &&Waiting| match freed {
        Freed::Place => true,
        Freed::Address(ip) => pod.wishes.iter().any(|wish| wish.accepts(ip)),
    };
    let mut pods: Vec<&Waiting> = waiting.into_iter().filter(can_use).collect();
    pods.sort_by_key(|pod| turn(pod));
    pods
}

/// The waiting pods of several workloads, with their app prefixes, in the order in
/// which they are to be woken: in each workload as [`order`] says, and the
/// workload first whose pod waits for longest. Revisions of different workloads
/// say nothing about each other.
pub fn queue<'a>(
    waiting: impl IntoIterator<Item = (&'a HolderKey, &'a Waiting)>,
) -> Vec<&'a Waiting> {
    let mut apps: BTreeMap<&HolderKey, Vec<&Waiting>> = BTreeMap::new();
    for (app, pod) in waiting {
        apps.entry(app).or_default().push(pod);
    }
    let mut apps: Vec<(Option<Timestamp>, Vec<&Waiting>)> = apps
        .into_values()
        .map(|pods| (pods.iter().map(|pod| pod.created).min(), pods))
        .collect();
    apps.sort_by_key(|(oldest, _)| *oldest);
    apps.into_iter()
        .flat_map(|(_, pods)| order(pods, Freed::Place))
        .collect()
}

/// The pod of a newer revision that a pod has to let go first, if one waits.
pub fn ahead_of<'a>(
    revision: u64,
    waiting: impl IntoIterator<Item = &'a Waiting>,
) -> Option<&'a Waiting> {
    waiting
        .into_iter()
        .filter(|pod| pod.revision > revision)
        .min_by_key(|pod| turn(pod))
}

fn turn(pod: &Waiting) -> (Reverse<u64>, Timestamp, &str) {
    (Reverse(pod.revision), pod.created, &pod.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipam::families::Family;

    fn pod(name: &str, revision: u64, created: i64) -> Waiting {
        Waiting {
            name: name.into(),
            uid: format!("uid-{name}"),
            revision,
            created: Timestamp::from_second(created).unwrap(),
            wishes: vec![Wish::Any(Family::V4)],
        }
    }

    fn names(pods: &[&Waiting]) -> Vec<String> {
        pods.iter().map(|pod| pod.name.clone()).collect()
    }

    #[test]
    fn the_newest_revision_goes_first_then_the_oldest_pod() {
        let pods = [
            pod("old-1", 1, 10),
            pod("new-2", 2, 30),
            pod("old-2", 1, 5),
            pod("new-1", 2, 20),
        ];
        let order = order(&pods, Freed::Place);
        assert_eq!(names(&order), ["new-1", "new-2", "old-2", "old-1"]);
    }

    #[test]
    fn no_workload_comes_first_because_it_was_changed_more_often() {
        let busy = HolderKey::from("dp_ns_busy_");
        let calm = HolderKey::from("dp_ns_calm_");
        let pods = [
            (&busy, pod("busy-old", 8, 20)),
            (&busy, pod("busy-new", 9, 30)),
            (&calm, pod("calm-old", 1, 10)),
            (&calm, pod("calm-new", 2, 40)),
        ];
        let queue = queue(pods.iter().map(|(app, pod)| (*app, pod)));
        assert_eq!(
            names(&queue),
            ["calm-new", "calm-old", "busy-new", "busy-old"]
        );
    }

    #[test]
    fn who_cannot_use_the_address_is_not_woken() {
        let mut pods = [pod("a", 1, 1), pod("b", 1, 2), pod("c", 1, 3)];
        pods[0].wishes = vec![Wish::Any(Family::V6)];
        pods[1].wishes = vec![Wish::OutOf(vec!["10.0.0.2~10.0.0.3".parse().unwrap()])];
        let freed = |text: &str| order(&pods, Freed::Address(text.parse().unwrap()));
        assert_eq!(names(&freed("10.0.0.2")), ["b", "c"]);
        assert_eq!(names(&freed("10.0.0.4")), ["c"]);
        assert_eq!(names(&freed("fd00::1")), ["a"]);
        assert_eq!(names(&order(&pods, Freed::Place)), ["a", "b", "c"]);
    }

    #[test]
    fn a_pod_yields_only_to_newer_revisions() {
        let pods = [pod("old", 1, 1), pod("new-2", 3, 9), pod("new-1", 3, 8)];
        let ahead = |revision| ahead_of(revision, &pods).map(|pod| pod.name.as_str());
        assert_eq!(ahead(1), Some("new-1"));
        assert_eq!(ahead(2), Some("new-1"));
        assert_eq!(ahead(3), None);
    }
}
