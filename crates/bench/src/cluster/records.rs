//! The objects that are there before anything is measured.

use std::{net::IpAddr, path::Path, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use floe_api::{
    galaxy::{FloatingIP, FloatingIPSpec},
    labels,
};
use floe_core::ipam::attribute::Attribute;
use floe_testbed::cluster::{Cluster, wait};
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::json;

use crate::{filter, scene::Size};

/// How many writes are under way at once.
pub const AT_ONCE: usize = 32;

const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");

/// Writes the definitions, and a record for each held address: all of them kept
/// for pods that are not there, so nobody ever frees them.
pub async fn write(cluster: &Cluster, client: &Client, size: Size) -> Result<()> {
    let applied = cluster
        .kubectl()
        .args(["apply", "--server-side", "--filename"])
        .arg(Path::new(DEFINITIONS))
        .stdout(Stdio::null())
        .status()
        .context("cannot run kubectl")?;
    ensure!(applied.success(), "the definitions cannot be applied");
    let api: Api<FloatingIP> = Api::all(client.clone());
    wait::until("records can be listed", wait::SETTLED, async || {
        Ok(Some(api.list(&ListParams::default().limit(1)).await?))
    })
    .await?;
    let addresses = (0..size.subnets)
        .flat_map(|subnet| (0..size.held_per_subnet).map(move |nth| (subnet, nth)));
    futures::stream::iter(addresses)
        .map(Ok)
        .try_for_each_concurrent(AT_ONCE, |(subnet, nth)| {
            let api = api.clone();
            async move {
                let record = kept(subnet, nth);
                api.create(&PostParams::default(), &record).await.map(drop)
            }
        })
        .await?;
    Ok(())
}

/// Writes all nodes.
pub async fn write_nodes(client: &Client, size: Size) -> Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    futures::stream::iter(size.node_list())
        .map(Ok)
        .try_for_each_concurrent(AT_ONCE, |(name, address)| {
            let api = api.clone();
            async move {
                let node = node(&name, address)?;
                api.create(&PostParams::default(), &node).await?;
                // The status goes its own way.
                api.replace_status(&name, &PostParams::default(), &node)
                    .await?;
                anyhow::Ok(())
            }
        })
        .await
}

/// A record of an address that waits for its pod, as floe writes it.
pub fn kept(subnet: u32, nth: u32) -> FloatingIP {
    let record = filter::kept(subnet, nth);
    let spec = FloatingIPSpec::of(
        &record.key,
        &Attribute::default(),
        record.policy,
        Timestamp::now(),
    );
    let mut object = FloatingIP::new(record.ip, spec);
    let annotations = object.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::STATE.to_owned(), "Kept".to_owned());
    object
}

fn node(name: &str, address: IpAddr) -> Result<Node> {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": address }],
            "capacity": { "cpu": "64", "memory": "256Gi", "pods": "500" },
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Bench",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            }],
        },
    });
    Ok(serde_json::from_value(node)?)
}
