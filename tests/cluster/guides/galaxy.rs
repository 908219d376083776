//! From galaxy to floe and back, by `docs/compat.md`.
//!
//! galaxy itself cannot be had here. In its place there is a controller of floe under galaxy's
//! name, account and label, on galaxy's own definitions: it holds the same lease, answers the
//! scheduler at the same Service, and reads and writes the same records. How floe takes
//! what galaxy has written is shown in `adoption.rs`, and how it waits for a lease that nobody gives
//! back in `leader_killed.rs`: galaxy gives none back, and this stand-in does.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::{self, Home};
use floe_testbed::supervisor::addresses::EXTENDER_SERVICE;

use super::Walk;
use super::bare::Bare;
use crate::LIMIT;
use crate::chart::lives;
use crate::cli::terminal::Terminal;
use crate::float_ips::NGINX;
use crate::holdings::{Record, addresses, records};

const PAGE: &str = "compat.md";

const GALAXY: Home = Home {
    pods: "app=galaxy-ipam",
    ..floe::HOME
};

/// As galaxy makes them by itself.
const DEFINITIONS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: floatingips.galaxy.k8s.io
  annotations: { api-approved.kubernetes.io: "https://github.com/kubernetes/kubernetes/pull/78458" }
spec:
  group: galaxy.k8s.io
  scope: Cluster
  names: { kind: FloatingIP, listKind: FloatingIPList, plural: floatingips, singular: floatingip, shortNames: [fip] }
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [key, attribute, policy, updateTime]
            properties:
              key: { type: string }
              attribute: { type: string }
              policy: { type: integer }
              updateTime: { type: string, format: date-time }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: pools.galaxy.k8s.io
  annotations: { api-approved.kubernetes.io: "https://github.com/kubernetes/kubernetes/pull/78458" }
spec:
  group: galaxy.k8s.io
  scope: Namespaced
  names: { kind: Pool, listKind: PoolList, plural: pools, singular: pool }
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [size, preAllocateIP]
        properties:
          size: { type: integer }
          preAllocateIP: { type: boolean }
"#;

/// Made by `kubectl create`, as some administrators do: then `kubectl apply` does not know what
/// of it is old.
const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: { name: galaxy-ipam, namespace: kube-system }
spec:
  clusterIP: CLUSTER_IP
  selector: { app: galaxy-ipam }
  ports:
  - { name: scheduler, port: 9040, targetPort: 9040 }
  - { name: api, port: 9041, targetPort: 9041 }
";

const DEPLOYMENT: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: { name: galaxy-ipam, namespace: kube-system }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: galaxy-ipam }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin }
subjects: [{ kind: ServiceAccount, name: galaxy-ipam, namespace: kube-system }]
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: galaxy-ipam, namespace: kube-system }
spec:
  replicas: 1
  selector: { matchLabels: { app: galaxy-ipam } }
  template:
    metadata: { labels: { app: galaxy-ipam } }
    spec:
      serviceAccountName: galaxy-ipam
      containers:
      - name: galaxy-ipam
        image: floe/controller:galaxy
        args: [--api-auth=none, --webhook=false, --v=3, --leader-elect-resource-lock=endpointsleases]
";

/// Kept for a workload that does not run.
const KEPT: &str = r#"
apiVersion: galaxy.k8s.io/v1alpha1
kind: FloatingIP
metadata: { name: 10.200.0.170 }
spec:
  key: dp_default_retired_
  attribute: '{"NodeName":"","Uid":""}'
  policy: 2
  updateTime: "2020-05-29T11:11:44Z"
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_cluster_changes_from_galaxy_to_floe_and_back_and_no_pod_or_address_does() -> Result<()> {
    let cluster = Bare::begin().await?;
    let outcome = there_and_back(&cluster).await;
    cluster.end(outcome).await
}

async fn there_and_back(cluster: &Bare) -> Result<()> {
    let terminal = &cluster.terminal;
    galaxy_runs(cluster, terminal)?;
    let namespace = TestNamespace::create(cluster, "from-galaxy").await?;
    namespace.apply(NGINX)?;
    let workload = Workload {
        namespace: &namespace,
        first: addresses(&namespace, "app=nginx", 3).await?,
    };
    let lives_before = lives(&namespace).await?;
    let saved = records(cluster, "").await?;
    ensure!(saved.len() == 4, "{saved:?}");

    let mut guide = Walk::of(terminal, PAGE, "## From galaxy to floe")?;
    guide.run("kubectl get fip -o yaml")?;
    guide.run("kubectl apply --server-side --force-conflicts -f deploy/crds/galaxy.yaml")?;
    guide.run("kubectl apply -f deploy/controller.yaml -l")?;
    guide.run("kubectl -n kube-system rollout status deployment floe-controller")?;
    // galaxy leads, and answers the scheduler.
    answered_by(terminal, "galaxy-ipam-").await?;
    workload.grows_to(4).await?;
    floe::leader_after(cluster, GALAXY, None, LIMIT).await?;

    guide.run("kubectl -n kube-system scale deployment galaxy-ipam --replicas=0")?;
    floe::leader(cluster, LIMIT).await?;
    guide.run("kubectl -n kube-system patch service galaxy-ipam")?;
    guide.run("kubectl apply -f deploy/controller.yaml")?;
    answered_by(terminal, "floe-controller-").await?;
    workload.grows_to(5).await?;
    let told = guide.run("kubectl floe check")?;
    // What is kept for nobody who runs is no fault.
    ensure!(!told.contains("10.200.0.170"), "{told}");
    let told = guide.run("kubectl get fip -o wide")?;
    ensure!(told.contains("10.200.0.170"), "{told}");
    guide.end()?;
    workload.is_as_it_was(&saved).await?;

    let mut back = Walk::of(terminal, PAGE, "## Back to galaxy")?;
    let outside = back.run("kubectl get fip -l floe.dev/outside-configuration")?;
    ensure!(outside.contains("No resources found"), "{outside}");
    back.run("kubectl delete -f deploy/webhook.yaml -f deploy/webhook-gates.yaml")?;
    back.run("kubectl -n kube-system scale deployment floe-controller --replicas=0")?;
    back.run("kubectl -n kube-system patch service galaxy-ipam")?;
    back.run("kubectl -n kube-system scale deployment galaxy-ipam --replicas=1")?;
    floe::leader_after(cluster, GALAXY, None, LIMIT).await?;
    answered_by(terminal, "galaxy-ipam-").await?;
    workload.grows_to(6).await?;
    back.run("kubectl get fip")?;
    back.end()?;
    workload.is_as_it_was(&saved).await?;
    let now = lives(&namespace).await?;
    let mut before = lives_before.iter();
    let stayed = before.all(|(pod, life)| now.get(pod) == Some(life));
    ensure!(stayed, "pods were {lives_before:?} and are {now:?}");
    Ok(())
}

/// What its users have.
struct Workload<'a> {
    namespace: &'a TestNamespace<'a>,
    /// The pods of the beginning, with their addresses.
    first: BTreeMap<String, String>,
}

impl Workload<'_> {
    /// One more pod is wanted, and has an address of its own.
    async fn grows_to(&self, replicas: usize) -> Result<()> {
        let wanted = format!("--replicas={replicas}");
        let scale = ["scale", "deployment/nginx-deployment", &wanted];
        self.namespace.kubectl(&scale)?;
        let now = addresses(self.namespace, "app=nginx", replicas).await?;
        for (pod, ip) in &self.first {
            ensure!(now.get(pod) == Some(ip), "{pod} had {ip}, now {now:?}");
        }
        Ok(())
    }

    /// Nobody has changed these records.
    async fn is_as_it_was(&self, saved: &BTreeMap<String, Record>) -> Result<()> {
        let now = records(self.namespace.cluster(), "").await?;
        for (ip, record) in saved {
            let found = now.get(ip).with_context(|| format!("{ip} is free"))?;
            let same = (&found.key, found.policy, &found.node, &found.uid)
                == (&record.key, record.policy, &record.node, &record.uid);
            ensure!(same, "{ip} was {record:?} and is {found:?}");
        }
        Ok(())
    }
}

/// Starts what stands for galaxy.
fn galaxy_runs(cluster: &Cluster, terminal: &Terminal) -> Result<()> {
    floe::publish_controller(cluster)?;
    cluster.apply_all(DEFINITIONS)?;
    terminal.run("kubectl wait --for=condition=Established crd/floatingips.galaxy.k8s.io")?;
    floe::configure_segment(cluster)?;
    cluster.apply_all(KEPT)?;
    cluster.apply_all(DEPLOYMENT)?;
    let service = SERVICE.replace("CLUSTER_IP", &EXTENDER_SERVICE.to_string());
    terminal.run(&format!("kubectl create -f - <<'EOF'\n{service}\nEOF"))?;
    terminal.run("kubectl -n kube-system rollout status deployment galaxy-ipam")?;
    Ok(())
}

/// Waits until the scheduler is answered by pods of this Deployment, and by no others.
async fn answered_by(terminal: &Terminal, deployment: &str) -> Result<()> {
    let line = "kubectl -n kube-system get endpointslices \
                -l kubernetes.io/service-name=galaxy-ipam \
                -o jsonpath='{.items[*].endpoints[*].targetRef.name}'";
    wait::until(&format!("{deployment} answers"), LIMIT, async || {
        let pods = terminal.run(line)?;
        let mut names = pods.split_whitespace().peekable();
        let is_so = names.peek().is_some() && names.all(|it| it.starts_with(deployment));
        ensure!(is_so, "the Service leads to {pods:?}");
        Ok(Some(()))
    })
    .await
}
