//! All parts together, on a node that starts containers: the webhook brings a pod to its
//! gate, floe gives it an address, a plain scheduler binds it, galaxy's cloud provider is told
//! where it runs, and its agent refuses its network until that is done.

use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use floe_providers::Func;
use floe_providers::fake::{Arrived, Behaviour, FakeCloud};
use floe_testbed::cluster::namespace::{TestNamespace, is_ready};
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::{self, agent};
use floe_testbed::supervisor::addresses::NODES;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{cluster, configuration, is_gated};
use crate::LIMIT;
use crate::admission::Webhook;
use crate::holdings::{addresses, holds, ip, records_of, told};
use crate::segment::NETWORKS;
use crate::underlay::{answers, pod_on};

/// Where the provider is: on the host outside.
const CLOUD: &str = "10.200.0.200:8200";
const NODE: &str = "node-1";
/// The `ConfigMap` with galaxy's file.
const FILE: &str = "galaxy-ipam-etc";

/// Controllers that know the provider, and addresses of the real node, until this is dropped.
struct Told<'a>(&'a Cluster);

impl<'a> Told<'a> {
    async fn start(cluster: &'a Cluster) -> Result<Self> {
        // Made first, so that a half-done start is undone, too.
        let told = Self(cluster);
        let entry = json!({
            "nodeSubnets": [NODES], "ips": ["10.200.0.100~10.200.0.110"],
            "subnet": "10.200.0.0/24", "gateway": "10.200.0.1",
        });
        let file = json!({ "schedule_plugin": { "cloudProviderGrpcAddr": CLOUD } });
        let file = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": FILE, "namespace": floe::NAMESPACE },
            "data": { "galaxy-ipam.json": file.to_string() },
        });
        cluster.apply(&configuration(&[entry]).to_string(), floe::NAMESPACE)?;
        cluster.apply(&file.to_string(), floe::NAMESPACE)?;
        let before = floe::leader_after(cluster, floe::HOME, None, LIMIT).await?;
        told.mount(
            &json!({ "name": "galaxy", "configMap": { "name": FILE } }),
            &json!({ "name": "galaxy", "mountPath": "/etc/galaxy" }),
        )?;
        floe::wait_until_ready(cluster)?;
        floe::leader_after(cluster, floe::HOME, Some(&before), LIMIT).await?;
        Ok(told)
    }

    /// Changes volumes of the controllers.
    fn mount(&self, volume: &Value, mount: &Value) -> Result<()> {
        let container = json!({ "name": "controller", "volumeMounts": [mount] });
        let spec = json!({ "volumes": [volume], "containers": [container] });
        let patch = json!({ "spec": { "template": { "spec": spec } } }).to_string();
        let done = self
            .0
            .kubectl()
            .args(["--namespace", floe::NAMESPACE, "patch", "deployment"])
            .args(["floe-controller", "--patch", &patch])
            .stdout(Stdio::null())
            .status()?;
        ensure!(done.success(), "the controllers were not changed");
        Ok(())
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        // Whoever finds the provider away next, or the node without a subnet, tells.
        let _ = self.mount(
            &json!({ "name": "galaxy", "$patch": "delete" }),
            &json!({ "mountPath": "/etc/galaxy", "$patch": "delete" }),
        );
        let _ = floe::wait_until_ready(self.0);
        let _ = self
            .0
            .apply(&configuration(&[]).to_string(), floe::NAMESPACE);
    }
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_bound_pod_starts_when_the_cloud_has_brought_its_address() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = TestNamespace::create(&cluster, "gates-cloud").await?;
    let address: SocketAddr = CLOUD.parse()?;
    let outside = cluster.outside().await?;
    let listener = outside.network()?.run(|| TcpListener::bind(address))?;
    let cloud = FakeCloud::start_on(listener)?;
    cloud.behave(Behaviour::Hold);
    let _told = Told::start(&cluster).await?;
    agent::install(&cluster, NETWORKS)?;
    let _webhook = Webhook::install_with_gates(&namespace).await?;

    namespace.apply(&pod_on(NODE, "web", &json!({})).to_string())?;
    let asked = wait::until("the provider is asked", LIMIT, async || {
        Ok(cloud.calls().into_iter().next())
    })
    .await?;
    let pod = namespace.api::<Pod>().get("web").await?;
    let ip = ip(&pod)?;
    let assign = Arrived {
        func: Func::Assign,
        node: NODE.to_owned(),
        ip: ip.clone(),
    };
    assert_eq!(asked, assign);
    told(&namespace, "web", "AddressAllocated", "for nodes of").await?;
    let node = pod.spec.as_ref().and_then(|it| it.node_name.as_deref());
    ensure!(node == Some(NODE) && !is_gated(&pod), "it is on {node:?}");
    let records = records_of(&namespace).await?;
    let record = records.get(&ip).context("there is no record")?;
    ensure!(record.node == NODE, "it is {record:?}");

    // Nobody has brought the address, so the pod has no network, and says why.
    let text = "is not assigned to this node in the cloud yet";
    told(&namespace, "web", "FailedCreatePodSandBox", text).await?;
    cloud.behave(Behaviour::Refuse("quota is used up".to_owned()));
    told(&namespace, "web", "ProviderRefused", "quota is used up").await?;
    let pod = namespace.api::<Pod>().get("web").await?;
    ensure!(!is_ready(&pod), "{} runs", pod.name_any());
    ensure!(cloud.assigned().is_empty(), "{:?}", cloud.assigned());

    cloud.behave(Behaviour::Obey);
    let held = addresses(&namespace, "app=web", 1).await?;
    assert_eq!(held["web"], ip);
    assert_eq!(
        cloud.assigned(),
        [(ip.clone(), NODE.to_owned())].into(),
        "and nothing else"
    );
    wait::until("it answers outside", LIMIT, async || {
        answers(&outside, "web", &ip).map(Some)
    })
    .await?;

    namespace.kubectl(&["delete", "pod", "web", "--timeout=60s"])?;
    holds(&namespace, 0).await?;
    ensure!(cloud.assigned().is_empty(), "{:?}", cloud.assigned());
    let last = cloud.calls().pop();
    let unassign = Arrived {
        func: Func::Unassign,
        ..assign
    };
    assert_eq!(last, Some(unassign));
    Ok(())
}
