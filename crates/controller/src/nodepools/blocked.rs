//! Without some permissions nothing can be done for any pool. Then each object reports that in its
//! status, as far as that may be written.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use floe_api::flipop::{ACCEPTED, pool::FloatingIPPool, records::NodeDNSRecordSet};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};
use tracing::warn;

use super::{
    objects::{Id, Objects},
    permissions::Missing,
    server::{Failure, Kind, Server},
    status::{self, Verdict},
    tell::Teller,
};
use crate::installation::PERMISSION_MISSING;

/// The time between two looks at the objects.
const PACE: Duration = Duration::from_secs(30);

/// Reports on all objects what is missing, as long as nothing can be done. Each object is written
/// once for each list of missing permissions.
pub async fn report(
    server: &Server,
    teller: &Teller,
    pools: &Objects<FloatingIPPool>,
    record_sets: &Objects<NodeDNSRecordSet>,
    missing: &mut watch::Receiver<Missing>,
) {
    let mut told = Told::new();
    let (mut pool_changes, mut set_changes) = (pools.changes(), record_sets.changes());
    loop {
        let message = missing.borrow_and_update().clone();
        let message = message.message(true).filter(|_| message.blocks());
        if let Some(message) = message {
            let reporter = Reporter {
                server,
                teller,
                message,
            };
            let (pools, record_sets) = (pools.all(), record_sets.all());
            prune(&mut told, pools.as_ref());
            prune(&mut told, record_sets.as_ref());
            for (id, pool) in pools.unwrap_or_default() {
                let status = pool.status.clone().unwrap_or_default();
                let status = (status.conditions, json!({}));
                reporter.tell(&id, &pool, status, &mut told).await;
            }
            for (id, set) in record_sets.unwrap_or_default() {
                let status = set.status.clone().unwrap_or_default();
                let status = (status.conditions, json!({ "state": "error" }));
                reporter.tell(&id, &set, status, &mut told).await;
            }
        }
        tokio::select! {
            // The senders live as long as the objects.
            _ = pool_changes.changed() => {}
            _ = set_changes.changed() => {}
            changed = missing.changed() => {
                if changed.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            () = sleep(PACE) => {}
        }
    }
}

/// What was written to which object, by kind and uid: an object that is created again under the
/// same name does not report it yet.
type Told = BTreeMap<(&'static str, Option<String>), String>;

fn key<K: Kind>(object: &K) -> (&'static str, Option<String>) {
    (std::any::type_name::<K>(), object.meta().uid.clone())
}

/// Forgets objects that are gone, once it is known which ones exist.
fn prune<K: Kind>(told: &mut Told, all: Option<&BTreeMap<Id, Arc<K>>>) {
    let Some(all) = all else { return };
    let there: BTreeSet<_> = all.values().map(|it| key(&**it)).collect();
    let kind = std::any::type_name::<K>();
    told.retain(|it, _| it.0 != kind || there.contains(it));
}

struct Reporter<'a> {
    server: &'a Server,
    teller: &'a Teller,
    message: String,
}

impl Reporter<'_> {
    async fn tell<K: Kind>(
        &self,
        id: &Id,
        object: &Arc<K>,
        (conditions, mut patch): (Vec<Condition>, Value),
        told: &mut Told,
    ) {
        let key = key(&**object);
        if told.get(&key) == Some(&self.message) {
            return;
        }
        let (reason, message) = (PERMISSION_MISSING, &self.message);
        let verdicts = [Verdict::bad(ACCEPTED, reason, message.clone())];
        let generation = object.meta().generation;
        patch["error"] = json!(message);
        patch["conditions"] = json!(status::conditions(
            &conditions,
            &[ACCEPTED],
            &verdicts,
            generation,
            Timestamp::now(),
        ));
        let version = object.meta().resource_version.clone();
        self.teller.tell(
            &**object,
            true,
            reason,
            "Validate",
            message.clone(),
            &[message],
        );
        let written: Result<K, _> = self.server.patch_status(id, version, &patch).await;
        if let Err(failure) = &written {
            let Id { namespace, name } = id;
            let reason = failure.reason();
            warn!(reason, namespace, name, error = %failure, "a status is not written");
        }
        // What failed for another reason than a missing permission is tried again with the next
        // look; Events of one reason are aggregated.
        if matches!(written, Ok(_) | Err(Failure::Forbidden(_))) {
            told.insert(key, self.message.clone());
        }
    }
}
