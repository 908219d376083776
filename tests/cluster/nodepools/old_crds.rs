//! floe on FLIPOP's own CRDs: the API server drops what only floe's have. Nothing is written
//! for ever, nothing is bought, and the pool reports why.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::paths::Paths;
use floe_testbed::cluster::wait;
use serde_json::{Value, json};

use super::ground::{A, B, FLIPOP, Ground, ground, pool, status};
use super::migration::MANIFEST;
use crate::LIMIT;

/// The renewals of the leader's lease that pass while nothing else may be written. One comes
/// every 2 s, so this is longer than floe takes to look at CRDs again, which it does every 30 s.
const RENEWALS: usize = 18;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn on_flipops_crds_an_idle_cluster_is_not_written_to_and_nothing_is_bought() -> Result<()> {
    let ground = ground().await?;
    let outcome = with_old_crds(&ground).await;
    // However that ended, the next test has to find floe's CRDs.
    let restored = ground.reinstall();
    outcome.and(restored)
}

async fn with_old_crds(ground: &Ground) -> Result<()> {
    let namespace = TestNamespace::create(&ground.cluster, "old-crds").await?;
    let documents = MANIFEST.split("\n---\n");
    let crds: Vec<&str> = documents
        .filter(|it| it.contains("kind: CustomResourceDefinition"))
        .collect();
    ensure!(crds.len() == 2, "FLIPOP has two CRDs");
    let file = ground.terminal.folder().join("flipop-crds.yaml");
    fs::write(file, crds.join("\n---\n"))?;
    ground.terminal.run("kubectl apply -f flipop-crds.yaml")?;
    for node in ["node-1", "node-2"] {
        ground.label(node, Some(namespace.name()))?;
    }
    namespace.apply(&pool(&namespace).to_string())?;
    ground.placed(&[(B, "node-1"), (A, "node-2")]).await?;
    status(&namespace, "its CRD is old", |status| {
        status.error.contains("deploy/crds/flipop.yaml")
    })
    .await?;
    ground.annotated(&[(B, "node-1"), (A, "node-2")]).await?;
    ground.says("www", &[A, B]).await?;

    // Once floe has seen that the CRDs have changed, it writes once more.
    let mut quiet = writes(ground)?;
    wait::until("nothing but the lease is written", LIMIT, async || {
        let now = writes(ground)?;
        let more = now.others.get(quiet.others.len()..).unwrap_or_default();
        if !more.is_empty() {
            let told = format!("an idle cluster is written to: {more:?}");
            quiet = now;
            bail!(told);
        }
        Ok((now.leases >= quiet.leases + RENEWALS).then_some(()))
    })
    .await?;

    let wish = json!({ "spec": { "desiredIPs": 3 } });
    ground.terminal.run(&format!(
        "kubectl -n {} patch floatingippool ingress --type=merge -p '{wish}'",
        namespace.name()
    ))?;
    status(&namespace, "it buys nothing", |status| {
        status.error.contains("status.purchase")
    })
    .await?;
    ensure!(ground.places().len() == 2, "something was bought");
    Ok(())
}

/// What FLIPOP's account has written, as the audit log says.
struct Writes {
    /// How often leases.
    leases: usize,
    /// Everything else, as verb and resource; reviews and Events are not kept.
    others: Vec<String>,
}

fn writes(ground: &Ground) -> Result<Writes> {
    let path = Paths::of(ground.cluster.name())?.audit();
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let account = format!("system:serviceaccount:{FLIPOP}:{FLIPOP}");
    // The last line may be cut off.
    let events = text
        .lines()
        .filter_map(|it| serde_json::from_str::<Value>(it).ok());
    let own = events.filter(|it| {
        let verb = it["verb"].as_str().unwrap_or_default();
        it["user"]["username"] == account.as_str()
            && it["stage"] == "ResponseComplete"
            && ["create", "update", "patch", "delete"].contains(&verb)
    });
    let mut writes = Writes {
        leases: 0,
        others: Vec::new(),
    };
    for it in own {
        match it["objectRef"]["resource"].as_str().unwrap_or_default() {
            "leases" => writes.leases += 1,
            "events" | "selfsubjectaccessreviews" => {}
            other => writes.others.push(format!("{} {other}", it["verb"])),
        }
    }
    Ok(writes)
}
