//! Another way of scheduling, and back, by nothing but a value of the chart: in the order of
//! `docs/guide/scheduler.md`, so that whoever comes meanwhile has a gate or an extender.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::gates::{gates_of, settled};
use super::lives;
use super::release::Release;
use crate::LIMIT;
use crate::gates::is_gated;
use crate::holdings::{ARGS, told};
use crate::racks;

/// Three pods of the sample run, and the scheduler asks its extender.
pub async fn there_and_back(
    cluster: &Cluster,
    release: &Release<'_>,
    namespace: &TestNamespace<'_>,
) -> Result<()> {
    let before = lives(namespace).await?;
    let held = settled(namespace, 3).await?;

    release.upgrade(&["controller.scheduling=gates"])?;
    wait::until("new pods come to the gate", LIMIT, async || {
        let gates = gates_of(namespace, &racks::pod("draft", &json!({}))).await?;
        ensure!(gates == ["floe.dev/ip"], "they have {gates:?}");
        Ok(Some(()))
    })
    .await?;
    cluster.schedule_with_extender(false).await?;
    let fourth = scaled(namespace, 4, &held).await?;
    told(namespace, &fourth.newcomer, "AddressAllocated", "for nodes").await?;

    // It waits at the gate for what another one has, and is still there when the gates go.
    let range = format!(r#"{{"request_ip_range":[["{}"]]}}"#, fourth.address);
    let late = racks::pod("late", &json!({ ARGS: range }));
    namespace.apply(&late.to_string())?;
    told(namespace, "late", "NoAddressLeft", "available ips left").await?;
    let pods = namespace.api::<Pod>();
    assert!(is_gated(&pods.get("late").await?));

    cluster.schedule_with_extender(true).await?;
    release.upgrade(&["controller.scheduling=extender"])?;
    wait::until("the gate is open", LIMIT, async || {
        let late = pods.get("late").await?;
        Ok((!is_gated(&late)).then_some(()))
    })
    .await?;
    told(namespace, "late", "FailedScheduling", "NoFIPLeft").await?;
    namespace.kubectl(&["delete", "pod", "late"])?;
    let fifth = scaled(namespace, 5, &fourth.all).await?;
    told(namespace, &fifth.newcomer, "AddressAllocated", "on node").await?;

    // Nobody else has noticed.
    let after = lives(namespace).await?;
    let mut lives = before.iter();
    let unmoved = lives.all(|(uid, life)| after.get(uid) == Some(life));
    ensure!(unmoved, "{before:?} became {after:?}");
    Ok(())
}

/// The sample with one more pod.
struct Scaled {
    newcomer: String,
    /// Of the newcomer.
    address: String,
    /// Of all pods, by their names.
    all: BTreeMap<String, String>,
}

/// Gives the sample one more pod; the others keep what they have.
async fn scaled(
    namespace: &TestNamespace<'_>,
    count: usize,
    before: &BTreeMap<String, String>,
) -> Result<Scaled> {
    let replicas = format!("--replicas={count}");
    namespace.kubectl(&["scale", "deployment/nginx-deployment", &replicas])?;
    let all = settled(namespace, count).await?;
    let mut new = all.iter().filter(|(pod, _)| !before.contains_key(*pod));
    let (newcomer, address) = new.next().context("there is no other pod")?;
    ensure!(
        before.iter().all(|(pod, ip)| all.get(pod) == Some(ip)),
        "{before:?} became {all:?}"
    );
    Ok(Scaled {
        newcomer: newcomer.clone(),
        address: address.clone(),
        all,
    })
}
