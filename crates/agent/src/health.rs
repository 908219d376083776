//! What this node can do for its pods, told in its `NodeNetwork` object: which networks
//! it can serve, how the links below them are, and which addresses are in conflict.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use floe_api::floe::{LinkStatus, NodeNetwork, NodeNetworkStatus};
use floe_core::node::settings::Settings;
use floe_net::netlink::Netlink;
use floe_shell::{Unkept, logs, stop::Stop, unkept::merge};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Node,
    apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference, Time},
};
use kube::{
    Api, Client, Resource as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tracing::{info, warn};

use crate::{apiserver::is_missing, metrics::Metrics, takeover::missing::Missing};
pub use conflicts::Conflicts;
use judge::{Facts, judge, parents};

pub mod conflicts;
mod judge;

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(5);

/// The longest time without a write.
const BEAT: Duration = Duration::from_mins(1);

/// The pause after a write that failed.
const AGAIN: Duration = Duration::from_secs(15);

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The name under which the agent owns its object.
const MANAGER: &str = "floe-agent";

/// What to do about a CRD that is missing or lacks fields.
const REMEDY: &str = "kubectl apply --server-side --force-conflicts -f deploy/crds/floe.yaml";

/// Looks links up by name; it blocks. Tests have their own.
pub type LookUp = Arc<dyn Fn(&str) -> Result<Option<LinkStatus>, String> + Send + Sync>;

/// The task that tells how the node is.
pub struct Health {
    /// A client of the API server.
    pub client: Client,
    /// This node.
    pub node: String,
    /// The networks of this node.
    pub settings: Arc<Settings>,
    /// The conflicts that were found.
    pub conflicts: Conflicts,
    /// The addresses that pods lack.
    pub missing: Missing,
    /// How links are looked up.
    pub look_up: LookUp,
    /// Where it is noted.
    pub metrics: Metrics,
}

/// Looks links up in the kernel of this host.
pub fn in_kernel() -> LookUp {
    Arc::new(|name| {
        let mut netlink = Netlink::open().map_err(|it| it.to_string())?;
        let link = netlink.link(name).map_err(|it| it.to_string())?;
        Ok(link.map(|link| LinkStatus {
            name: link.name,
            up: link.is_up,
            carrier: link.has_carrier,
        }))
    })
}

/// What was told so far.
#[derive(Default)]
struct Told {
    /// Whether the object is known to be there.
    is_there: bool,
    status: Option<NodeNetworkStatus>,
    /// Conditions of an earlier agent, whose times go on.
    before: Vec<Condition>,
    next_write: Option<Instant>,
    failed: bool,
    /// What the API server did not keep of the last status.
    unkept: Unkept,
}

impl Health {
    /// Looks again and again until `stop`, and tells what has changed.
    pub async fn run(self, mut stop: Stop) {
        let changes = self.conflicts.changes();
        tokio::select! {
            () = stop.requested() => {}
            () = self.tell_forever(changes) => {}
        }
    }

    async fn tell_forever(&self, mut changes: watch::Receiver<u64>) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = Told::default();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                Ok(()) = changes.changed() => {}
            }
            let status = self.look(&told).await;
            self.metrics.health(&status);
            let is_due = told.next_write.is_none_or(|at| at <= Instant::now());
            let has_changed = told.status.as_ref().is_some_and(|it| !is_same(it, &status));
            // After a failure the pause counts, whatever changes.
            if is_due || (has_changed && !told.failed) {
                self.tell(status, &mut told).await;
            }
        }
    }

    async fn look(&self, told: &Told) -> NodeNetworkStatus {
        let names = parents(&self.settings);
        let look_up = Arc::clone(&self.look_up);
        let links = spawn_blocking(move || {
            let found = names.into_iter().map(|name| {
                let link = look_up(&name);
                (name, link)
            });
            found.collect::<BTreeMap<_, _>>()
        });
        let links = match links.await {
            Ok(links) => links,
            // A panic goes on in whoever waits for the work.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        // The API server keeps whole seconds.
        let now = Timestamp::now();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let before = told.status.as_ref().map(|it| &it.conditions);
        judge(&Facts {
            settings: &self.settings,
            links: &links,
            conflicts: self.conflicts.current(now),
            missing: self.missing.current(),
            before: before.unwrap_or(&told.before),
            now,
        })
    }

    async fn tell(&self, mut status: NodeNetworkStatus, told: &mut Told) {
        let written = match timeout(PATIENCE, self.write(&mut status, told)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(logs::with_causes(&error)),
            Err(_) => Err(format!("no answer within {PATIENCE:?}")),
        };
        match written {
            Ok(()) => {
                if told.failed {
                    info!("the NodeNetwork of this node is written again");
                }
                self.metrics.told(Timestamp::now());
                told.status = Some(status);
                told.failed = false;
                told.next_write = Some(Instant::now() + BEAT);
            }
            Err(error) => {
                if !told.failed {
                    warn!(
                        reason = "NodeNetworkNotWritten",
                        error,
                        remedy = REMEDY,
                        "failed to write the NodeNetwork of this node",
                    );
                }
                told.failed = true;
                told.is_there = false;
                told.next_write = Some(Instant::now() + AGAIN);
            }
        }
    }

    async fn write(
        &self,
        status: &mut NodeNetworkStatus,
        told: &mut Told,
    ) -> Result<(), kube::Error> {
        let api: Api<NodeNetwork> = Api::all(self.client.clone());
        if !told.is_there {
            let params = PatchParams::apply(MANAGER).force();
            let mut object = NodeNetwork::of(&self.node);
            object.metadata.owner_references = self.owner().await.map(|owner| vec![owner]);
            let there = api
                .patch(&self.node, &params, &Patch::Apply(&object))
                .await?;
            told.is_there = true;
            if told.status.is_none() && told.before.is_empty() {
                told.before = there.status.map(|it| it.conditions).unwrap_or_default();
                judge::keep_times(&mut status.conditions, &told.before);
            }
        }
        status.last_seen = Some(Time(Timestamp::now()));
        // The API server refuses all of a server-side apply for one field that an older CRD
        // lacks. Of a merge patch it drops that field, and keeps the rest.
        let patch = merge_patch(status);
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let body = json!({ "status": patch });
        let written = api
            .patch_status(&self.node, &params, &Patch::Merge(&body))
            .await?;
        let got = json!(written.status);
        if told.unkept.answered(&patch, &got, Instant::now()) {
            warn!(
                reason = "SchemaOutdated",
                crd = "nodenetworks.floe.dev",
                fields = ?told.unkept.fields(),
                remedy = REMEDY,
                "the API server does not keep fields of a status",
            );
        }
        Ok(())
    }

    /// The node owns the object, so that it goes with the node. Without the right to read
    /// the node it does not.
    async fn owner(&self) -> Option<OwnerReference> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        match nodes.get_metadata(&self.node).await {
            Ok(node) => Some(OwnerReference {
                api_version: Node::api_version(&()).into_owned(),
                kind: Node::kind(&()).into_owned(),
                name: self.node.clone(),
                uid: node.metadata.uid?,
                ..OwnerReference::default()
            }),
            Err(error) => {
                if !is_missing(&error) {
                    let error = logs::with_causes(&error);
                    warn!(
                        reason = "NodeObjectUnreadable",
                        error, "cannot read this node"
                    );
                }
                None
            }
        }
    }
}

/// The merge patch after which the API server has this status and nothing else. Members that
/// are left out when they are empty are removed.
fn merge_patch(status: &NodeNetworkStatus) -> Value {
    let mut patch = json!({ "lastSeen": null, "missing": null });
    merge(&mut patch, &json!(status));
    patch
}

/// Whether two say the same, whenever they were written.
fn is_same(one: &NodeNetworkStatus, other: &NodeNetworkStatus) -> bool {
    let timeless = |it: &NodeNetworkStatus| NodeNetworkStatus {
        last_seen: None,
        ..it.clone()
    };
    timeless(one) == timeless(other)
}

#[cfg(test)]
mod tests;
