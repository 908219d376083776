//! An address leaves a pod that cannot serve any more, whatever the reason, and answers
//! from another one.

use anyhow::{Context, Result};
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::cluster::Cluster;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::floe;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};

use super::ground::{
    agent_of, alone, holder, leading_node, make_ready, move_to_node, moved, seen, status, three,
    together,
};
use crate::LIMIT;

/// A node that is drained, until this is dropped.
struct Drained<'a> {
    cluster: &'a Cluster,
    node: &'a str,
}

impl<'a> Drained<'a> {
    fn new(namespace: &'a TestNamespace<'_>, node: &'a str) -> Result<Self> {
        let cluster = namespace.cluster();
        // Made first, so that a half-done drain is undone, too.
        let drained = Self { cluster, node };
        let options = ["--ignore-daemonsets", "--force", "--timeout=60s"];
        namespace.kubectl(&[&["drain", node][..], &options].concat())?;
        Ok(drained)
    }
}

impl Drop for Drained<'_> {
    fn drop(&mut self) {
        // If it fails, the tests after this one say so.
        let uncordon = ["uncordon", self.node];
        let _ = self.cluster.kubectl().args(uncordon).output();
    }
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_holder_that_is_deleted_or_not_ready_loses_the_address_to_one_that_is() -> Result<()> {
    const IP: &str = "10.200.0.213";
    let cluster = together().await?;
    let namespace = TestNamespace::create(&cluster, "unfit").await?;
    let first = three(&namespace, IP).await?;
    let pod = holder(&first)?.pod;
    namespace.kubectl(&["delete", "pod", &pod, "--wait=false"])?;
    let second = moved(&namespace, &first, "PodDeleted").await?;

    let pod = holder(&second)?.pod;
    make_ready(&namespace, &pod, false)?;
    let third = moved(&namespace, &second, "PodNotReady").await?;

    // Nobody else is there: better one that may still answer than none.
    let last = holder(&third)?.pod;
    make_ready(&namespace, &last, false)?;
    let stays = |vip: &VirtualIP| {
        let serving = vip.condition("Serving");
        serving.is_some_and(|it| it.status == "True" && it.reason == "HolderNotReady")
    };
    let alone = seen(&namespace, IP, "stays where it is", stays).await?;
    assert_eq!(holder(&alone)?.pod, last);
    assert_eq!(status(&alone).moves, status(&third).moves);
    make_ready(&namespace, &pod, true)?;
    let fourth = moved(&namespace, &alone, "PodNotReady").await?;
    assert_eq!(holder(&fourth)?.pod, pod);

    // Whoever is well again does not take it back.
    make_ready(&namespace, &last, true)?;
    let both = |vip: &VirtualIP| status(vip).candidates.len() == 2;
    let after = seen(&namespace, IP, "has two candidates", both).await?;
    assert_eq!(status(&after).moves, status(&fourth).moves);
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn draining_the_holders_node_moves_the_address() -> Result<()> {
    const IP: &str = "10.200.0.214";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "drained").await?;
    let first = three(&namespace, IP).await?;
    let node = holder(&first)?.node;
    let drained = Drained::new(&namespace, &node)?;
    let second = moved(&namespace, &first, "PodDeleted").await?;
    assert_ne!(holder(&second)?.node, node);
    drop(drained);
    floe::wait_until_ready(&cluster)
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_agent_that_is_told_to_end_hands_the_address_over() -> Result<()> {
    const IP: &str = "10.200.0.236";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "ending").await?;
    let first = three(&namespace, IP).await?;
    let node = holder(&first)?.node;
    let agent = agent_of(&cluster, &node).await?.name_any();
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    pods.delete(&agent, &DeleteParams::default()).await?;
    // By its own word, and not because nobody hears of it.
    let second = moved(&namespace, &first, "AgentStopping").await?;
    assert_ne!(holder(&second)?.node, node);
    floe::agent::wait_until_ready(&cluster)
}

/// Switches the node of a holder off and on again. The address moves away, and stays
/// where it is when the node is back.
async fn loses_power(namespace: &TestNamespace<'_>, first: &VirtualIP) -> Result<()> {
    let cluster = namespace.cluster();
    let node = holder(first)?.node;
    cluster.power_off(&node).await?;
    let second = moved(namespace, first, "NodeSilent").await?;
    assert_ne!(holder(&second)?.node, node);
    cluster.power_on(&node).await?;
    cluster.wait_for_node(&node, true, LIMIT).await?;
    floe::agent::wait_until_ready(cluster)?;
    namespace.ready_pods("app=web", 3, LIMIT).await?;
    let three = |vip: &VirtualIP| status(vip).candidates.len() == 3;
    let name = first.metadata.name.as_deref().context("it has a name")?;
    let back = seen(namespace, name, "has three candidates again", three).await?;
    assert_eq!(holder(&back)?.pod, holder(&second)?.pod);
    assert_eq!(status(&back).moves, status(&second).moves);
    floe::wait_until_ready(cluster)
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_node_without_power_loses_the_address_and_does_not_get_it_back() -> Result<()> {
    const IP: &str = "10.200.0.215";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "power").await?;
    let leading = leading_node(&cluster).await?;
    let first = three(&namespace, IP).await?;
    // Somewhere else than the leader, which has a test of its own.
    let other = super::ground::NODES_OF_PODS
        .iter()
        .find(|it| **it != leading);
    let first = move_to_node(&namespace, &first, other.context("there are three")?).await?;
    loses_power(&namespace, &first).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn the_leading_controller_is_lost_with_the_holder_and_the_address_moves() -> Result<()> {
    const IP: &str = "10.200.0.216";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "leader").await?;
    let first = three(&namespace, IP).await?;
    let leading = leading_node(&cluster).await?;
    let first = move_to_node(&namespace, &first, &leading).await?;
    loses_power(&namespace, &first).await
}
