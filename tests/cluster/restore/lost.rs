//! etcd loses everything, and the backup of `kubectl floe export` is there.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::floe;
use serde_json::{Value, json};

use super::ground;
use crate::holdings::{POLICY, POOL, addresses, holds, records_of, set};
use crate::racks;

/// Workloads whose pods keep their addresses: kind, name, annotations.
fn workloads() -> [(&'static str, &'static str, Value); 5] {
    let policy = |policy: &str| json!({ POLICY: policy });
    [
        ("StatefulSet", "db", policy("never")),
        ("StatefulSet", "cache", policy("immutable")),
        ("Deployment", "shop", policy("never")),
        ("Deployment", "web", policy("immutable")),
        ("Deployment", "pooled", json!({ POOL: "blue" })),
    ]
}

fn apply_workloads(namespace: &TestNamespace<'_>) -> Result<()> {
    for (kind, name, annotations) in workloads() {
        namespace.apply(&racks::workload(kind, name, 2, &annotations).to_string())?;
    }
    Ok(())
}

/// Addresses by workload and pod.
type Held = BTreeMap<&'static str, BTreeMap<String, String>>;

/// The addresses of all pods.
async fn all(namespace: &TestNamespace<'_>) -> Result<Held> {
    let mut all = BTreeMap::new();
    for (_, name, _) in workloads() {
        let selector = format!("app={name}");
        all.insert(name, addresses(namespace, &selector, 2).await?);
    }
    Ok(all)
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn after_the_loss_of_etcd_every_pod_that_keeps_its_address_has_it_from_the_backup()
-> Result<()> {
    let cluster = ground::alone().await;
    ground::prepare(&cluster).await?;
    let namespace = TestNamespace::create(&cluster, "lost").await?;
    let terminal = ground::terminal(&cluster)?;
    terminal.run("kubectl floe pool set blue --size 3")?;
    // Pods that have the first addresses now and give them back: whoever comes without
    // a record afterwards does not get the right one by chance.
    namespace.apply(&racks::workload("Deployment", "first", 8, &json!({})).to_string())?;
    addresses(&namespace, "app=first", 8).await?;
    apply_workloads(&namespace)?;
    let before = all(&namespace).await?;
    namespace.kubectl(&["delete", "deployment/first"])?;
    holds(&namespace, 10).await?;
    terminal.run("kubectl floe export --file backup.yaml")?;

    cluster.lose_etcd().await?;
    cluster.wait_until_whole().await?;
    // In the order of the guide: floe comes last.
    floe::apply_definitions(&cluster)?;
    terminal.run(
        "kubectl wait --for=condition=Established crd/floatingips.galaxy.k8s.io \
         crd/pools.galaxy.k8s.io",
    )?;
    let printed = terminal.run("kubectl floe import --file backup.yaml")?;
    ensure!(
        printed.contains("11 created, 0 unchanged, 0 not imported"),
        "{printed}"
    );
    let name = namespace.name();
    cluster.apply(&namespace_manifest(name).to_string(), "default")?;
    apply_workloads(&namespace)?;
    ground::install(&cluster).await?;

    let after = all(&namespace).await?;
    for (kind, name, _) in workloads() {
        if kind == "StatefulSet" {
            assert_eq!(after[name], before[name], "{name}: pod by pod");
        }
        assert_eq!(set(&after[name]), set(&before[name]), "{name}");
    }
    assert_eq!(records_of(&namespace).await?.len(), 10, "and no other");
    let again = terminal.run("kubectl floe pool show blue")?;
    ensure!(again.contains("blue"), "{again}");
    Ok(())
}

fn namespace_manifest(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}
