//! The ground of these tests: a cluster of its own, because everybody loses what etcd
//! loses. One real node runs the controllers, two fake ones have float IPs
//! 10.0.70.2~60.

use std::fs;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::shared::Shared;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use floe_testbed::supervisor::fake_nodes;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::sync::RwLockWriteGuard;

use crate::LIMIT;
use crate::cli::terminal::Terminal;
use crate::holdings::{ARGS, addresses, ips};
use crate::racks;

static CLUSTER: Shared = Shared::new(|| ClusterSpec::new("restore").nodes(1).fake_nodes(2));

const ENTRIES: &str = r#"[{"nodeSubnets":["10.0.0.0/16"],"ips":["10.0.70.2~10.0.70.60"],"subnet":"10.0.70.0/24","gateway":"10.0.70.1"}]"#;

/// The cluster, with no other test beside.
pub async fn alone() -> RwLockWriteGuard<'static, Cluster> {
    CLUSTER.alone().await
}

/// Installs floe with its configuration. Nobody holds an address then.
pub async fn prepare(cluster: &Cluster) -> Result<()> {
    install(cluster).await?;
    let pods: Api<Pod> = Api::all(cluster.client().await?);
    wait::until("the pods of other tests are gone", LIMIT, async || {
        let listed = pods.list(&ListParams::default()).await?.items;
        let left: Vec<_> = listed.iter().filter(|pod| ips(pod).is_ok()).collect();
        let names: Vec<_> = left.iter().map(|pod| pod.name_any()).collect();
        ensure!(names.is_empty(), "left: {names:?}");
        Ok(Some(()))
    })
    .await?;
    // Also those that nobody can read.
    terminal(cluster)?.run("kubectl delete floatingips --all")?;
    Ok(())
}

/// Installs floe with its configuration.
pub async fn install(cluster: &Cluster) -> Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    for number in 1..=2 {
        let name = fake_nodes::name(number);
        let status = json!({ "status": { "addresses": [
            { "type": "InternalIP", "address": format!("10.0.1.{}", 10 + number) },
            { "type": "Hostname", "address": name },
        ] } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(status));
        nodes.patch_status(&name, &params, &patch).await?;
    }
    let configuration = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "floatingip-config", "namespace": floe::NAMESPACE },
        "data": { "floatingips": ENTRIES },
    });
    cluster.apply(&configuration.to_string(), floe::NAMESPACE)?;
    floe::install(cluster)
}

/// A terminal of an administrator.
pub fn terminal(cluster: &Cluster) -> Result<Terminal> {
    let terminal = Terminal::open(cluster)?;
    fs::copy(cluster.paths().kubeconfig(), terminal.kubeconfig())?;
    Ok(terminal)
}

/// A pod that runs with an address, whatever floe says.
pub async fn runs(namespace: &TestNamespace<'_>, name: &str, ip: &str) -> Result<()> {
    let result = json!({ "common": { "ipinfos": [
        { "ip": format!("{ip}/24"), "vlan": 0, "gateway": "10.0.70.1" },
    ] } });
    let mut pod = racks::pod(name, &json!({ ARGS: result.to_string() }));
    pod["spec"]["nodeName"] = json!(fake_nodes::name(1));
    namespace.apply(&pod.to_string())?;
    let selector = format!("app={name}");
    namespace.ready_pods(&selector, 1, LIMIT).await?;
    let status = json!({ "status": { "podIP": ip, "podIPs": [{ "ip": ip }] } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(status));
    let pods: Api<Pod> = namespace.api();
    pods.patch_status(name, &params, &patch).await?;
    Ok(())
}

/// Waits until a running pod has a record of its address.
pub async fn is_recorded(namespace: &TestNamespace<'_>, name: &str, ip: &str) -> Result<()> {
    let selector = format!("app={name}");
    wait::until(&format!("{ip} is recorded for {name}"), LIMIT, async || {
        let had = addresses(namespace, &selector, 1).await?;
        let had = had.get(name).context("it is another pod")?;
        ensure!(had == ip, "it has {had}");
        Ok(Some(()))
    })
    .await
}
