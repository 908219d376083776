//! A cluster comes and goes: what it refuses, and that it leaves nothing behind.
//!
//! These tests look at the whole machine, so they run one after the other, and beside no other
//! job that mounts anything there.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::cluster::wait::SETTLED as LIMIT;
use floe_testbed::cluster::{Cluster, wait, wait_until_gone};
use floe_testbed::host::sibling_program;
use floe_testbed::leftovers::Machine;
use floe_testbed::supervisor::is_ready;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::sync::Mutex;

const NAME: &str = "lifecycle";

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Nothing is left, as soon as the kernel has finished clearing away.
async fn nothing_is_left_since(before: &Machine) -> Result<()> {
    wait::until("nothing is left", Duration::from_secs(15), async || {
        let left = Machine::look().since(before, NAME);
        anyhow::ensure!(left.is_empty(), "left behind:\n{}", left.join("\n"));
        Ok(Some(()))
    })
    .await
}

/// Runs pods on the cluster, so that there is something to leave behind.
async fn busy(cluster: &Cluster) -> Result<()> {
    let namespace = TestNamespace::create(cluster, "busy").await?;
    namespace.kubectl(&[
        "create",
        "deployment",
        "web",
        "--image=nginx:1.7.9",
        "--replicas=2",
    ])?;
    namespace.kubectl(&["expose", "deployment", "web", "--port=80"])?;
    namespace.ready_pods("app=web", 2, LIMIT).await?;
    // The namespace goes with the cluster; its deletion is left unfinished.
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn after_down_nothing_is_left_however_often_it_came_and_went() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock().await;
    let rounds = if std::env::var_os("FLOE_NIGHTLY").is_some() {
        20
    } else {
        1
    };
    let before = Machine::look();
    for _ in 0..rounds {
        let cluster = Cluster::up(&ClusterSpec::new(NAME).nodes(2))?;
        busy(&cluster).await?;
        cluster.power_off("node-2").await?;
        cluster.pause("node-1").await?;
        assert!(Cluster::down(NAME).await?);
        drop(cluster);
        nothing_is_left_since(&before).await?;
    }
    assert!(
        !Cluster::down(NAME).await?,
        "down again finds nothing to do"
    );
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn two_clusters_of_one_name_cannot_be_and_of_two_names_can() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock().await;
    let spec = ClusterSpec::new(NAME).nodes(1);
    let first = Cluster::up(&spec)?;
    let over = Cluster::up(&spec)
        .err()
        .context("a second cluster started over the first")?;
    assert!(format!("{over:#}").contains("already running"), "{over:#}");

    let beside = Cluster::up(&ClusterSpec::new("lifecycle-2").nodes(1))?;
    busy(&beside).await?;
    busy(&first).await.context("the others hurt the first")
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn down_ends_a_cluster_that_is_still_coming_up() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock().await;
    let before = Machine::look();
    let mut caller = begin_to_come_up()?;
    assert!(Cluster::down(NAME).await?);
    assert!(!caller.wait()?.success(), "its caller is told");
    nothing_is_left_since(&before).await
}

/// Starts a caller in another process and returns while its nodes come up.
fn begin_to_come_up() -> Result<Child> {
    let mut caller = Command::new(sibling_program("xtask")?)
        .args(["cluster", "up", "--name", NAME, "--nodes", "1"])
        .stderr(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(caller.stderr.take().context("it is piped")?).lines();
    lines
        .find(|line| {
            line.as_ref()
                .is_ok_and(|line| line.contains("starting 1 nodes"))
        })
        .context("it never got to the nodes")??;
    // The rest is read by nobody, and must not block the caller.
    std::thread::spawn(move || lines.for_each(drop));
    Ok(caller)
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_crash_of_the_caller_ends_the_cluster_and_leaves_nothing() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock().await;
    for signal in [Signal::SIGKILL, Signal::SIGINT] {
        let before = Machine::look();
        let mut caller = begin_to_come_up()?;
        kill(Pid::from_raw(i32::try_from(caller.id())?), signal)?;
        caller.wait()?;
        wait_until_gone(NAME)?;
        nothing_is_left_since(&before)
            .await
            .with_context(|| format!("after {signal}"))?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn up_after_a_crash_of_the_supervisor_cleans_up_and_works() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock().await;
    let before = Machine::look();
    let spec = ClusterSpec::new(NAME).nodes(1);
    let crashed = Cluster::up(&spec)?;
    busy(&crashed).await?;
    let supervisor = crashed.status().await?.supervisor;
    kill(Pid::from_raw(i32::try_from(supervisor)?), Signal::SIGKILL)?;
    drop(crashed);

    let cluster = Cluster::up(&spec)?;
    busy(&cluster).await?;
    drop(cluster);
    nothing_is_left_since(&before).await
}

/// Waits until a fake node would be lost if nobody renewed its lease: the grace is
/// eight seconds.
async fn outlive_the_grace_of_a_silent_node(cluster: &Cluster) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(cluster.client().await?, "kube-node-lease");
    let renewed = async || -> Result<_> {
        let spec = leases
            .get("fake-50")
            .await?
            .spec
            .context("it says nothing")?;
        Ok(spec.renew_time.context("it was never renewed")?.0)
    };
    let first = renewed().await?;
    wait::until("the lease is renewed for ten seconds", LIMIT, async || {
        Ok((renewed().await?.duration_since(first).as_secs() >= 10).then_some(()))
    })
    .await
}

/// What the controller manager does to a node that could not speak for a while.
async fn taken_for_lost_it_says_that_it_is_ready(
    cluster: &Cluster,
    namespace: &TestNamespace<'_>,
) -> Result<()> {
    let (nodes, params): (Api<Node>, _) =
        (Api::all(cluster.client().await?), PatchParams::default());
    let pods = namespace.api::<Pod>();
    let listed = pods.list(&ListParams::default()).await?.items;
    let pod = listed.first().context("200 pods run")?.name_any();
    let condition =
        |status| json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } });
    let lost = Patch::Strategic(condition("Unknown"));
    nodes.patch_status("fake-1", &params, &lost).await?;
    let unready = Patch::Strategic(condition("False"));
    pods.patch_status(&pod, &params, &unready).await?;
    wait::until("fake-1 is ready again", LIMIT, async || {
        Ok(is_ready(&nodes.get("fake-1").await?).then_some(()))
    })
    .await?;
    namespace.ready_pods("app=many", 200, LIMIT).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn fake_nodes_are_ready_run_pods_and_let_them_go() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::up(&ClusterSpec::new(NAME).nodes(1).fake_nodes(50))?;
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    let fake = ListParams::default().labels("floe.dev/fake-node");
    assert_eq!(nodes.list(&fake).await?.items.len(), 50);

    let namespace = TestNamespace::create(&cluster, "scale").await?;
    namespace.apply(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: many}, spec: {replicas: 200, selector: {matchLabels: \
         {app: many}}, template: {metadata: {labels: {app: many}}, spec: {nodeSelector: {floe.dev/fake-node: 'true'}, \
         containers: [{name: main, image: none}]}}}}",
    )?;
    namespace.ready_pods("app=many", 200, LIMIT).await?;
    outlive_the_grace_of_a_silent_node(&cluster).await?;
    let ready = nodes.list(&fake).await?.items;
    assert_eq!(ready.iter().filter(|node| is_ready(node)).count(), 50);
    taken_for_lost_it_says_that_it_is_ready(&cluster, &namespace).await?;

    namespace.kubectl(&["scale", "deployment", "many", "--replicas=0"])?;
    wait::until("all pods are gone", LIMIT, async || {
        Ok(namespace
            .api::<Pod>()
            .list(&ListParams::default())
            .await?
            .items
            .is_empty()
            .then_some(()))
    })
    .await
}
