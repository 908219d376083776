//! `floe-agent cleanup` where a shared address is served: nothing of it stays on the node, and
//! at no time do two nodes speak for it.

use anyhow::{Result, ensure};
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::floe::agent;
use floe_testbed::host::{HostRef, sibling_program};

use super::ground::{alone, holder, moved, served, status, three};
use super::standstill::{Frozen, agent_process};
use super::wire::Wire;
use crate::LIMIT;

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_cleanup_takes_a_live_address_off_its_node_and_one_beside_an_agent_is_mended()
-> Result<()> {
    const IP: &str = "10.200.0.240";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "cleanup").await?;
    let first = three(&namespace, IP).await?;
    let wire = Wire::begin(&namespace, IP).await?;
    let name = holder(&first)?.node;
    wire.hears(&name, LIMIT).await?;
    let node = cluster.host(&name).await?;

    // Nobody mends it: the agent stands still. What is left would last for seconds.
    let frozen = Frozen::new(agent_process(&cluster, &name).await?)?;
    ensure!(rests(&node)?.contains(IP), "nothing of {IP} is on {name}");
    let told = cleanup(&node)?;
    ensure!(told.contains("done: remove table inet floe-vip"), "{told}");
    let left = rests(&node)?;
    ensure!(!left.contains("floe-vip") && !left.contains(IP), "{left}");
    let second = moved(&namespace, &first, "NodeSilent").await?;
    wire.hears(&holder(&second)?.node, LIMIT).await?;
    drop(frozen);
    agent::wait_until_ready(&cluster)?;

    // Beside an agent that runs it is no end: what is missing is put back, or the address goes
    // where it can be served.
    let name = holder(&second)?.node;
    cleanup(&cluster.host(&name).await?)?;
    let all = |vip: &VirtualIP| status(vip).candidates.len() == 3;
    let third = served(&namespace, IP, all).await?;
    wire.hears(&holder(&third)?.node, LIMIT).await?;
    wire.had_one_speaker(2).await
}

/// Runs it on a node, and returns what it tells. What pods use otherwise may stay.
fn cleanup(node: &HostRef) -> Result<String> {
    let program = sibling_program("floe-agent")?;
    node.shell(&format!("{} cleanup 2>&1 || true", program.display()))
}

/// Whatever there is of shared addresses on a node.
fn rests(node: &HostRef) -> Result<String> {
    node.shell(
        "nft list tables; nft list ruleset | grep -e floe-vip -e 10.200.0.24 || true
         ip -o address show; ip route show table all",
    )
}
