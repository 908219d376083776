//! A sign of life of a node that has an address of a cloud.
//!
//! Kubernetes takes 40 to 50 s until it calls a silent node not ready. The controller moves
//! addresses of pools sooner, when it hears neither the kubelet nor the agent; so the agent has
//! to be heard before. It renews a lease as often as a kubelet does, and only while its node
//! has such an address, as the annotation says that the controller writes: a large cluster of
//! which few nodes have one stays quiet.

use std::time::Duration;

use floe_api::{
    flipop::ALL_ANNOTATION,
    floe::tenure::{self, LEASES, LIFE, LIFE_LABEL},
};
use floe_shell::{follow, logs, stop::Stop};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::Node,
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{PartialObjectMeta, PostParams},
    runtime::watcher::{Config, Event},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, info, warn};

/// The time between two renewals: four while the lease lasts.
const PACE: Duration = Duration::from_secs(LIFE.as_secs() / 4);

/// The pause before a renewal that has failed is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The task that is heard.
pub struct Pulse {
    /// A client of the API server.
    pub client: Client,
    /// This node.
    pub node: String,
    /// Changes when the API server answers again after it did not.
    pub doubts: watch::Receiver<u64>,
}

/// The uid of the node, while it has an address.
type Given = Option<String>;

impl Pulse {
    /// Is heard until `stop`, while it has to be.
    pub async fn run(self, mut stop: Stop) {
        let Self {
            client,
            node,
            doubts,
        } = self;
        let (given, told) = watch::channel(None);
        let leases = Api::namespaced(client.clone(), LEASES);
        tokio::select! {
            () = stop.requested() => {}
            () = look(client, &node, doubts, &given) => {}
            () = beat(&leases, &node, told) => {}
        }
    }
}

/// Follows the own node for ever, and begins anew with each doubt.
async fn look(
    client: Client,
    node: &str,
    mut doubts: watch::Receiver<u64>,
    given: &watch::Sender<Given>,
) {
    let own: Api<PartialObjectMeta<Node>> = Api::all(client);
    let config = Config::default().fields(&format!("metadata.name={node}"));
    let tell = |now: Given| {
        given.send_if_modified(|known| {
            let changed = *known != now;
            if changed {
                let has = now.is_some();
                info!(has, "whether the node has an address of a pool has changed");
            }
            *known = now;
            changed
        });
    };
    loop {
        let mut is_listed = false;
        let enter = |event: Event<PartialObjectMeta<Node>>| match event {
            Event::Init => is_listed = false,
            Event::Apply(it) | Event::InitApply(it) if it.name_any() == node => {
                is_listed = true;
                tell(given_to(&it));
            }
            Event::Delete(it) if it.name_any() == node => tell(None),
            // It went while nobody looked.
            Event::InitDone if !is_listed => tell(None),
            Event::Apply(_) | Event::InitApply(_) | Event::Delete(_) | Event::InitDone => {}
        };
        tokio::select! {
            () = follow(own.clone(), config.clone(), "the own node", enter) => return,
            Ok(()) = doubts.changed() => {}
        }
    }
}

fn given_to(node: &PartialObjectMeta<Node>) -> Given {
    let addresses = node.annotations().get(ALL_ANNOTATION);
    addresses.filter(|it| !it.is_empty()).and(node.uid())
}

/// Renews the lease while the node has an address.
async fn beat(leases: &Api<Lease>, node: &str, mut given: watch::Receiver<Given>) {
    let mut version = None;
    let mut failed = false;
    loop {
        let Ok(uid) = given.wait_for(Option::is_some).await.map(|it| it.clone()) else {
            return;
        };
        let begun = Instant::now();
        let pause = match renew(leases, node, uid.unwrap_or_default(), version.take()).await {
            Ok(written) => {
                failed = false;
                version = written;
                PACE
            }
            Err(error) => {
                if std::mem::replace(&mut failed, true) {
                    debug!(error, "the lease of the node is still not written");
                } else {
                    let reason = "LeaseUnwritable";
                    warn!(reason, error, "the lease of the node is not written");
                }
                AGAIN
            }
        };
        sleep_until(begun + pause).await;
    }
}

/// Renews the lease that has this version; one that is not known is read first. Its version
/// then.
async fn renew(
    leases: &Api<Lease>,
    node: &str,
    uid: String,
    version: Option<String>,
) -> Result<Option<String>, String> {
    let name = tenure::life_name(node);
    let version = match version {
        Some(version) => Some(version),
        None => ask(leases.get_opt(&name))
            .await?
            .and_then(|it| it.resource_version()),
    };
    let is_new = version.is_none();
    let lease = lease(node, uid, version, Timestamp::now());
    let params = PostParams::default();
    let written = if is_new {
        ask(leases.create(&params, &lease)).await
    } else {
        ask(leases.replace(&name, &params, &lease)).await
    };
    Ok(written?.resource_version())
}

/// It goes with its node.
fn lease(node: &str, uid: String, version: Option<String>, now: Timestamp) -> Lease {
    let labels = [(LIFE_LABEL, "true"), ("app.kubernetes.io/part-of", "floe")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid,
        ..OwnerReference::default()
    };
    Lease {
        metadata: ObjectMeta {
            name: Some(tenure::life_name(node)),
            namespace: Some(LEASES.to_owned()),
            labels: Some(labels.into()),
            owner_references: Some(vec![owner]),
            resource_version: version,
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(node.to_owned()),
            lease_duration_seconds: i32::try_from(LIFE.as_secs()).ok(),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}

async fn ask<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match timeout(PATIENCE, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(logs::with_causes(&error)),
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    }
}

#[cfg(test)]
mod tests;
