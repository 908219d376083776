//! From galaxy to floe and back, by `docs/compat.md`.
//!
//! galaxy itself cannot be had here. In its place there is a controller of floe under galaxy's
//! name, account and label, on galaxy's own definitions: it holds the same lease, answers the
//! scheduler at the same Service, and reads and writes the same records. How floe takes
//! what galaxy has written is shown in `adoption.rs`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::Cluster;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::floe::{self, Home};
use floe_testbed::supervisor::addresses::EXTENDER_SERVICE;
use kube::ResourceExt;

use super::{Walk, administrator};
use crate::LIMIT;
use crate::chart::BARE;
use crate::cli::terminal::Terminal;
use crate::float_ips::NGINX;
use crate::holdings::{addresses, records};

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
const SERVICE: &str = r#"
apiVersion: v1
kind: Service
metadata: { name: galaxy-ipam, namespace: kube-system }
spec:
  clusterIP: CLUSTER_IP
  selector: { app: galaxy-ipam }
  ports:
  - { name: scheduler, port: 9040, targetPort: 9040 }
  - { name: api, port: 9041, targetPort: 9041 }
"#;

const DEPLOYMENT: &str = r#"
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
"#;

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
    let cluster = BARE.alone().await;
    cluster.schedule_with_extender(true).await?;
    let terminal = administrator(&cluster)?;
    let galaxy = Galaxy::install(&cluster, &terminal)?;
    let namespace = TestNamespace::create(&cluster, "from-galaxy").await?;
    namespace.apply(NGINX)?;
    let workload = Workload {
        namespace: &namespace,
        first: addresses(&namespace, "app=nginx", 3).await?,
    };
    let lives = workload.lives().await?;
    let saved = records(&cluster, "").await?;
    ensure!(saved.len() == 4, "{saved:?}");

    let mut guide = Walk::of(&terminal, PAGE, "## From galaxy to floe")?;
    guide.run("kubectl get fip -o yaml")?;
    guide.run("kubectl apply --server-side --force-conflicts -f deploy/crds/galaxy.yaml")?;
    guide.run("kubectl apply -f deploy/controller.yaml -l")?;
    guide.run("kubectl -n kube-system rollout status deployment floe-controller")?;
    // galaxy leads, and answers the scheduler.
    floe::leader_after(&cluster, GALAXY, None, LIMIT).await?;
    workload.grows_to(4).await?;
    ensure!(records(&cluster, "").await?.len() == 5, "floe has acted");
    floe::leader_after(&cluster, GALAXY, None, LIMIT).await?;

    guide.run("kubectl -n kube-system scale deployment galaxy-ipam --replicas=0")?;
    floe::leader(&cluster, LIMIT).await?;
    guide.run("kubectl -n kube-system patch service galaxy-ipam")?;
    guide.run("kubectl apply -f deploy/controller.yaml")?;
    workload.grows_to(5).await?;
    let told = guide.run("kubectl floe check")?;
    // All pods are on the network that they had: no agent gives them another one here.
    ensure!(!told.contains("10.200.0.170"), "{told}");
    let told = guide.run("kubectl get fip -o wide")?;
    ensure!(told.contains("10.200.0.170"), "{told}");
    guide.end()?;
    workload.is_as_it_was(&saved).await?;

    let mut back = Walk::of(&terminal, PAGE, "## Back to galaxy")?;
    let outside = back.run("kubectl get fip -l floe.dev/outside-configuration")?;
    ensure!(outside.contains("No resources found"), "{outside}");
    back.run("kubectl -n kube-system scale deployment floe-controller --replicas=0")?;
    back.run("kubectl -n kube-system patch service galaxy-ipam")?;
    back.run("kubectl -n kube-system scale deployment galaxy-ipam --replicas=1")?;
    floe::leader_after(&cluster, GALAXY, None, LIMIT).await?;
    workload.grows_to(6).await?;
    back.run("kubectl get fip")?;
    back.end()?;
    workload.is_as_it_was(&saved).await?;
    let now = workload.lives().await?;
    let stayed = lives.iter().all(|(pod, life)| now.get(pod) == Some(life));
    ensure!(stayed, "pods were {lives:?} and are {now:?}");
    namespace.kubectl(&["delete", "deployment", "--all", "--wait"])?;
    galaxy.remove()
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
    async fn is_as_it_was(&self, saved: &BTreeMap<String, crate::holdings::Record>) -> Result<()> {
        let now = records(self.namespace.cluster(), "").await?;
        for (ip, record) in saved {
            let found = now.get(ip).with_context(|| format!("{ip} is free"))?;
            let same = (&found.key, found.policy, &found.node, &found.uid)
                == (&record.key, record.policy, &record.node, &record.uid);
            ensure!(same, "{ip} was {record:?} and is {found:?}");
        }
        Ok(())
    }

    /// The pods, and how often each was started.
    async fn lives(&self) -> Result<BTreeMap<String, i32>> {
        let pods = self.namespace.pods("app=nginx").await?;
        let started = |pod: &k8s_openapi::api::core::v1::Pod| {
            let status = pod.status.clone().unwrap_or_default();
            let containers = status.container_statuses.unwrap_or_default();
            containers.iter().map(|it| it.restart_count).sum()
        };
        Ok(pods
            .iter()
            .map(|pod| (pod.name_any(), started(pod)))
            .collect())
    }
}

/// What stands for galaxy, until [`Galaxy::remove`] or the end of a test that failed.
struct Galaxy<'a> {
    terminal: &'a Terminal,
    is_there: bool,
}

impl<'a> Galaxy<'a> {
    fn install(cluster: &Cluster, terminal: &'a Terminal) -> Result<Self> {
        // Made first, so that a half-done installation is undone, too.
        let galaxy = Self {
            terminal,
            is_there: true,
        };
        galaxy.take_away()?;
        floe::publish_controller(cluster)?;
        cluster.apply_all(DEFINITIONS)?;
        terminal.run("kubectl wait --for=condition=Established crd/floatingips.galaxy.k8s.io")?;
        floe::configure_segment(cluster)?;
        cluster.apply_all(KEPT)?;
        cluster.apply_all(DEPLOYMENT)?;
        let service = SERVICE.replace("CLUSTER_IP", &EXTENDER_SERVICE.to_string());
        terminal.run(&format!("kubectl create -f - <<'EOF'\n{service}\nEOF"))?;
        terminal.run("kubectl -n kube-system rollout status deployment galaxy-ipam")?;
        Ok(galaxy)
    }

    fn remove(mut self) -> Result<()> {
        self.is_there = false;
        self.take_away()
    }

    /// What galaxy and floe have on the cluster, but for addresses on nodes, of which there are
    /// none.
    fn take_away(&self) -> Result<()> {
        for line in [
            "kubectl delete -f deploy/controller.yaml --ignore-not-found",
            "kubectl -n kube-system delete deployment,service,serviceaccount galaxy-ipam --ignore-not-found",
            "kubectl delete clusterrolebinding galaxy-ipam --ignore-not-found",
            "kubectl -n kube-system delete configmap floatingip-config --ignore-not-found",
            "kubectl -n kube-system delete lease galaxy-ipam --ignore-not-found",
            "kubectl -n kube-system wait pod --for=delete --timeout=60s -l 'app in (galaxy-ipam)'",
            "kubectl delete -f deploy/crds --ignore-not-found --timeout=60s",
        ] {
            self.terminal.run(line)?;
        }
        Ok(())
    }
}

impl Drop for Galaxy<'_> {
    fn drop(&mut self) {
        if self.is_there {
            // The test has its own story; who comes next finds out.
            let _ = self.take_away();
        }
    }
}
