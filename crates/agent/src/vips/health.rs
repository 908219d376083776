//! The pods of this node as the keeper sees them.

use std::{collections::BTreeMap, sync::Arc};

use floe_core::{
    lease::Moment,
    vip::{
        elect::Health,
        keeper::{Event, PodView},
    },
};

use crate::pods::Pod;

/// What the keeper was told about the pods of this node, by uid.
#[derive(Debug, Default)]
pub struct Told(BTreeMap<String, PodView>);

impl Told {
    /// How a pod is; nothing: there is no such pod.
    pub fn health(&self, uid: &str) -> Option<Health> {
        self.0.get(uid).map(|it| it.health)
    }

    /// What is to be told, now that these are all pods.
    pub fn changes(&mut self, pods: &[Arc<Pod>], now: Moment) -> Vec<Event> {
        let mut seen = BTreeMap::new();
        for pod in pods {
            let since = match self.health(&pod.uid) {
                Some(Health::Unready { since }) => since,
                _ => now,
            };
            let view = PodView {
                health: health(pod, since),
                addresses: pod.addresses.clone(),
            };
            seen.insert(pod.uid.clone(), view);
        }
        let gone = self.0.keys().filter(|uid| !seen.contains_key(*uid));
        let gone = gone.map(|uid| (uid.clone(), None));
        let other = seen
            .iter()
            .filter(|(uid, view)| self.0.get(*uid) != Some(*view));
        let other = other.map(|(uid, view)| (uid.clone(), Some(view.clone())));
        let events = gone
            .chain(other)
            .map(|(uid, pod)| Event::Pod { uid, pod })
            .collect();
        self.0 = seen;
        events
    }
}

fn health(pod: &Pod, since: Moment) -> Health {
    if pod.finished {
        Health::Finished
    } else if pod.terminating {
        Health::Terminating
    } else if pod.ready {
        Health::Fit
    } else {
        Health::Unready { since }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn pod(change: impl FnOnce(&mut Pod)) -> Vec<Arc<Pod>> {
        let mut pod = Pod {
            uid: "u".into(),
            ready: true,
            ..Pod::default()
        };
        change(&mut pod);
        vec![Arc::new(pod)]
    }

    #[test]
    fn only_what_changes_is_told_and_unreadiness_has_a_beginning() {
        let mut told = Told::default();
        assert_eq!(told.changes(&pod(|_| ()), at(1)).len(), 1);
        assert_eq!(told.health("u"), Some(Health::Fit));
        assert!(told.changes(&pod(|_| ()), at(2)).is_empty());
        let unready = || pod(|it| it.ready = false);
        assert_eq!(told.changes(&unready(), at(3)).len(), 1);
        assert!(told.changes(&unready(), at(4)).is_empty());
        assert_eq!(told.health("u"), Some(Health::Unready { since: at(3) }));
        told.changes(&pod(|it| it.terminating = true), at(5));
        assert_eq!(told.health("u"), Some(Health::Terminating));
        told.changes(
            &pod(|it| (it.finished, it.terminating) = (true, true)),
            at(6),
        );
        assert_eq!(told.health("u"), Some(Health::Finished));
        let gone = Event::Pod {
            uid: "u".into(),
            pod: None,
        };
        assert_eq!(told.changes(&[], at(7)), [gone]);
        assert_eq!(told.health("u"), None);
    }
}
