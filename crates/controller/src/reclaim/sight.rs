//! A direct look for the pod of a record.

use std::{net::IpAddr, time::Duration};

use floe_core::ipam::slot::Sighting;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::logs;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the API server says about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// There is a pod.
    Pod {
        /// Its uid.
        uid: String,
        /// Whether its phase is Failed or Succeeded.
        finished: bool,
        /// The addresses that its status shows.
        shown: Vec<IpAddr>,
    },
    /// There is none.
    Nobody,
    /// It did not say; this is what went wrong.
    Unreadable(String),
}

impl Sight {
    /// Reads the pod of a name, never from a cache.
    pub async fn of(client: &Client, namespace: &str, pod: &str) -> Self {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let object = match timeout(PATIENCE, api.get_opt(pod)).await {
            Ok(Ok(Some(object))) => object,
            Ok(Ok(None)) => return Self::Nobody,
            Ok(Err(error)) => return Self::Unreadable(logs::with_causes(&error)),
            Err(_) => return Self::Unreadable(format!("no answer within {PATIENCE:?}")),
        };
        let status = object.status.unwrap_or_default();
        let list = status.pod_ips.unwrap_or_default();
        let texts = list.into_iter().map(|it| it.ip).chain(status.pod_ip);
        Self::Pod {
            uid: object.metadata.uid.unwrap_or_default(),
            finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            shown: texts.filter_map(|text| text.parse().ok()).collect(),
        }
    }

    /// What it means for the record of an address. A pod that shows the address
    /// runs with it, whatever uid the record has.
    pub fn of_address(&self, ip: IpAddr) -> Sighting<'_> {
        match self {
            Self::Pod {
                uid,
                finished,
                shown,
            } => {
                if !finished && shown.contains(&ip) {
                    return Sighting::Unreadable;
                }
                Sighting::Found {
                    uid,
                    finished: *finished,
                }
            }
            Self::Nobody => Sighting::NotFound,
            Self::Unreadable(_) => Sighting::Unreadable,
        }
    }
}

#[cfg(test)]
mod tests {
    use floe_core::ipam::slot::Departure;

    use super::*;

    #[test]
    fn an_address_that_the_pod_shows_is_not_left() {
        let ip = IpAddr::from([10, 0, 0, 1]);
        let pod = |finished, shown: &[IpAddr]| Sight::Pod {
            uid: "new".into(),
            finished,
            shown: shown.to_vec(),
        };
        let departure = |sight: &Sight, uid| Departure::seen(uid, sight.of_address(ip));
        assert_eq!(departure(&pod(false, &[]), "new"), None);
        assert_eq!(departure(&pod(false, &[]), ""), None);
        assert_eq!(
            departure(&pod(false, &[]), "old"),
            Some(Departure::Replaced)
        );
        assert_eq!(departure(&pod(false, &[ip]), "old"), None);
        assert_eq!(
            departure(&pod(true, &[ip]), "old"),
            Some(Departure::Replaced)
        );
        assert_eq!(
            departure(&pod(true, &[ip]), "new"),
            Some(Departure::Finished)
        );
        assert_eq!(departure(&Sight::Nobody, "new"), Some(Departure::Missing));
        assert_eq!(departure(&Sight::Unreadable("x".into()), "new"), None);
    }
}
