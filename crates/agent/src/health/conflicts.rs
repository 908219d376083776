//! Addresses that could not be given to pods, because somebody else uses them.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use floe_api::floe::ConflictStatus;
use floe_core::{addr, node::state::PodId};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::watch;

/// How the error of a plugin begins that found a conflict.
const REASON: &str = "AddressConflict";

/// How long a conflict is told after it was last seen. The kubelet tries again every
/// few minutes at the latest, as long as the pod is there.
const REMEMBERED: Duration = Duration::from_mins(10);

/// The conflicts that were found on this node; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Conflicts(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    found: Mutex<BTreeMap<IpAddr, Found>>,
    changes: watch::Sender<u64>,
}

#[derive(Clone, Debug)]
struct Found {
    mac: String,
    pod: String,
    since: Timestamp,
    last: Timestamp,
}

impl Conflicts {
    /// Notes what the error of a plugin says, if it is about a conflict:
    /// `AddressConflict: 10.0.0.5 is already in use by 02:42:0a:00:00:05`. Whether it
    /// was.
    pub fn report(&self, pod: &PodId, error: &str) -> bool {
        self.report_at(pod, error, Timestamp::now())
    }

    /// Forgets what is settled: the address was given to its pod.
    pub fn settled(&self, ip: IpAddr) {
        if self.found().remove(&addr::canonical(ip)).is_some() {
            self.tell();
        }
    }

    /// Tells, by a growing number, each time there is something new.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// What is in conflict now, by address. What was not seen for a while is forgotten.
    pub fn current(&self, now: Timestamp) -> Vec<ConflictStatus> {
        let mut found = self.found();
        found.retain(|_, it| {
            let age = now.duration_since(it.last);
            Duration::try_from(age).is_ok_and(|age| age < REMEMBERED) || age.is_negative()
        });
        let current = found.iter().map(|(ip, it)| ConflictStatus {
            ip: ip.to_string(),
            mac: it.mac.clone(),
            pod: it.pod.clone(),
            since: Time(it.since),
        });
        current.collect()
    }

    fn report_at(&self, pod: &PodId, error: &str, now: Timestamp) -> bool {
        let Some((ip, mac)) = read(error) else {
            return false;
        };
        let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let pod = format!("{}/{}", pod.namespace, pod.name);
        let mut found = self.found();
        let same = found
            .get(&ip)
            .filter(|it| (&it.mac, &it.pod) == (&mac, &pod));
        let since = same.map_or(second, |it| it.since);
        let is_new = same.is_none();
        let last = now;
        found.insert(
            ip,
            Found {
                mac,
                pod,
                since,
                last,
            },
        );
        drop(found);
        if is_new {
            self.tell();
        }
        true
    }

    fn tell(&self) {
        self.0.changes.send_modify(|count| *count += 1);
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Found>> {
        self.0.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Address and hardware address in the words of a plugin.
pub fn read(error: &str) -> Option<(IpAddr, String)> {
    let told = error.strip_prefix(REASON)?.strip_prefix(": ")?;
    let (ip, rest) = told.split_once(" is already in use by ")?;
    let mac = rest.split_whitespace().next()?;
    let is_mac = mac.len() == 17 && mac.bytes().all(|it| it == b':' || it.is_ascii_hexdigit());
    is_mac.then_some((addr::parse(ip)?, mac.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> PodId {
        PodId {
            namespace: "default".into(),
            name: name.into(),
            uid: "u".into(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    const ERROR: &str = "AddressConflict: 10.0.0.5 is already in use by 02:42:0a:00:00:05";

    #[test]
    fn a_conflict_is_told_since_it_was_first_seen() {
        let conflicts = Conflicts::default();
        let changes = conflicts.changes();
        assert!(conflicts.report_at(&pod("web-0"), ERROR, at(100)));
        assert!(conflicts.report_at(&pod("web-0"), ERROR, at(500)));
        let current = conflicts.current(at(1000));
        assert_eq!(
            current,
            [ConflictStatus {
                ip: "10.0.0.5".into(),
                mac: "02:42:0a:00:00:05".into(),
                pod: "default/web-0".into(),
                since: Time(at(100)),
            }]
        );
        assert_eq!(*changes.borrow(), 1, "the second is nothing new");
    }

    #[test]
    fn a_conflict_of_another_pod_or_with_another_host_is_a_new_one() {
        let conflicts = Conflicts::default();
        let other = "AddressConflict: 10.0.0.5 is already in use by 02:42:0a:00:00:06";
        conflicts.report_at(&pod("web-0"), ERROR, at(100));
        conflicts.report_at(&pod("web-0"), other, at(200));
        assert_eq!(conflicts.current(at(201))[0].since, Time(at(200)));
        conflicts.report_at(&pod("web-1"), other, at(300));
        assert_eq!(conflicts.current(at(301))[0].since, Time(at(300)));
        assert_eq!(*conflicts.changes().borrow(), 3);
    }

    #[test]
    fn a_conflict_goes_when_it_is_settled_or_not_seen_for_long() {
        let conflicts = Conflicts::default();
        conflicts.report_at(&pod("web-0"), ERROR, at(100));
        assert_eq!(conflicts.current(at(699)).len(), 1);
        assert_eq!(conflicts.current(at(700)).len(), 0);
        conflicts.report_at(&pod("web-0"), ERROR, at(800));
        // A clock that went back is no reason to forget.
        assert_eq!(conflicts.current(at(1)).len(), 1);
        conflicts.settled("::ffff:10.0.0.5".parse().unwrap());
        assert_eq!(conflicts.current(at(801)).len(), 0);
    }

    #[test]
    fn other_errors_are_no_conflicts() {
        for error in [
            "",
            "AddressConflict",
            "AddressConflict: somebody",
            "AddressConflict: 10.0.0.5 is already in use by nobody",
            "AddressConflict: x is already in use by 02:42:0a:00:00:05",
            "ParentLinkDown: 10.0.0.5 is already in use by 02:42:0a:00:00:05",
        ] {
            let conflicts = Conflicts::default();
            assert!(!conflicts.report(&pod("a"), error), "{error}");
            assert_eq!(conflicts.current(Timestamp::now()).len(), 0, "{error}");
        }
        let longer = format!("{ERROR} / and more");
        assert!(Conflicts::default().report(&pod("a"), &longer));
        let six = "AddressConflict: fd00::5 is already in use by 02:42:0a:00:00:05";
        assert!(Conflicts::default().report(&pod("a"), six));
    }
}
