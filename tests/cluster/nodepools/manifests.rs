//! What FLIPOP's documents print works as it is printed: the command that installs it, and
//! the samples.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use floe_api::flipop::records::NodeDNSRecordSet;
use floe_providers::fake::digitalocean::Script;
use floe_testbed::cluster::namespace::is_ready;
use floe_testbed::cluster::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::json;

use super::ground::{FLIPOP, Ground, ground, tell};
use crate::LIMIT;
use crate::vips::ground::web;

/// The sample of its README, which has addresses of its own and names no namespace.
const POOL: &str = "
apiVersion: flipop.digitalocean.com/v1alpha1
kind: FloatingIPPool
metadata:
  name: ingress-pool
spec: 
  provider: digitalocean
  region: nyc3
  desiredIPs: 2
  ips:
  - 1.2.3.4
  - 5.6.7.8
  match:
    podNamespace: ingress
    podLabel: app=nginx-ingress,component=controller
    nodeLabel: doks.digitalocean.com/node-pool=ingress
";

/// The other kind, with the provider where its documents have it and its own definition
/// refuses it.
const NAMES: &str = "
apiVersion: flipop.digitalocean.com/v1alpha1
kind: NodeDNSRecordSet
metadata:
  name: ingress-nodes
spec:
  provider: digitalocean
  dnsRecordSet:
    recordName: hello-world
    zone: example.com
    ttl: 30
  addressType: flipop.digitalocean.com/ipv4-reserved-ip
  match:
    podNamespace: ingress
    podLabel: app=nginx-ingress,component=controller
    nodeLabel: doks.digitalocean.com/node-pool=ingress
    tolerations:
      - key: node.kubernetes.io/unschedulable
        effect: NoSchedule
";

const LABEL: &str = "doks.digitalocean.com/node-pool";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn what_flipops_documents_print_works_as_it_is() -> Result<()> {
    // `kubectl apply -f k8s/*` means the first file only, and takes others for mistakes.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../k8s");
    ensure!(
        fs::read_dir(folder)?.count() == 1,
        "k8s has to have one file"
    );
    let ground = ground().await?;
    // Again: an upgrade is the same command.
    ground.terminal.run("kubectl apply -f k8s/*")?;
    ground.scale(2)?;
    for ip in ["1.2.3.4", "5.6.7.8"] {
        let (ip, region) = (ip.parse()?, "nyc3".to_owned());
        tell(&ground.cloud, Script::Address { ip, region })?;
    }
    let outcome = follow(&ground).await;
    // These are not in a namespace that goes with the test.
    let run = |line: &str| ground.terminal.run(line);
    run("kubectl delete floatingippool ingress-pool --ignore-not-found")?;
    run("kubectl delete nodedns ingress-nodes --ignore-not-found")?;
    run(&format!("kubectl label nodes --all {LABEL}-"))?;
    run("kubectl delete namespace ingress --ignore-not-found --wait=false")?;
    outcome?;
    nothing_was_refused(&ground).await
}

async fn follow(ground: &Ground) -> Result<()> {
    let run = |line: &str| ground.terminal.run(line);
    run("kubectl create namespace ingress")?;
    let pods: Api<Pod> = Api::namespaced(ground.cluster.client().await?, "ingress");
    wait::until("a pod can be made", LIMIT, async || {
        for node in ["node-1", "node-2"] {
            let mut pod = web(&format!("web-on-{node}"), node, &json!({}));
            let labels = json!({ "app": "nginx-ingress", "component": "controller" });
            pod["metadata"]["labels"] = labels;
            ground.cluster.apply(&pod.to_string(), "ingress")?;
            run(&format!(
                "kubectl label --overwrite node {node} {LABEL}=ingress"
            ))?;
        }
        Ok(Some(()))
    })
    .await?;
    wait::until("both pods are ready", LIMIT, async || {
        let found = pods.list(&ListParams::default()).await?;
        Ok((found.items.iter().filter(|pod| is_ready(pod)).count() == 2).then_some(()))
    })
    .await?;

    ground.cluster.apply(POOL, "default")?;
    ground.cluster.apply(NAMES, "default")?;
    // Both nodes fit when the pool comes: the last address is for the first one.
    ground
        .placed(&[("5.6.7.8", "node-1"), ("1.2.3.4", "node-2")])
        .await?;
    ground
        .annotated(&[("5.6.7.8", "node-1"), ("1.2.3.4", "node-2")])
        .await?;
    ground.says("hello-world", &["1.2.3.4", "5.6.7.8"]).await?;
    let sets: Api<NodeDNSRecordSet> = Api::namespaced(ground.cluster.client().await?, "default");
    wait::until("the record set is active", LIMIT, async || {
        let set = sets.get("ingress-nodes").await?;
        let status = set.status.context("it says nothing")?;
        ensure!(
            status.state == "active" && status.records == 2,
            "{status:?}"
        );
        Ok(Some(()))
    })
    .await?;
    // FLIPOP does not buy what it has already, and neither does floe.
    ensure!(ground.places().len() == 4, "something was bought");
    Ok(())
}

/// The rights of the manifest are enough: for what floe complains of when it may not, and
/// for what it does without.
pub async fn nothing_was_refused(ground: &Ground) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(ground.cluster.client().await?, FLIPOP);
    for pod in pods.list(&ListParams::default()).await?.items {
        let name = pod.metadata.name.context("a pod has a name")?;
        let log = ground
            .terminal
            .run(&format!("kubectl -n {FLIPOP} logs {name}"))?;
        ensure!(
            log.contains("floe-controller started"),
            "no log of {name}: {log}"
        );
        let refused = log
            .lines()
            .find(|it| it.to_lowercase().contains("forbidden"));
        ensure!(refused.is_none(), "{refused:?}");
    }
    let may = |what: &str| {
        let who = format!("--as=system:serviceaccount:{FLIPOP}:{FLIPOP}");
        ground
            .terminal
            .command(&format!("kubectl auth can-i {who} {what}"))
            .output()
    };
    for what in [
        "create events.events.k8s.io --all-namespaces",
        "list leases.coordination.k8s.io -n kube-system",
        "watch leases.coordination.k8s.io -n kube-system",
        "get leases.coordination.k8s.io -n kube-node-lease",
        "list leases.coordination.k8s.io -n kube-node-lease",
        "patch nodes",
    ] {
        ensure!(may(what)?.status.success(), "floe may not {what}");
    }
    // Nothing more than that: Secrets are for the kubelet to hand over.
    for what in [
        "get secrets --all-namespaces",
        "update nodes",
        "delete pods -A",
    ] {
        ensure!(!may(what)?.status.success(), "floe may {what}");
    }
    Ok(())
}
