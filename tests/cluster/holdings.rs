//! What pods hold, as the cluster says it: the records, the annotation that CNI
//! plugins read, and what people are told.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use serde_json::Value;

use crate::LIMIT;

/// The annotation with wishes and result.
pub const ARGS: &str = "k8s.v1.cni.galaxy.io/args";
/// The annotation with the release policy.
pub const POLICY: &str = "k8s.v1.cni.galaxy.io/release-policy";
/// The annotation with the name of a pool.
pub const POOL: &str = "tke.cloud.tencent.com/eni-ip-pool";
/// The annotation with address families.
pub const FAMILIES: &str = "floe.dev/families";

/// A record of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who holds the address.
    pub key: String,
    /// 0, 1 or 2.
    pub policy: i64,
    /// The node of the holder; empty for none.
    pub node: String,
    /// The uid of the holder; empty for none.
    pub uid: String,
    /// What floe calls its state.
    pub state: String,
}

/// The names of records.
pub fn api(client: kube::Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("galaxy.k8s.io", "v1alpha1", "FloatingIP");
    Api::all_with(
        client,
        &ApiResource::from_gvk_with_plural(&kind, "floatingips"),
    )
}

/// All records whose key has this text in it, by their names.
pub async fn records(cluster: &Cluster, in_key: &str) -> Result<BTreeMap<String, Record>> {
    let listed = api(cluster.client().await?)
        .list(&ListParams::default())
        .await?;
    let mut records = BTreeMap::new();
    for object in listed.items {
        let spec = &object.data["spec"];
        let key = spec["key"].as_str().unwrap_or_default();
        if !key.contains(in_key) {
            continue;
        }
        let attribute = spec["attribute"].as_str().filter(|text| !text.is_empty());
        let attribute: Value = serde_json::from_str(attribute.unwrap_or("{}"))
            .with_context(|| format!("attribute of {}", object.name_any()))?;
        let text = |name: &str| attribute[name].as_str().unwrap_or_default().to_owned();
        let state = object.annotations().get("floe.dev/state").cloned();
        let record = Record {
            key: key.to_owned(),
            policy: spec["policy"].as_i64().unwrap_or_default(),
            node: text("NodeName"),
            uid: text("Uid"),
            state: state.unwrap_or_default(),
        };
        records.insert(object.name_any(), record);
    }
    Ok(records)
}

/// The records of a namespace: of its pods, and of its workloads' spares.
pub async fn records_of(namespace: &TestNamespace<'_>) -> Result<BTreeMap<String, Record>> {
    records(namespace.cluster(), &format!("_{}_", namespace.name())).await
}

/// Waits until a namespace holds exactly so many addresses.
pub async fn holds(
    namespace: &TestNamespace<'_>,
    count: usize,
) -> Result<BTreeMap<String, Record>> {
    let what = format!("{} holds {count} addresses", namespace.name());
    wait::until(&what, LIMIT, async || {
        let found = records_of(namespace).await?;
        ensure!(found.len() == count, "it holds {found:?}");
        Ok(Some(found))
    })
    .await
}

/// Deletes the records whose key has this text in it, as somebody does who wants
/// back what is never released.
pub async fn forget(cluster: &Cluster, in_key: &str) -> Result<()> {
    let api = api(cluster.client().await?);
    for name in records(cluster, in_key).await?.keys() {
        api.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

/// The annotation of a pod, decoded.
pub fn args(pod: &Pod) -> Result<Value> {
    let text = pod.annotations().get(ARGS);
    let text = text.with_context(|| format!("pod {} has no {ARGS}", pod.name_any()))?;
    serde_json::from_str(text).with_context(|| format!("{ARGS} of {}", pod.name_any()))
}

/// The addresses in the annotation of a pod, in their order and without length.
pub fn ips(pod: &Pod) -> Result<Vec<String>> {
    let args = args(pod)?;
    let infos = args["common"]["ipinfos"].as_array();
    let infos = infos.with_context(|| format!("no ipinfos in {args}"))?;
    infos
        .iter()
        .map(|info| {
            let ip = info["ip"].as_str().and_then(|ip| ip.split_once('/'));
            Ok(ip
                .with_context(|| format!("no address in {info}"))?
                .0
                .to_owned())
        })
        .collect()
}

/// The only address of a pod.
pub fn ip(pod: &Pod) -> Result<String> {
    let ips = ips(pod)?;
    ensure!(ips.len() == 1, "pod {} has {ips:?}", pod.name_any());
    Ok(ips[0].clone())
}

/// Waits until exactly `count` pods of a label are Ready, and returns the address
/// of each by its name. Every address must be recorded for its pod.
pub async fn addresses(
    namespace: &TestNamespace<'_>,
    selector: &str,
    count: usize,
) -> Result<BTreeMap<String, String>> {
    let pods = namespace.ready_pods(selector, count, LIMIT).await?;
    let records = records_of(namespace).await?;
    let mut addresses = BTreeMap::new();
    for pod in &pods {
        let ip = ip(pod)?;
        agrees(pod, records.get(&ip)).with_context(|| format!("{ip} of {}", pod.name_any()))?;
        addresses.insert(pod.name_any(), ip);
    }
    ensure!(
        set(&addresses).len() == count,
        "two have one: {addresses:?}"
    );
    Ok(addresses)
}

/// The addresses, without who has them.
pub fn set(addresses: &BTreeMap<String, String>) -> BTreeSet<String> {
    addresses.values().cloned().collect()
}

/// Whether a record is that of a bound pod.
pub fn agrees(pod: &Pod, record: Option<&Record>) -> Result<()> {
    let record = record.context("there is no record")?;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let name = format!("_{}_", pod.namespace().unwrap_or_default());
    ensure!(
        record.key.contains(&name)
            && record.key.ends_with(&format!("_{}", pod.name_any()))
            && Some(&record.uid) == pod.metadata.uid.as_ref()
            && Some(&record.node) == node.as_ref()
            && record.state == "Bound",
        "the record is {record:?}, the pod is {:?} on {node:?}",
        pod.metadata.uid
    );
    Ok(())
}

/// Waits until an Event on a pod has the reason and the text in it.
pub async fn told(
    namespace: &TestNamespace<'_>,
    pod: &str,
    reason: &str,
    text: &str,
) -> Result<String> {
    let events = namespace.api::<Event>();
    let about = ListParams::default().fields(&format!("involvedObject.name={pod}"));
    wait::until(
        &format!("{pod} is told {reason}: {text}"),
        LIMIT,
        async || {
            let listed = events.list(&about).await?;
            let seen: Vec<(String, String)> = listed
                .items
                .into_iter()
                .map(|event| {
                    (
                        event.reason.unwrap_or_default(),
                        event.message.unwrap_or_default(),
                    )
                })
                .collect();
            let found = seen
                .iter()
                .find(|(had, note)| had == reason && note.contains(text));
            ensure!(found.is_some(), "seen {seen:?}");
            Ok(found.map(|(_, note)| note.clone()))
        },
    )
    .await
}

/// Waits until a pod is refused for this reason: the scheduler says the text, and
/// floe says it with its stable name.
pub async fn refused(
    namespace: &TestNamespace<'_>,
    pod: &str,
    reason: &str,
    text: &str,
) -> Result<()> {
    told(namespace, pod, "FailedScheduling", text).await?;
    told(namespace, pod, reason, text).await?;
    let found = namespace.api::<Pod>().get(pod).await?;
    let node = found.spec.and_then(|spec| spec.node_name);
    ensure!(node.is_none(), "{pod} is bound to {node:?}");
    Ok(())
}
