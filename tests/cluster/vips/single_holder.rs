//! Never do two nodes speak for an address at a time: nodes are cut off, agents stopped,
//! killed and started again, the API server goes away, and the wire is listened to.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::agent;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::ground::{NODES_OF_PODS, alone, holder, moved, pings, seen, served, status, three};
use super::standstill::{Frozen, Halted, agent_process};
use super::wall_clock;
use super::wire::Wire;
use crate::LIMIT;

/// The term of a node, as its lease has it.
async fn term_of(cluster: &Cluster, node: &str) -> Result<i32> {
    let leases: Api<Lease> = Api::namespaced(cluster.client().await?, "kube-system");
    let lease = leases.get(&format!("floe-vip-{node}")).await?;
    let term = lease.spec.and_then(|spec| spec.lease_transitions);
    term.with_context(|| format!("the lease of {node} has no term"))
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_holder_that_is_cut_off_and_comes_back_never_speaks_beside_its_successor() -> Result<()> {
    const IP: &str = "10.200.0.223";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "cut").await?;
    let first = three(&namespace, IP).await?;
    let wire = Wire::begin(&namespace, IP).await?;
    let node = holder(&first)?.node;
    wire.hears(&node, LIMIT).await?;
    cluster.pull_cable(&node).await?;
    let second = moved(&namespace, &first, "NodeSilent").await?;
    wire.hears(&holder(&second)?.node, LIMIT).await?;
    cluster.plug_cable(&node).await?;
    cluster.wait_for_node(&node, true, LIMIT).await?;
    agent::wait_until_ready(&cluster)?;
    let same = served(&namespace, IP, |vip| status(vip).candidates.len() == 3).await?;
    assert_eq!(
        status(&same).moves,
        status(&second).moves,
        "nobody takes it back"
    );
    wire.had_one_speaker(2).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_agent_that_stands_still_is_silent_when_another_takes_over_and_when_it_goes_on()
-> Result<()> {
    const IP: &str = "10.200.0.224";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "frozen").await?;
    let first = three(&namespace, IP).await?;
    let wire = Wire::begin(&namespace, IP).await?;
    let node = holder(&first)?.node;
    wire.hears(&node, LIMIT).await?;
    let term = term_of(&cluster, &node).await?;
    let frozen = Frozen::new(agent_process(&cluster, &node).await?)?;
    let second = moved(&namespace, &first, "NodeSilent").await?;
    wire.hears(&holder(&second)?.node, LIMIT).await?;
    drop(frozen);
    // It is well again when another term of its has begun, or when it has nothing to do:
    // then it is asked to hold something.
    agent::wait_until_ready(&cluster)?;
    let back = super::ground::move_to_node(&namespace, &second, &node).await?;
    ensure!(
        term_of(&cluster, &node).await? > term,
        "its old term is over for ever"
    );
    wire.hears(&holder(&back)?.node, LIMIT).await?;
    wire.had_one_speaker(3).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_killed_agent_begins_a_new_term_before_it_speaks_again() -> Result<()> {
    const IP: &str = "10.200.0.225";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "killed").await?;
    let first = three(&namespace, IP).await?;
    let wire = Wire::begin(&namespace, IP).await?;
    let old = holder(&first)?;
    wire.hears(&old.node, LIMIT).await?;
    // The agent itself, and not one that asks it whether it is well.
    let process = agent_process(&cluster, &old.node).await?;
    kill(Pid::from_raw(process), Signal::SIGKILL)?;
    wait::until("another process of the agent runs", LIMIT, async || {
        let now = agent_process(&cluster, &old.node).await?;
        Ok((now != process).then_some(()))
    })
    .await?;
    // Whether it was faster than the others is not asked here.
    let new = |it: &VirtualIP| {
        let holder = status(it).holder;
        holder.is_some_and(|it| (&it.node, it.term) != (&old.node, old.term))
    };
    served(&namespace, IP, new).await?;
    agent::wait_until_ready(&cluster)?;
    wire.had_one_speaker(1).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn without_the_api_server_for_a_minute_nothing_is_lost() -> Result<()> {
    const IP: &str = "10.200.0.226";
    /// Five in a second.
    const PINGS: usize = 300;
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "headless").await?;
    let first = three(&namespace, IP).await?;
    let wire = Wire::begin(&namespace, IP).await?;
    let outside = cluster.outside().await?;
    cluster.stop_api_server().await?;
    let answered = {
        let ip = IP.parse()?;
        tokio::task::spawn_blocking(move || pings(&outside, ip, PINGS)).await??
    };
    cluster.start_api_server().await?;
    assert_eq!(answered, PINGS, "some pings are lost");
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, namespace.name());
    let held = &holder(&first)?;
    wait::until("the API server is back", LIMIT, async || {
        Ok(pods.get_opt(&held.pod).await?)
    })
    .await?;
    let after = served(&namespace, IP, |_| true).await?;
    assert_eq!(&holder(&after)?.uid, &held.uid);
    assert_eq!(
        (holder(&after)?.term, status(&after).moves),
        (held.term, status(&first).moves)
    );
    wire.had_one_speaker(1).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn without_the_api_server_a_holder_that_lacks_a_promise_falls_silent() -> Result<()> {
    const IP: &str = "10.200.0.227";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "promises").await?;
    let first = three(&namespace, IP).await?;
    let wire = Wire::begin(&namespace, IP).await?;
    let node = holder(&first)?.node;
    wire.hears(&node, LIMIT).await?;
    let other = super::ground::NODES_OF_PODS
        .into_iter()
        .find(|it| *it != node);
    let other = other.context("there are three nodes")?;
    cluster.stop_api_server().await?;
    cluster.pull_cable(other).await?;
    let outside = cluster.outside().await?;
    let to = std::net::SocketAddr::new(IP.parse()?, 80);
    wait::until("nobody answers", LIMIT, async || {
        Ok(crate::http::get(&outside, to).is_err().then_some(()))
    })
    .await?;
    cluster.start_api_server().await?;
    cluster.plug_cable(other).await?;
    cluster.wait_for_node(other, true, LIMIT).await?;
    agent::wait_until_ready(&cluster)?;
    served(&namespace, IP, |_| true).await?;
    wire.had_one_speaker(1).await
}

/// How many minutes the clock on the wall of a node's agent is ahead of this one, as its
/// lease has it.
async fn minutes_ahead(cluster: &Cluster, node: &str) -> Result<i64> {
    let leases: Api<Lease> = Api::namespaced(cluster.client().await?, "kube-system");
    let lease = leases.get(&format!("floe-vip-{node}")).await?;
    let renewed = lease.spec.and_then(|spec| spec.renew_time);
    let renewed = renewed.context("it was never renewed")?.0.as_second();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok((renewed - i64::try_from(now.as_secs())?) / 60)
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_clock_on_the_wall_that_jumps_moves_nothing() -> Result<()> {
    const IP: &str = "10.200.0.232";
    const HOUR: i32 = 3600;
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "clock").await?;
    let first = three(&namespace, IP).await?;
    let wire = Wire::begin(&namespace, IP).await?;
    let held = holder(&first)?;
    wire.hears(&held.node, LIMIT).await?;
    let mut agents = Vec::new();
    for node in NODES_OF_PODS {
        agents.push((node, agent_process(&cluster, node).await?));
    }
    // The holder's forward and the others' back, and the other way round.
    for seconds in [HOUR, -HOUR, 0] {
        for (node, process) in &agents {
            let is_holder = held.node == *node;
            let seconds = if is_holder { seconds } else { -seconds };
            wall_clock::set_off(*process, seconds).await?;
        }
        let wanted = i64::from(seconds) / 60;
        wait::until("the holder has another time", LIMIT, async || {
            let ahead = minutes_ahead(&cluster, &held.node).await?;
            ensure!((ahead - wanted).abs() < 5, "it is {ahead} minutes ahead");
            Ok(Some(()))
        })
        .await?;
        let outside = cluster.outside().await?;
        let ip = IP.parse()?;
        // Longer than a lease without renewal would live.
        let answered = tokio::task::spawn_blocking(move || pings(&outside, ip, 25)).await??;
        assert_eq!(answered, 25, "some pings are lost");
    }
    let after = served(&namespace, IP, |_| true).await?;
    let now = holder(&after)?;
    assert_eq!((&now.uid, now.term), (&held.uid, held.term));
    assert_eq!(status(&after).moves, status(&first).moves);
    wire.had_one_speaker(1).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn who_answers_and_stands_still_says_nothing_when_the_address_has_gone() -> Result<()> {
    const IP: &str = "10.200.0.233";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "deaf").await?;
    let first = three(&namespace, IP).await?;
    let wire = Wire::begin(&namespace, IP).await?;
    let old = holder(&first)?;
    wire.hears(&old.node, LIMIT).await?;
    // The agent goes on. What it is asked on the wire waits until this one does, too.
    let halted = Halted::new(agent_process(&cluster, &old.node).await?, "answers ")?;
    namespace.kubectl(&["delete", "pod", &old.pod, "--wait=false"])?;
    let names = |it: &VirtualIP| {
        let status = status(it);
        let new = status.holder.is_some_and(|it| it.uid != old.uid);
        new || status.successor.is_some()
    };
    seen(&namespace, IP, "has somebody else in view", names).await?;
    drop(halted);
    // Handed over, or let go first because nobody could stop who stood still.
    let new = |it: &VirtualIP| status(it).holder.is_some_and(|it| it.uid != old.uid);
    let second = served(&namespace, IP, new).await?;
    wire.hears(&holder(&second)?.node, LIMIT).await?;
    agent::wait_until_ready(&cluster)?;
    wire.had_one_speaker(2).await
}
