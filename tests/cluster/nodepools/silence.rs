//! An agent that falls silent while its kubelet goes on: the second witness is asked, and
//! nothing moves.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use floe_api::floe::tenure::{LEASES, LIFE_LABEL, life_name};
use floe_testbed::cluster::paths::Paths;
use floe_testbed::cluster::wait;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::ground::{FLIPOP, Ground};
use crate::LIMIT;

/// Where the leases of kubelets are.
const KUBELETS: &str = "kube-node-lease";
/// An agent that says this renews four times in that time.
const LIFE: Duration = Duration::from_secs(4);

/// Speaks for the agent of a node, twice, and then no more. No agents run beside floe as
/// FLIPOP's users install it, so nobody else does.
pub async fn a_silent_agent_moves_nothing(ground: &Ground, node: &str) -> Result<()> {
    let before = (ground.places(), ground.orders());
    let leases: Api<Lease> = Api::namespaced(ground.cluster.client().await?, LEASES);
    let name = life_name(node);
    let lease: Lease = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { LIFE_LABEL: "" } },
        "spec": { "holderIdentity": node, "leaseDurationSeconds": LIFE.as_secs() },
    }))?;
    leases.create(&PostParams::default(), &lease).await?;
    // A lease that is found says nothing; one that changes is a sign of life.
    wait::until("the lease is followed", LIMIT, async || {
        Ok(asked(ground, LEASES)?
            .iter()
            .any(|it| it == "watch")
            .then_some(()))
    })
    .await?;
    let renewed = Patch::Merge(json!({ "spec": { "leaseTransitions": 1 } }));
    leases
        .patch(&name, &PatchParams::default(), &renewed)
        .await?;

    let looked = wait::until("kubelets are looked at", LIMIT, async || {
        let asked = asked(ground, KUBELETS)?;
        let all = ["get", "list"]
            .iter()
            .all(|it| asked.iter().any(|verb| verb == it));
        Ok(all.then_some(asked))
    });
    looked.await?;
    ensure!(
        (ground.places(), ground.orders()) == before,
        "a node lost its address, though its kubelet lives"
    );
    leases.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

/// Which verbs FLIPOP's account has asked for with leases of a namespace, as the audit log
/// of the API server says.
fn asked(ground: &Ground, namespace: &str) -> Result<Vec<String>> {
    let path = Paths::of(ground.cluster.name())?.audit();
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let account = format!("system:serviceaccount:{FLIPOP}:{FLIPOP}");
    // The last line may be cut off.
    let events = text
        .lines()
        .filter_map(|it| serde_json::from_str::<Value>(it).ok());
    let own = events.filter(|it| {
        it["user"]["username"] == account.as_str()
            && it["objectRef"]["resource"] == "leases"
            && it["objectRef"]["namespace"] == namespace
    });
    Ok(own
        .filter_map(|it| Some(it["verb"].as_str()?.to_owned()))
        .collect())
}
