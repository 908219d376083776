//! Addresses that records give to pods of this node and that the pods do not have.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use floe_api::floe::MissingStatus;
use floe_core::node::state::PodId;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tracing::warn;

/// What is missing on this node; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Missing(Arc<Mutex<BTreeMap<IpAddr, MissingStatus>>>);

impl Missing {
    /// Replaces what is missing. What was missing before keeps its time.
    pub fn replace(&self, now: impl Iterator<Item = (IpAddr, PodId)>) {
        self.replace_at(now, Timestamp::now());
    }

    /// What is missing, by address.
    pub fn current(&self) -> Vec<MissingStatus> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.values().cloned().collect()
    }

    fn replace_at(&self, missing: impl Iterator<Item = (IpAddr, PodId)>, now: Timestamp) {
        // The API server keeps whole seconds.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut after = BTreeMap::new();
        for (ip, pod) in missing {
            let pod = format!("{}/{}", pod.namespace, pod.name);
            let before = held.remove(&ip).filter(|it| it.pod == pod);
            let status = before.unwrap_or_else(|| {
                let reason = "AddressMissing";
                warn!(reason, %ip, pod, "pod lacks an address that its record gives it");
                MissingStatus {
                    ip: ip.to_string(),
                    pod,
                    since: Time(now),
                }
            });
            after.insert(ip, status);
        }
        *held = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_missing_keeps_its_time() {
        let missing = Missing::default();
        let ip: IpAddr = [10, 0, 0, 5].into();
        let pod = |name: &str| PodId {
            namespace: "ns".into(),
            name: name.into(),
            uid: "u".into(),
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        missing.replace_at([(ip, pod("a"))].into_iter(), at(1));
        missing.replace_at([(ip, pod("a"))].into_iter(), at(2));
        let status = missing.current();
        assert_eq!((status.len(), status[0].since.0), (1, at(1)));
        assert_eq!(status[0].pod, "ns/a");
        // Another pod of the address is missing it since then only.
        missing.replace_at([(ip, pod("b"))].into_iter(), at(3));
        assert_eq!(missing.current()[0].since.0, at(3));
        missing.replace_at(std::iter::empty(), at(4));
        assert_eq!(missing.current(), []);
    }
}
