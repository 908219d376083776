//! The writes that floe makes for pods, in a loop that decides nothing.
//!
//! Gates: the record; the patch that puts the address into the pod, narrows its affinity
//! and takes the gate off; the Event; and when the pod is bound, its node into the record.
//! An extender: the record and the Event, while the scheduler writes the Binding that floe
//! would write.
//!
//! As any program that does so, it learns of pods by a watch of its own. As many are under
//! way at once as the controller has, and as there, Events are written by themselves. That
//! these are the writes of floe is seen by the API server's own count, which is part of the
//! table.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context as _, Result};
use floe_api::{
    galaxy::{FloatingIP, FloatingIPSpec},
    labels::{self, Given},
};
use floe_core::{
    ipam::{args::Args, attribute::Attribute, names, owner::AppKind, policy::ReleasePolicy},
    schedule::gate::{self, patch::Gated},
};
use futures::{
    Stream, StreamExt as _, TryStreamExt as _,
    channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
    stream,
};
use jiff::Timestamp;
use k8s_openapi::api::{core::v1::Pod, events::v1::Event};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    Case,
    changes::{Change, Changes},
    field::{APP, Field},
    pods::{self, Place},
};
use crate::scene::{self, Size};

/// As many pods as the controller lets through at once.
const AT_ONCE: usize = 16;
/// As many Events as the controller writes at once.
const EVENTS_AT_ONCE: usize = 8;

/// The reason of the Event of each pod, which is also floe's.
pub const REASON: &str = "AddressAllocated";

/// What there is to do.
enum Work {
    /// A pod was created.
    Created(Box<Pod>),
    /// A pod was bound to a node.
    Bound { name: String, node: String },
}

/// Starts the loop among these tasks, for a case that has one. It ends when all is written
/// for so many pods.
pub async fn start(
    field: &Field<'_>,
    case: Case,
    pods: usize,
    tasks: &mut JoinSet<Result<()>>,
) -> Result<()> {
    if !case.is_bare() {
        return Ok(());
    }
    let api = Api::namespaced(field.bare.clone(), scene::NAMESPACE);
    let changes = Changes::from_now_on(api).await?;
    let (events, news) = unbounded();
    let desk = Desk {
        client: field.bare.clone(),
        size: field.size,
        has_gates: case.has_gates(),
        records: Mutex::default(),
        events,
    };
    tasks.spawn(desk.serve(changes, pods));
    tasks.spawn(tell(field.bare.clone(), news));
    Ok(())
}

/// What is seen of so many pods: that each was created, and then, if that is waited for,
/// where it was bound to.
fn seen(changes: Changes, pods: usize, until_bound: bool) -> impl Stream<Item = Result<Work>> {
    let (created, bound) = (pods, if until_bound { pods } else { 0 });
    let left = (changes, created, bound);
    stream::try_unfold(left, async |(mut changes, created, bound)| {
        if created + bound == 0 {
            return Ok(None);
        }
        loop {
            match changes.next().await? {
                Change::New(pod) => {
                    let work = Work::Created(Box::new(pod));
                    return Ok(Some((work, (changes, created - 1, bound))));
                }
                Change::Changed(pod) => {
                    let name = pod.name_any();
                    let node = pod.spec.and_then(|spec| spec.node_name);
                    if let Some(node) = node.filter(|_| bound > 0) {
                        let work = Work::Bound { name, node };
                        return Ok(Some((work, (changes, created, bound - 1))));
                    }
                }
            }
        }
    })
}

/// What all of the loop's hands share.
struct Desk {
    client: Client,
    size: Size,
    has_gates: bool,
    /// The records of pods that have no node yet, by the name of the pod.
    records: Mutex<BTreeMap<String, FloatingIP>>,
    events: UnboundedSender<Event>,
}

async fn tell(client: Client, news: UnboundedReceiver<Event>) -> Result<()> {
    let api: Api<Event> = Api::namespaced(client, scene::NAMESPACE);
    news.map(anyhow::Ok)
        .try_for_each_concurrent(EVENTS_AT_ONCE, async |event| {
            api.create(&PostParams::default(), &event).await?;
            Ok(())
        })
        .await
}

impl Desk {
    async fn serve(self, changes: Changes, pods: usize) -> Result<()> {
        let this = Arc::new(self);
        seen(changes, pods, this.has_gates)
            .try_for_each_concurrent(AT_ONCE, async |work| match work {
                Work::Created(pod) => this.give(&pod).await,
                Work::Bound { name, node } => this.enter(&name, &node).await,
            })
            .await
    }

    /// Gives an address to a pod, and lets it through where it has a gate.
    async fn give(&self, pod: &Pod) -> Result<()> {
        let name = pod.name_any();
        let number = pods::number(&name).context("a pod of somebody else")?;
        let place = Place::of(number, self.size)?;
        let node = if self.has_gates { "" } else { &place.node };
        let record = record(pod, &place, node);
        let records: Api<FloatingIP> = Api::all(self.client.clone());
        let record = records.create(&PostParams::default(), &record).await?;
        if self.has_gates {
            self.records().insert(name.clone(), record);
            let api: Api<Pod> = Api::namespaced(self.client.clone(), scene::NAMESPACE);
            let patch = opening(pod, &place)?;
            let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
            api.patch(&name, &params, &patch).await?;
        }
        let event = event(pod, &place)?;
        self.events.unbounded_send(event)?;
        Ok(())
    }

    /// Makes the record of a pod say where it runs.
    async fn enter(&self, name: &str, node: &str) -> Result<()> {
        let record = self.records().remove(name);
        let record = record.context("a pod without a record was bound")?;
        let place = Attribute {
            node_name: node.to_owned(),
            uid: record.spec.place().attribute.uid,
        };
        let patch = json!({
            "metadata": {
                "resourceVersion": record.metadata.resource_version,
                "annotations": { labels::NODE: node, labels::STATE: "Bound" },
                "labels": { labels::NODE: labels::node_label(node) },
            },
            "spec": FloatingIPSpec::of(
                &record.spec.holder(), &place, ReleasePolicy::OnDelete, Timestamp::now(),
            ),
        });
        let records: Api<FloatingIP> = Api::all(self.client.clone());
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        records.patch(&record.name_any(), &params, &patch).await?;
        Ok(())
    }

    fn records(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, FloatingIP>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The record of an address, as floe writes it.
fn record(pod: &Pod, place: &Place, node: &str) -> FloatingIP {
    let claimant = scene::pod(
        AppKind::Deployment,
        APP,
        &pod.name_any(),
        ReleasePolicy::OnDelete,
    );
    let uid = pod.uid().unwrap_or_default();
    let at = Attribute {
        node_name: node.to_owned(),
        uid: uid.clone(),
    };
    let spec = FloatingIPSpec::of(&claimant.key, &at, claimant.policy, Timestamp::now());
    let mut record = FloatingIP::new(place.ip(), spec);
    let given = Given {
        info: place.info,
        uid,
        assigning: false,
    };
    let annotations = record.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::NETWORK.to_owned(), given.value());
    annotations.insert(labels::STATE.to_owned(), "Bound".to_owned());
    if let Some(label) = labels::node_label(node) {
        annotations.insert(labels::NODE.to_owned(), node.to_owned());
        let labels = record.metadata.labels.get_or_insert_default();
        labels.insert(labels::NODE.to_owned(), label);
    }
    record
}

/// What takes the gate off a pod, as floe writes it.
fn opening(pod: &Pod, place: &Place) -> Result<Value> {
    let args = Args::parse(None)?.with_result(&[place.info]);
    let gated = Gated {
        gates: vec![json!({ "name": gate::GATE })],
        affinity: None,
    };
    let subnets = BTreeSet::from([place.subnet.clone()]);
    Ok(json!({
        "metadata": {
            "uid": pod.uid(), "resourceVersion": pod.resource_version(),
            "annotations": { names::ARGS: args },
        },
        "spec": gate::patch::spec(&gated, Some(&subnets)),
    }))
}

fn event(pod: &Pod, place: &Place) -> Result<Event> {
    let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
    let event = json!({
        "metadata": { "name": format!("{name}.{uid:.16}"), "namespace": scene::NAMESPACE },
        "eventTime": format!("{:.6}", Timestamp::now()),
        "reportingController": "floe.dev/bench", "reportingInstance": "bench",
        "action": "Assign", "reason": REASON, "type": "Normal",
        "regarding": {
            "apiVersion": "v1", "kind": "Pod", "name": name, "namespace": scene::NAMESPACE,
            "uid": uid, "resourceVersion": pod.resource_version(),
        },
        "note": format!("allocated {} for nodes of {}", place.ip(), place.subnet),
    });
    Ok(serde_json::from_value(event)?)
}
