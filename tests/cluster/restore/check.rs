//! `kubectl floe check` finds what somebody has broken while floe was away.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use floe_testbed::floe;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::ground;
use crate::LIMIT;
use crate::cli::terminal::Terminal;
use crate::holdings::{POLICY, addresses, api};
use crate::racks;

const WHOLE: &str = "Everything fits together";

/// What is found, as object and reason.
fn findings(terminal: &Terminal) -> Result<BTreeSet<(String, String)>> {
    // It ends with 1 when there is something to find.
    let printed = terminal.run("kubectl floe check -o json 2>/dev/null || true")?;
    let rows: Vec<Value> = serde_json::from_str(&printed).context(printed)?;
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let pairs = rows
        .iter()
        .map(|row| (text(row, "object"), text(row, "reason")));
    Ok(pairs.collect())
}

async fn all_is_well(terminal: &Terminal) -> Result<()> {
    wait::until("everything fits together", LIMIT, async || {
        let printed = terminal.run("kubectl floe check")?;
        ensure!(printed.contains(WHOLE), "{printed}");
        Ok(Some(()))
    })
    .await
}

fn bound_for(uid: &str) -> String {
    json!({ "NodeName": "", "Uid": uid }).to_string()
}

fn record(name: &str, key: &str, policy: u8, attribute: &str) -> String {
    json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "FloatingIP",
        "metadata": { "name": name, "labels": { "ipType": "internalIP" } },
        "spec": { "key": key, "policy": policy, "subnet": "10.0.0.0/16", "attribute": attribute },
    })
    .to_string()
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn check_names_every_inconsistency_and_fix_mends_those_that_harm_nobody() -> Result<()> {
    let cluster = ground::alone().await;
    ground::prepare(&cluster).await?;
    let namespace = TestNamespace::create(&cluster, "check").await?;
    let terminal = ground::terminal(&cluster)?;
    let never = json!({ POLICY: "never" });
    namespace.apply(&racks::workload("StatefulSet", "db", 1, &never).to_string())?;
    let kept = addresses(&namespace, "app=db", 1).await?["db-0"].clone();
    ground::runs(&namespace, "runner", "10.0.70.40").await?;
    ground::is_recorded(&namespace, "runner", "10.0.70.40").await?;
    all_is_well(&terminal).await?;

    floe::scale(&cluster, 0)?;
    let ns = namespace.name();
    let (gone, stale) = (
        format!("NULL_{ns}_NULL_gone"),
        format!("sts_{ns}_past_past-0"),
    );
    for (name, key, policy, attribute) in [
        ("10.0.70.50", gone.as_str(), 0, bound_for("")),
        ("10.0.70.51", &stale, 2, bound_for("1-2-3")),
        ("10.0.70.52", "whatever", 2, bound_for("")),
        ("10.0.70.53", &stale, 2, "nonsense".to_owned()),
        ("10.9.9.9", &format!("sts_{ns}_far_far-0"), 2, bound_for("")),
    ] {
        cluster.apply(&record(name, key, policy, &attribute), "default")?;
    }
    terminal.run("kubectl delete floatingip 10.0.70.40")?;
    ground::runs(&namespace, "second", &kept).await?;
    terminal.run(&format!(
        "kubectl annotate --overwrite floatingip {kept} floe.dev/state=Spare"
    ))?;

    let of = |object: String, reason: &str| (object, reason.to_owned());
    let ip = |name: &str, reason: &str| of(format!("floatingip/{name}"), reason);
    let safe = [ip("10.0.70.50", "PodGone"), ip(&kept, "LabelsNotTrue")];
    let others = BTreeSet::from([
        ip("10.0.70.51", "StaleBinding"),
        ip("10.0.70.52", "ForeignKey"),
        // Its label is written, but only a person knows whether it is right.
        ip("10.9.9.9", "OutsideConfiguration"),
        ip("10.0.70.53", "MalformedAttribute"),
        ip(&kept, "ClaimedTwice"),
        of(format!("pod/{ns}/runner"), "RecordMissing"),
    ]);
    let all: BTreeSet<_> = others.iter().cloned().chain(safe).collect();
    assert_eq!(findings(&terminal)?, all);

    let printed = terminal.run("kubectl floe check --fix --yes")?;
    assert_eq!(printed.matches("done: ").count(), 3, "{printed}");
    assert!(!printed.contains("not done: "), "{printed}");
    assert_eq!(findings(&terminal)?, others);
    let api = api(cluster.client().await?);
    let freed = api.get_opt("10.0.70.50").await?;
    assert!(freed.is_none(), "nobody has it: {freed:?}");
    let notes = api.get(&kept).await?.annotations().clone();
    assert_eq!(notes["floe.dev/state"], "Bound");

    // The rest is for floe, and for a person.
    floe::scale(&cluster, 2)?;
    terminal.run("kubectl delete floatingip 10.0.70.52 10.0.70.53 10.9.9.9")?;
    namespace.kubectl(&["delete", "pod/second"])?;
    ground::is_recorded(&namespace, "runner", "10.0.70.40").await?;
    all_is_well(&terminal).await
}
