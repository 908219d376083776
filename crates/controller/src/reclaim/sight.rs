//! A direct look for the pod of a record.

use std::{net::IpAddr, time::Duration};

use floe_core::ipam::slot::Sighting;
use floe_shell::logs;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::cluster::{Phase, Pod, PodObject};

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the API server says about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// There is a pod.
    Pod(Box<Pod>),
    /// There is none.
    Nobody,
    /// It did not say; this is what went wrong.
    Unreadable(String),
}

impl Sight {
    /// Reads the pod of a name, never from a cache.
    pub async fn of(client: &Client, namespace: &str, pod: &str) -> Self {
        let api: Api<PodObject> = Api::namespaced(client.clone(), namespace);
        match timeout(PATIENCE, api.get_opt(pod)).await {
            Ok(Ok(Some(object))) => Self::Pod(Box::new(object.into())),
            Ok(Ok(None)) => Self::Nobody,
            Ok(Err(error)) => Self::Unreadable(logs::with_causes(&error)),
            Err(_) => Self::Unreadable(format!("no answer within {PATIENCE:?}")),
        }
    }

    /// What it means for the record of an address. A pod that shows the address
    /// runs with it, whatever uid the record has.
    pub fn of_address(&self, ip: IpAddr) -> Sighting<'_> {
        let pod = match self {
            Self::Pod(pod) => pod,
            Self::Nobody => return Sighting::NotFound,
            Self::Unreadable(_) => return Sighting::Unreadable,
        };
        let (uid, finished) = (&pod.uid, pod.phase == Phase::Finished);
        if !finished && pod.addresses.contains(&ip) {
            Sighting::Unreadable
        } else {
            Sighting::Found { uid, finished }
        }
    }
}

#[cfg(test)]
mod tests {
    use floe_core::ipam::slot::Departure;

    use super::*;
    use crate::reclaim::scene::running;

    #[test]
    fn an_address_that_the_pod_shows_is_not_left() {
        let ip = IpAddr::from([10, 0, 0, 1]);
        let pod = |finished, shown: &str| {
            let object: PodObject = serde_json::from_value(running("p", "new", shown)).unwrap();
            let mut pod: Pod = object.into();
            if finished {
                pod.phase = Phase::Finished;
            }
            Sight::Pod(Box::new(pod))
        };
        let departure = |sight: &Sight, uid| Departure::seen(uid, sight.of_address(ip));
        assert_eq!(departure(&pod(false, ""), "new"), None);
        assert_eq!(departure(&pod(false, ""), ""), None);
        assert_eq!(departure(&pod(false, ""), "old"), Some(Departure::Replaced));
        assert_eq!(departure(&pod(false, "10.0.0.1"), "new"), None);
        assert_eq!(departure(&pod(false, "10.0.0.1"), "old"), None);
        let finished = pod(true, "10.0.0.1");
        assert_eq!(departure(&finished, "old"), Some(Departure::Replaced));
        assert_eq!(departure(&finished, "new"), Some(Departure::Finished));
        // Whoever can edit a pod can edit what it claims: that frees nothing.
        let without = pod(false, "10.0.0.2");
        assert_eq!(departure(&without, "new"), None);
        assert_eq!(departure(&without, "old"), Some(Departure::Replaced));
        assert_eq!(departure(&Sight::Nobody, "new"), Some(Departure::Missing));
        assert_eq!(departure(&Sight::Unreadable("x".into()), "new"), None);
    }
}
