//! From FLIPOP and back, by `docs/guide/migrate.md`. FLIPOP itself cannot be had here: of it
//! there is everything that stays when one of the two takes the place of the other: that
//! is its manifest, its definitions, its lease, its pool with a status, and what it has done at the
//! cloud. Its program is a loop that does nothing, and its lease that of one that was killed.

use std::fs;

use anyhow::{Context, Result, ensure};
use floe_api::flipop::pool::FloatingIPPool;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use floe_testbed::host::Inside;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::ground::{A, B, CLOUD, Ground, TOKEN, ZONE, droplet, ground, is_ready, status};
use crate::LIMIT;
use crate::guides::Walk;

const PAGE: &str = "guide/migrate.md";

/// What its program is here.
const PROGRAM: &str = "busybox";

pub(super) const MANIFEST: &str = r#"
apiVersion: v1
kind: Namespace
metadata: { name: flipop }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: floatingippools.flipop.digitalocean.com }
spec:
  group: flipop.digitalocean.com
  scope: Namespaced
  names: { kind: FloatingIPPool, listKind: FloatingIPPoolList, plural: floatingippools, singular: floatingippool }
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: { status: {} }
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [provider]
            properties:
              provider: { type: string }
              region: { type: string }
              ips: { type: array, items: { type: string } }
              desiredIPs: { type: integer, minimum: 0 }
              assignmentCoolOffSeconds: { type: number, minimum: 0 }
              match:
                type: object
                properties:
                  nodeLabel: { type: string }
                  podLabel: { type: string }
                  podNamespace: { type: string }
                  tolerations:
                    type: array
                    items:
                      type: object
                      properties: { key: { type: string }, operator: { type: string }, value: { type: string }, effect: { type: string } }
              dnsRecordSet:
                type: object
                properties: { provider: { type: string }, zone: { type: string }, recordName: { type: string }, ttl: { type: integer } }
          status:
            type: object
            properties:
              error: { type: string }
              ips:
                type: object
                additionalProperties:
                  type: object
                  properties: { state: { type: string }, providerID: { type: string }, nodeName: { type: string }, error: { type: string } }
              nodeErrors: { type: array, items: { type: string } }
              assignableNodes: { type: array, items: { type: string } }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: nodednsrecordsets.flipop.digitalocean.com }
spec:
  group: flipop.digitalocean.com
  scope: Namespaced
  names: { kind: NodeDNSRecordSet, listKind: NodeDNSRecordSetList, plural: nodednsrecordsets, singular: nodednsrecordset, shortNames: [nodedns] }
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: { status: {} }
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              addressType: { type: string }
              match: { type: object, x-kubernetes-preserve-unknown-fields: true }
              dnsRecordSet:
                type: object
                required: [provider]
                properties: { provider: { type: string }, zone: { type: string }, recordName: { type: string }, ttl: { type: integer } }
          status:
            type: object
            properties: { state: { type: string }, error: { type: string } }
---
apiVersion: v1
kind: ServiceAccount
metadata: { name: flipop, namespace: flipop }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: flipop }
rules:
- { apiGroups: [""], resources: [pods, nodes], verbs: [get, list, watch] }
- { apiGroups: [flipop.digitalocean.com], resources: [nodednsrecordsets], verbs: [get, list, watch] }
- { apiGroups: [flipop.digitalocean.com], resources: [floatingippools, floatingippools/status, nodednsrecordsets/status], verbs: [get, list, watch, update] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: flipop }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: flipop }
subjects: [{ kind: ServiceAccount, name: flipop, namespace: flipop }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: flipop, namespace: flipop }
rules:
- { apiGroups: [""], resources: [configmaps, configmaps/status], verbs: ["*"] }
- { apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, watch, create, update, patch, delete] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: flipop, namespace: flipop }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: flipop }
subjects: [{ kind: ServiceAccount, name: flipop, namespace: flipop }]
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: flipop, namespace: flipop, labels: { app: flipop } }
spec:
  replicas: 1
  selector: { matchLabels: { app: flipop } }
  strategy: { type: RollingUpdate, rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } }
  template:
    metadata: { labels: { app: flipop } }
    spec:
      serviceAccountName: flipop
      terminationGracePeriodSeconds: 30
      containers:
      - name: flipop
        image: busybox
        imagePullPolicy: Always
        command: [sh, -c, "trap 'exit 0' TERM; while true; do sleep 1; done"]
        env: [{ name: DIGITALOCEAN_ACCESS_TOKEN, valueFrom: { secretKeyRef: { name: flipop, key: DIGITALOCEAN_ACCESS_TOKEN } } }]
        ports: [{ name: prometheus, containerPort: 8080 }]
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_cluster_changes_from_flipop_to_floe_and_back_and_no_address_moves() -> Result<()> {
    let ground = ground().await?;
    let outcome = there_and_back(&ground).await;
    // However that ended, the next test has to find floe.
    let restored = ground.reinstall();
    outcome.and(restored)
}

async fn there_and_back(ground: &Ground) -> Result<()> {
    let run = |line: &str| ground.terminal.run(line);
    let namespace = TestNamespace::create(&ground.cluster, "from-flipop").await?;
    flipop_runs(ground, &namespace).await?;
    // Not what floe would have chosen, had it come first.
    let places = [(A, "node-2"), (B, "node-1")];
    ground.placed(&places).await?;
    let orders = ground.orders();

    let mut guide = Walk::of(&ground.terminal, PAGE, "## From FLIPOP")?;
    guide.run("kubectl get floatingippools,nodednsrecordsets -A -o yaml > flipop.yaml")?;
    guide.run("kubectl apply -f k8s/floe.yaml")?;
    guide.run("kubectl -n flipop rollout status deployment flipop")?;
    ground.leader().await?;
    is_ready(&namespace, "True", "Served").await?;
    let listed = guide.run("kubectl floe nodepool list -A")?;
    let row = listed.lines().find(|it| it.contains(namespace.name()));
    ensure!(row.is_some_and(|it| it.contains("True")), "{listed}");
    ground.annotated(&places).await?;
    ground.says("www", &[A, B]).await?;
    ground.placed(&places).await?;
    ensure!(ground.orders() == orders, "the cloud has had orders");

    // It follows nodes from now on, as its users ask for.
    let more = json!({ "spec": { "reclaimPolicy": "Delete", "gracePeriodSeconds": 5 } });
    run(&format!(
        "kubectl -n {} patch floatingippool ingress --type=merge -p '{more}'",
        namespace.name()
    ))?;
    status(&namespace, "it has seen that", |status| {
        status.observed_generation == Some(2)
    })
    .await?;
    let pools = namespace.api::<FloatingIPPool>();
    let held = pools.get("ingress").await?;
    ensure!(!held.finalizers().is_empty(), "nothing holds the pool");

    fs::write(
        ground.terminal.folder().join("flipop-manifest.yaml"),
        MANIFEST,
    )?;
    guide.run_with("kubectl -n ingress patch floatingippool ingress", |line| {
        line.replace("-n ingress", &format!("-n {}", namespace.name()))
    })?;
    let look = guide.next("kubectl -n ingress get floatingippool ingress")?;
    let look = look.replace("-n ingress", &format!("-n {}", namespace.name()));
    wait::until("nothing holds the pool", LIMIT, async || {
        let told = run(&look)?;
        ensure!(told.is_empty(), "there is {told}");
        Ok(Some(()))
    })
    .await?;
    guide.run("kubectl -n flipop scale deployment flipop --replicas=0")?;
    guide.run("kubectl apply -f flipop-manifest.yaml")?;
    guide.run("kubectl -n flipop rollout status deployment flipop")?;
    guide.run("kubectl -n kube-system delete role,rolebinding flipop")?;
    guide.run("kubectl -n kube-node-lease delete role,rolebinding flipop")?;
    guide.run("kubectl annotate nodes --all")?;
    guide.end()?;
    ground.annotated(&[]).await?;
    is_flipops(ground, &namespace).await?;
    ground.placed(&places).await?;
    ensure!(ground.orders() == orders, "the cloud has had orders");
    run(&format!(
        "kubectl -n {} delete floatingippool ingress --timeout=20s",
        namespace.name()
    ))?;
    Ok(())
}

/// floe is gone, and everything is as FLIPOP leaves it.
async fn flipop_runs(ground: &Ground, namespace: &TestNamespace<'_>) -> Result<()> {
    let run = |line: &str| ground.terminal.run(line);
    run("kubectl delete -f k8s/floe.yaml --timeout=90s")?;
    run("kubectl create namespace flipop")?;
    ground.let_in()?;
    ground.cluster.apply_all(MANIFEST)?;
    run("kubectl -n flipop rollout status deployment flipop --timeout=90s")?;
    for node in ["node-1", "node-2"] {
        ground.label(node, Some(namespace.name()))?;
    }
    for (ip, node) in [(A, "node-2"), (B, "node-1")] {
        let order = json!({ "type": "assign", "droplet_id": droplet(node)? });
        ask(ground, &format!("reserved_ips/{ip}/actions"), &order).await?;
        let name = json!({ "type": "A", "name": "www", "data": ip, "ttl": 60 });
        ask(ground, &format!("domains/{ZONE}/records"), &name).await?;
    }
    namespace.apply(&super::ground::pool(namespace).to_string())?;
    let state = |node: &str| -> Result<Value> {
        let id = format!("digitalocean://{}", droplet(node)?);
        Ok(json!({ "state": "active", "providerID": id, "nodeName": node }))
    };
    let status = json!({ "status": { "ips": { A: state("node-2")?, B: state("node-1")? } } });
    run(&format!(
        "kubectl -n {} patch floatingippool ingress --subresource=status --type=merge -p '{status}'",
        namespace.name()
    ))?;
    // It was killed, and could not give it back.
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "floating-ip-pool-controller-leader-election", "namespace": "flipop" },
        "spec": {
            "holderIdentity": "flipop-6d5f_0e7c1c52", "leaseDurationSeconds": 15, "leaseTransitions": 1,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    });
    ground.cluster.apply_all(&lease.to_string())
}

/// Asks the cloud for something, as FLIPOP did.
async fn ask(ground: &Ground, path: &str, body: &Value) -> Result<()> {
    let outside = ground.cluster.outside().await?;
    let mut curl = outside.command(Inside::Network, "curl");
    curl.args(["--silent", "--show-error", "--fail", "--noproxy", "*"])
        .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
        .args(["--header", "Content-Type: application/json"])
        .args(["--data", &body.to_string()])
        .arg(format!("http://{CLOUD}/v2/{path}"));
    let output = curl.output().context("cannot start curl")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{path} is refused: {told}");
    Ok(())
}

/// FLIPOP's program runs, and the pool has nothing that FLIPOP does not know.
async fn is_flipops(ground: &Ground, namespace: &TestNamespace<'_>) -> Result<()> {
    let images = "kubectl -n flipop get deployment flipop \
                  -o jsonpath='{.spec.replicas} {.spec.template.spec.containers[*].image}'";
    let found = ground.terminal.run(images)?;
    ensure!(found == format!("1 {PROGRAM}"), "{found}");
    let kind = GroupVersionKind::gvk("flipop.digitalocean.com", "v1alpha1", "FloatingIPPool");
    let kind = ApiResource::from_gvk_with_plural(&kind, "floatingippools");
    let client = ground.cluster.client().await?;
    let pools: Api<DynamicObject> = Api::namespaced_with(client, namespace.name(), &kind);
    let pool = pools.get("ingress").await?;
    let wanted = super::ground::pool(namespace);
    ensure!(pool.data["spec"] == wanted["spec"], "{}", pool.data["spec"]);
    ensure!(pool.finalizers().is_empty(), "{:?}", pool.finalizers());
    Ok(())
}
