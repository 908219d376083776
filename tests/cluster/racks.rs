//! The ground that float IPs are tested on: a cluster whose fake nodes stand in
//! racks, with one address configuration for all of them.
//!
//! Each rack has node addresses and float IPs of its own, so that tests beside
//! each other do not take each other's. A pod comes to a rack by the ranges or
//! families that it asks for, or by the label `floe.dev/rack`; a taint keeps all
//! others away. Only the rack that the user document configures has no taint: a
//! manifest as it is printed there runs on it.
//!
//! | rack | node subnet | float IPs |
//! | --- | --- | --- |
//! | document | 10.0.0.0/16 | 10.0.70.2~10.0.70.241, as printed |
//! | ranges | 10.20.0.0/24 | those of the three ranges in the document |
//! | dual | 10.21.0.0/24 | 10.0.73.2~9 and `fd00:73::2~9` |
//! | scarce | 10.22.0.0/24 | 10.0.74.2 alone |
//! | reserve | 10.23.0.0/24 | 10.0.75.2~9 |
//! | adoption | 10.24.0.0/24 | 10.0.76.2~60 |
//! | crowd | 10.25.0.0/24 | 10.0.96.2~10.0.97.250 |

use std::ops::RangeInclusive;

use anyhow::{Context, Result};
use floe_testbed::cluster::shared::Shared;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use floe_testbed::supervisor::fake_nodes;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLockReadGuard, RwLockWriteGuard};

use crate::LIMIT;
use crate::addresses::every_controller_counts;

/// Label and taint of the nodes in a rack.
const RACK: &str = "floe.dev/rack";

/// The rack that has no taint.
const DOCUMENT: &str = "document";

/// Rack, its nodes, and the network of their addresses.
const RACKS: [(&str, RangeInclusive<u32>, &str); 7] = [
    (DOCUMENT, 1..=4, "10.0.1"),
    ("ranges", 5..=6, "10.20.0"),
    ("dual", 7..=7, "10.21.0"),
    ("scarce", 8..=8, "10.22.0"),
    ("reserve", 9..=9, "10.23.0"),
    ("adoption", 10..=10, "10.24.0"),
    ("crowd", 11..=15, "10.25.0"),
];

/// The address configuration: the entry of the user document as it is printed,
/// and one for each other rack.
const ENTRIES: [&str; 8] = [
    r#"{"routableSubnet":"10.0.0.0/16","ips":["10.0.70.2~10.0.70.241"],"subnet":"10.0.70.0/24","gateway":"10.0.70.1","vlan":2}"#,
    r#"{"nodeSubnets":["10.20.0.0/24"],"ips":["10.0.0.2~10.0.0.30","10.0.0.60~10.0.0.80","10.0.0.200~10.0.0.238"],"subnet":"10.0.0.0/24","gateway":"10.0.0.1"}"#,
    r#"{"nodeSubnets":["10.21.0.0/24"],"ips":["10.0.73.2~10.0.73.9"],"subnet":"10.0.73.0/24","gateway":"10.0.73.1","vlan":3}"#,
    r#"{"nodeSubnets":["10.21.0.0/24"],"ips":["fd00:73::2~fd00:73::9"],"subnet":"fd00:73::/64","gateway":"fd00:73::1","vlan":3}"#,
    r#"{"nodeSubnets":["10.22.0.0/24"],"ips":["10.0.74.2"],"subnet":"10.0.74.0/24","gateway":"10.0.74.1"}"#,
    r#"{"nodeSubnets":["10.23.0.0/24"],"ips":["10.0.75.2~10.0.75.9"],"subnet":"10.0.75.0/24","gateway":"10.0.75.1"}"#,
    r#"{"nodeSubnets":["10.24.0.0/24"],"ips":["10.0.76.2~10.0.76.60"],"subnet":"10.0.76.0/24","gateway":"10.0.76.1"}"#,
    r#"{"nodeSubnets":["10.25.0.0/24"],"ips":["10.0.96.2~10.0.97.250"],"subnet":"10.0.96.0/22","gateway":"10.0.96.1"}"#,
];

/// A leader that is killed is missed sooner than by default.
const LEASE: [(&str, &str); 3] = [
    ("FLOE_LEADER_ELECT_LEASE_DURATION", "6s"),
    ("FLOE_LEADER_ELECT_RENEW_DEADLINE", "4s"),
    ("FLOE_LEADER_ELECT_RETRY_PERIOD", "1s"),
];

static CLUSTER: Shared = Shared::new(|| {
    let nodes = RACKS.iter().map(|(_, nodes, _)| *nodes.end()).max();
    ClusterSpec::new("float-ips").fake_nodes(nodes.unwrap_or_default())
});

static READY: OnceCell<()> = OnceCell::const_new();

/// The cluster with floe and the configuration of all racks, beside other tests.
pub async fn together() -> Result<RwLockReadGuard<'static, Cluster>> {
    let cluster = CLUSTER.together().await;
    prepare(&cluster).await?;
    Ok(cluster)
}

/// The same, with no other test beside.
pub async fn alone() -> Result<RwLockWriteGuard<'static, Cluster>> {
    let cluster = CLUSTER.alone().await;
    prepare(&cluster).await?;
    Ok(cluster)
}

/// Adds an entry to the configuration, for a test that is alone; the next test
/// has it taken away. `total` is what the metrics say of it.
pub async fn also_configure(cluster: &Cluster, entry: &str, total: &str) -> Result<()> {
    cluster.apply(&manifest(&configuration(&[entry])), floe::NAMESPACE)?;
    every_controller_counts(cluster, total).await
}

/// Takes such an entry away.
pub async fn restore_configuration(cluster: &Cluster) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let found = maps.get_opt("floatingip-config").await?;
    let wanted = configuration(&[]);
    let data = found.and_then(|map| map.data).unwrap_or_default();
    if data.get("floatingips") != Some(&wanted) {
        cluster.apply(&manifest(&wanted), floe::NAMESPACE)?;
    }
    let printed =
        r#"galaxy_ip_counter{type="total",subnet="10.0.70.0/24",first_ip="10.0.70.2"} 240"#;
    every_controller_counts(cluster, printed).await
}

/// A pod that asks for a float IP and tolerates every rack, with annotations.
pub fn pod(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name }, "annotations": annotations },
        "spec": {
            "tolerations": [{ "key": RACK, "operator": "Exists" }],
            "containers": [{
                "name": "nginx", "image": "nginx:1.7.9",
                "resources": {
                    "limits": { "tke.cloud.tencent.com/eni-ip": "1" },
                    "requests": { "tke.cloud.tencent.com/eni-ip": "1" },
                },
            }],
        },
    })
}

/// A Deployment or `StatefulSet` of pods such as [`pod`] makes, by the label `app`.
pub fn workload(kind: &str, name: &str, replicas: u32, annotations: &Value) -> Value {
    let mut pod = pod(name, annotations);
    let mut workload = json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": {
                    "labels": { "app": name },
                    "annotations": pod["metadata"]["annotations"].take(),
                },
                "spec": pod["spec"].take(),
            },
        },
    });
    if kind == "StatefulSet" {
        workload["spec"]["serviceName"] = json!(name);
        workload["spec"]["podManagementPolicy"] = json!("Parallel");
    }
    workload
}

/// Chooses the rack of a pod, or of a workload's pods.
pub fn in_rack(mut manifest: Value, rack: &str) -> Value {
    let spec = if manifest["kind"] == "Pod" {
        &mut manifest["spec"]
    } else {
        &mut manifest["spec"]["template"]["spec"]
    };
    spec["nodeSelector"] = json!({ RACK: rack });
    manifest
}

async fn prepare(cluster: &Cluster) -> Result<()> {
    let set_up = async || {
        stand_in_racks(cluster).await?;
        cluster.apply(&manifest(&configuration(&[])), floe::NAMESPACE)?;
        floe::install_with(cluster, &LEASE)
    };
    READY.get_or_try_init(set_up).await?;
    restore_configuration(cluster).await
}

fn configuration(more: &[&str]) -> String {
    format!("[{}]", [&ENTRIES[..], more].concat().join(","))
}

fn manifest(configuration: &str) -> String {
    format!(
        "
kind: ConfigMap
apiVersion: v1
metadata:
 name: floatingip-config
 namespace: kube-system
data:
  floatingips: '{configuration}'
"
    )
}

/// Gives every fake node its rack, with an address in the network of the rack.
async fn stand_in_racks(cluster: &Cluster) -> Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    for (rack, members, network) in RACKS {
        for number in members {
            let name = fake_nodes::name(number);
            let taint = json!([{ "key": RACK, "value": rack, "effect": "NoSchedule" }]);
            let place = json!({
                "metadata": { "labels": { RACK: rack } },
                "spec": { "taints": if rack == DOCUMENT { json!([]) } else { taint } },
            });
            let addresses = json!({ "status": { "addresses": [
                { "type": "InternalIP", "address": format!("{network}.{}", 10 + number) },
                { "type": "Hostname", "address": name },
            ] } });
            let params = PatchParams::default();
            nodes.patch(&name, &params, &Patch::Merge(place)).await?;
            nodes
                .patch_status(&name, &params, &Patch::Merge(addresses))
                .await?;
        }
    }
    // The taints of a node's first moments are put on by others.
    wait::until("no node has a taint of others", LIMIT, async || {
        let listed = nodes.list(&kube::api::ListParams::default()).await?;
        let mut taints = listed
            .items
            .iter()
            .filter_map(|node| node.spec.as_ref()?.taints.as_ref())
            .flatten();
        Ok(taints.all(|taint| taint.key == RACK).then_some(()))
    })
    .await
    .context("the racks cannot be set up")
}
