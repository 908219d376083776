//! Rolling updates where new pods wait for the addresses of old ones. By the default
//! strategy a Deployment of up to three replicas takes no old pod away before a new one
//! runs, so floe does, and hands the address over.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::{TestNamespace, is_ready};
use floe_testbed::cluster::wait;
use floe_testbed::supervisor::fake_nodes::BROKEN;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::{POLICY, POOL, addresses, forget, holds, ip, refused, set, told};
use crate::racks;

const ROLLOUT: &str = "floe.dev/rollout";
/// Where these pods run, unless a test says otherwise.
const RACK: &str = "document";

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn whoever_wants_to_wait_goes_on_with_each_old_pod_that_somebody_deletes() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "rollout").await?;
    // With one replica one deletion is enough; with three it takes three.
    for replicas in [1, 3] {
        let name = format!("web{replicas}");
        let mut web = web(&name, replicas, RACK, "immutable")?;
        web["metadata"]["annotations"] = json!({ ROLLOUT: "wait" });
        namespace.apply(&web.to_string())?;
        let selector = format!("app={name}");
        let before = addresses(&namespace, &selector, replicas).await?;

        release(&mut web, "2");
        namespace.apply(&web.to_string())?;
        for step in 0..replicas {
            let new = wait::until("a new pod waits", LIMIT, async || {
                let pods = namespace.pods(&selector).await?;
                let mut waiting = pods.iter().filter(|pod| is_new(pod) && !is_ready(pod));
                Ok(waiting.next().map(ResourceExt::name_any))
            })
            .await?;
            if step == 0 {
                refused(
                    &namespace,
                    &new,
                    "WorkloadLimitReached",
                    "wait for releasing",
                )
                .await?;
                told(&namespace, &name, "RolloutWaits", &new).await?;
            }
            hand_over(&namespace, &selector, &before, step + 1)
                .await
                .with_context(|| format!("step {step} of {name}"))?;
        }
        rolled_out(&namespace, &name)?;
        let after = addresses(&namespace, &selector, replicas).await?;
        assert!(after.keys().all(|pod| !before.contains_key(pod)));
        assert_eq!(set(&after), set(&before), "no address has changed");
        namespace.kubectl(&["delete", "deployment", &name])?;
        holds(&namespace, 0).await?;
    }
    Ok(())
}

/// Small ones need floe; ten do not, and must not be disturbed.
#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn updates_of_one_two_three_and_ten_replicas_end_with_the_addresses_they_had() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "handover").await?;
    for replicas in [1, 2, 3, 10] {
        hands_over(&namespace, RACK, replicas, "immutable").await?;
        namespace.kubectl(&["delete", "deployment", "--all"])?;
        holds(&namespace, 0).await?;
    }
    Ok(())
}

/// Updates a Deployment twice, which has the same addresses afterwards. It is left running.
pub async fn hands_over(
    namespace: &TestNamespace<'_>,
    rack: &str,
    replicas: usize,
    policy: &str,
) -> Result<()> {
    let name = format!("{policy}{replicas}");
    let mut web = web(&name, replicas, rack, policy)?;
    namespace.apply(&web.to_string())?;
    let selector = format!("app={name}");
    let before = settled(namespace, &selector, replicas).await?;
    // Twice, because the second time there are two old ReplicaSets.
    for version in ["2", "3"] {
        release(&mut web, version);
        namespace.apply(&web.to_string())?;
        rolled_out(namespace, &name)
            .with_context(|| format!("{replicas} replicas, version {version}"))?;
        let after = settled(namespace, &selector, replicas).await?;
        assert_eq!(set(&after), set(&before), "no address has changed");
    }
    if replicas < 4 {
        told(namespace, &name, "RolloutHandover", "of the new version").await?;
    }
    if replicas == 1 {
        told(namespace, &name, "OneReplicaOutage", "short outage").await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_version_that_fails_costs_one_pod_and_undo_brings_it_back() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "undo").await?;
    for replicas in [1, 2, 3] {
        fails_and_is_undone(&namespace, RACK, replicas).await?;
    }
    Ok(())
}

/// Updates a Deployment to a version that does not work, and takes that back.
pub async fn fails_and_is_undone(
    namespace: &TestNamespace<'_>,
    rack: &str,
    replicas: usize,
) -> Result<()> {
    let name = format!("web{replicas}");
    let mut web = web(&name, replicas, rack, "immutable")?;
    namespace.apply(&web.to_string())?;
    let selector = format!("app={name}");
    let before = settled(namespace, &selector, replicas).await?;

    release(&mut web, "2");
    web["spec"]["template"]["metadata"]["annotations"][BROKEN] = json!("");
    namespace.apply(&web.to_string())?;
    wait::until("a new pod has an address and fails", LIMIT, async || {
        let pods = namespace.pods(&selector).await?;
        let mut bound = pods.iter().filter(|pod| is_new(pod) && ip(pod).is_ok());
        Ok(bound.next().map(|_| ()))
    })
    .await?;
    let ready = namespace.pods(&selector).await?;
    let ready = ready.iter().filter(|pod| is_ready(pod)).count();
    ensure!(ready == replicas - 1, "{ready} of {replicas} are ready");

    namespace.kubectl(&["rollout", "undo", "deployment", &name])?;
    rolled_out(namespace, &name).with_context(|| format!("undo of {name}"))?;
    let after = settled(namespace, &selector, replicas).await?;
    assert_eq!(set(&after), set(&before), "no address has changed");
    namespace.kubectl(&["delete", "deployment", &name])?;
    holds(namespace, 0).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn pauses_and_budgets_hold_an_update_and_it_goes_on_afterwards() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "held").await?;
    is_held(&namespace, RACK).await
}

/// Updates a Deployment that a disruption budget protects, then a pause, then nothing.
pub async fn is_held(namespace: &TestNamespace<'_>, rack: &str) -> Result<()> {
    let mut web = web("web", 2, rack, "immutable")?;
    namespace.apply(&web.to_string())?;
    let before = settled(namespace, "app=web", 2).await?;

    // Every pod is protected.
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "web" },
        "spec": { "minAvailable": 2, "selector": { "matchLabels": { "app": "web" } } },
    });
    namespace.apply(&budget.to_string())?;
    release(&mut web, "2");
    namespace.apply(&web.to_string())?;
    told(namespace, "web", "DisruptionBudget", "disruption budget").await?;

    // Paused in the midst of it, and then nothing but the pause is in the way.
    namespace.kubectl(&["rollout", "pause", "deployment", "web"])?;
    told(namespace, "web", "RolloutPaused", "kubectl rollout resume").await?;
    namespace.kubectl(&["delete", "poddisruptionbudget", "web"])?;
    // The new pod waits beside them.
    let pods = namespace.pods("app=web").await?;
    let old = pods
        .iter()
        .filter(|pod| is_ready(pod) && before.contains_key(&pod.name_any()));
    assert_eq!(old.count(), 2, "no old pod has gone");

    namespace.kubectl(&["rollout", "resume", "deployment", "web"])?;
    rolled_out(namespace, "web")?;
    let after = settled(namespace, "app=web", 2).await?;
    assert_eq!(set(&after), set(&before), "no address has changed");
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn in_a_shared_pool_only_pods_of_the_updated_deployment_go() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "shared-pool").await?;
    keeps_to_its_own(&namespace, RACK).await
}

/// Updates one of two Deployments in a full pool.
pub async fn keeps_to_its_own(namespace: &TestNamespace<'_>, rack: &str) -> Result<()> {
    let cluster = namespace.cluster();
    forget(cluster, "pool__rolling-pool_").await?;
    let pool = json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "Pool",
        "metadata": { "name": "rolling-pool" }, "size": 4,
    });
    namespace.apply(&pool.to_string())?;
    let mut one = pooled("one", 2, rack);
    namespace.apply(&one.to_string())?;
    let first = settled(namespace, "app=one", 2).await?;
    // One pod of the other Deployment does not fit in, and would take anything.
    let other = pooled("two", 3, rack);
    namespace.apply(&other.to_string())?;
    let second = wait::until("two of the others run", LIMIT, async || {
        let pods = namespace.pods("app=two").await?;
        let ready: Vec<_> = pods.iter().filter(|pod| is_ready(pod)).collect();
        ensure!(ready.len() == 2 && pods.len() == 3, "{} run", ready.len());
        let names = ready.iter().map(|pod| pod.name_any());
        Ok(Some(names.collect::<Vec<_>>()))
    })
    .await?;

    release(&mut one, "2");
    namespace.apply(&one.to_string())?;
    rolled_out(namespace, "one")?;
    let after = settled(namespace, "app=one", 2).await?;
    assert_eq!(set(&after), set(&first), "no address has changed");
    let pods = namespace.pods("app=two").await?;
    let mut ready = pods.iter().filter(|pod| is_ready(pod));
    assert!(ready.all(|pod| second.contains(&pod.name_any())));
    assert_eq!(pods.iter().filter(|pod| is_ready(pod)).count(), 2);
    namespace.kubectl(&["delete", "deployment", "one", "two"])?;
    forget(cluster, "pool__rolling-pool_").await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn surge_starts_a_new_pod_beside_the_old_ones_out_of_a_fixed_set() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "surge").await?;
    surges(&namespace, RACK).await
}

/// Updates a Deployment that has an address more than replicas. It is left running.
pub async fn surges(namespace: &TestNamespace<'_>, rack: &str) -> Result<()> {
    let mut web = web("web", 1, rack, "immutable")?;
    web["metadata"]["annotations"] = json!({ ROLLOUT: "surge" });
    namespace.apply(&web.to_string())?;
    settled(namespace, "app=web", 1).await?;
    let mut owned = None;
    for version in ["2", "3"] {
        release(&mut web, version);
        namespace.apply(&web.to_string())?;
        rolled_out(namespace, "web")?;
        settled(namespace, "app=web", 1).await?;
        let records: Vec<String> = holds(namespace, 2).await?.into_keys().collect();
        let owned = owned.get_or_insert_with(|| records.clone());
        assert_eq!(*owned, records, "the set is fixed");
    }
    Ok(())
}

/// A Deployment that keeps its addresses.
fn web(name: &str, replicas: usize, rack: &str, policy: &str) -> Result<Value> {
    let policy = json!({ POLICY: policy });
    let web = racks::workload("Deployment", name, u32::try_from(replicas)?, &policy);
    Ok(racks::in_rack(web, rack))
}

/// The addresses of pods that run. Behind a gate, a record says where its pod runs only a
/// moment after a scheduler has bound it.
async fn settled(
    namespace: &TestNamespace<'_>,
    selector: &str,
    count: usize,
) -> Result<BTreeMap<String, String>> {
    wait::until("pods and records agree", LIMIT, async || {
        addresses(namespace, selector, count).await.map(Some)
    })
    .await
}

/// A Deployment in the pool.
fn pooled(name: &str, replicas: u32, rack: &str) -> Value {
    let annotations = json!({ POOL: "rolling-pool" });
    let web = racks::workload("Deployment", name, replicas, &annotations);
    racks::in_rack(web, rack)
}

fn release(web: &mut Value, version: &str) {
    web["spec"]["template"]["metadata"]["annotations"]["release"] = json!(version);
}

fn rolled_out(namespace: &TestNamespace<'_>, name: &str) -> Result<()> {
    let rolled = ["rollout", "status", "deployment", name, "--timeout=120s"];
    namespace.kubectl(&rolled)?;
    Ok(())
}

/// Deletes one of the old pods, and waits until one more of the new ones runs.
async fn hand_over(
    namespace: &TestNamespace<'_>,
    selector: &str,
    before: &BTreeMap<String, String>,
    wanted: usize,
) -> Result<()> {
    let pods = namespace.pods(selector).await?;
    let mut old = pods.iter().filter(|pod| !is_new(pod) && is_ready(pod));
    let old = old.next().context("no old pod runs")?.name_any();
    namespace
        .api::<Pod>()
        .delete(&old, &DeleteParams::default())
        .await?;
    wait::until(&format!("{wanted} new pods run"), LIMIT, async || {
        let pods = namespace.pods(selector).await?;
        let mut running = 0;
        for pod in pods.iter().filter(|pod| is_ready(pod)) {
            let ip = ip(pod)?;
            ensure!(before.values().any(|it| *it == ip), "{ip} is new");
            running += usize::from(is_new(pod));
        }
        ensure!(running == wanted, "{running} new pods run");
        Ok(Some(()))
    })
    .await
}

fn is_new(pod: &Pod) -> bool {
    pod.annotations().contains_key("release")
}
