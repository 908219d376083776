//! The webhook brings pods to the gate, from manifests that know nothing of it: rolling
//! updates, and what becomes of everybody while no floe runs.

use anyhow::{Result, ensure};
use floe_testbed::cluster::namespace::{TestNamespace, is_ready};
use floe_testbed::cluster::wait;
use floe_testbed::floe;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use super::{cluster, is_gated, pod, run};
use crate::LIMIT;
use crate::admission::{Webhook, apply, plain};
use crate::holdings::{POLICY, forget, holds, told};
use crate::{racks, rollout};

/// The rack of these pods.
const RACK: &str = "left";

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn behind_the_gate_updates_end_with_the_addresses_they_had() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = TestNamespace::create(&cluster, "gates-handover").await?;
    let _webhook = Webhook::install_with_gates(&namespace).await?;
    let kept = [1, 2, 3, 10].map(|replicas| (replicas, "immutable"));
    let never = [1, 3].map(|replicas| (replicas, "never"));
    for (replicas, policy) in kept.into_iter().chain(never) {
        rollout::hands_over(&namespace, RACK, replicas, policy).await?;
        namespace.kubectl(&["delete", "deployment", "--all"])?;
        if policy == "never" {
            // Their addresses stay, as spares of the Deployment.
            gone(&namespace)?;
            holds(&namespace, replicas).await?;
            forget(&cluster, &format!("_{}_", namespace.name())).await?;
        }
        holds(&namespace, 0).await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn behind_the_gate_a_version_that_fails_costs_one_pod_and_undo_brings_it_back() -> Result<()>
{
    let cluster = cluster().await?;
    let namespace = TestNamespace::create(&cluster, "gates-undo").await?;
    let _webhook = Webhook::install_with_gates(&namespace).await?;
    for replicas in [1, 3] {
        rollout::fails_and_is_undone(&namespace, RACK, replicas).await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn behind_the_gate_pauses_and_budgets_hold_an_update() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = TestNamespace::create(&cluster, "gates-held").await?;
    let _webhook = Webhook::install_with_gates(&namespace).await?;
    rollout::is_held(&namespace, RACK).await?;
    namespace.kubectl(&["delete", "deployment", "--all"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn behind_the_gate_pools_are_shared_and_surge_has_a_set_of_its_own() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = TestNamespace::create(&cluster, "gates-pool").await?;
    let _webhook = Webhook::install_with_gates(&namespace).await?;
    rollout::keeps_to_its_own(&namespace, RACK).await?;
    gone(&namespace)?;
    forget(&cluster, "pool__rolling-pool_").await?;
    rollout::surges(&namespace, RACK).await?;
    namespace.kubectl(&["delete", "deployment", "--all"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn behind_the_gate_no_pod_goes_for_one_that_cannot_use_its_address() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = TestNamespace::create(&cluster, "gates-elsewhere").await?;
    let _webhook = Webhook::install_with_gates(&namespace).await?;
    let web = racks::workload("Deployment", "web", 2, &json!({ POLICY: "immutable" }));
    let web = racks::in_rack(web, RACK);
    namespace.apply(&web.to_string())?;
    let before = run(&namespace, "web", 2).await?;
    let old = namespace.pods("app=web").await?;
    // The next version may run in another rack only, where these addresses do not live.
    namespace.apply(&racks::in_rack(web, "right").to_string())?;
    told(&namespace, "web", "RolloutAddressNotUsable", "").await?;
    let pods = namespace.pods("app=web").await?;
    let stays = |it: &Pod| {
        pods.iter()
            .any(|pod| pod.uid() == it.uid() && is_ready(pod))
    };
    ensure!(old.iter().all(stays), "an old pod is gone");
    namespace.kubectl(&["rollout", "undo", "deployment", "web"])?;
    assert_eq!(run(&namespace, "web", 2).await?, before);
    namespace.kubectl(&["delete", "deployment", "web"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn while_no_floe_runs_only_pods_that_ask_wait_at_the_gate_or_are_refused() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = TestNamespace::create(&cluster, "gates-away").await?;
    let webhook = Webhook::install_with_gates(&namespace).await?;
    floe::scale(&cluster, 0)?;
    let asking = racks::in_rack(racks::pod("asks", &json!({})), RACK);
    let answer = apply(&namespace, &asking, &[])?;
    for part in ["failed calling webhook", "gates.floe.dev"] {
        ensure!(answer.contains(part), "{answer}");
    }
    namespace.apply(&plain("plain").to_string())?;
    namespace.ready_pods("app=plain", 1, LIMIT).await?;
    // Without the webhook, a pod that brings its gate along waits there.
    drop(webhook);
    let gated = pod("gated", Some(RACK)).to_string();
    wait::until("nobody asks the webhook any more", LIMIT, async || {
        namespace.apply(&gated).map(Some)
    })
    .await?;
    ensure!(is_gated(&namespace.api::<Pod>().get("gated").await?));

    floe::scale(&cluster, 2)?;
    run(&namespace, "gated", 1).await?;
    namespace.kubectl(&["delete", "pod", "gated", "plain"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

/// Waits until no pod is left.
fn gone(namespace: &TestNamespace<'_>) -> Result<()> {
    namespace.kubectl(&["wait", "pod", "--all", "--for=delete", "--timeout=90s"])?;
    Ok(())
}
