//! A firewall on the holder's node that drops what the node should forward: the address would
//! be dead although its node answers ARP, renews its lease and looks well.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::cluster::Cluster;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::host::HostRef;

use super::ground::{alone, claim, holder, moved, pings, served, three, until, web};
use crate::LIMIT;

/// What `iptables -P FORWARD DROP` makes of a node, in a table of the test's own.
struct Firewall(HostRef);

impl Firewall {
    async fn close(cluster: &Cluster, node: &str) -> Result<Self> {
        let node = cluster.host(node).await?;
        node.network_script(
            "nft 'add table inet firewall; \
             add chain inet firewall forward { type filter hook forward priority 0; policy drop; }'",
        )?;
        Ok(Self(node))
    }
}

impl Drop for Firewall {
    fn drop(&mut self) {
        if let Err(error) = self.0.network_script("nft delete table inet firewall") {
            eprintln!("the firewall of {} is left: {error:#}", self.0.name);
        }
    }
}

/// Waits until the object of an address is as `probe` says, while a client goes on asking:
/// without packets there is nothing to find.
async fn asked_until<T>(
    namespace: &TestNamespace<'_>,
    ip: &str,
    what: &str,
    probe: impl Fn(&VirtualIP) -> Result<T>,
) -> Result<T> {
    let outside = namespace.cluster().outside().await?;
    let vips = namespace.api::<VirtualIP>();
    let address: IpAddr = ip.parse()?;
    until(namespace, what, async || {
        let asking = outside.clone();
        tokio::task::spawn_blocking(move || pings(&asking, address, 3)).await??;
        probe(&vips.get(ip).await?).map(Some)
    })
    .await
}

/// The message of the condition `Reachable`, if it has this status and reason.
fn reachable(vip: &VirtualIP, status: &str, reason: &str) -> Result<String> {
    let condition = vip.condition("Reachable");
    let is_so = condition.filter(|it| it.status == status && it.reason == reason);
    let is_so = is_so.with_context(|| format!("it says {condition:?}"))?;
    Ok(is_so.message.clone())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_address_leaves_a_node_that_does_not_forward_its_packets() -> Result<()> {
    const IP: &str = "10.200.0.228";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "forwarding").await?;
    let first = three(&namespace, IP).await?;
    let node = holder(&first)?.node;
    let _closed = Firewall::close(&cluster, &node).await?;
    asked_until(&namespace, IP, "it leaves the node", |vip| {
        ensure!(holder(vip)?.node != node, "{node} has it");
        Ok(())
    })
    .await?;
    moved(&namespace, &first, "CannotServe").await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_node_that_does_not_forward_keeps_what_no_other_node_can_have_and_reports_it()
-> Result<()> {
    const IP: &str = "10.200.0.239";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "only-one").await?;
    namespace.apply(&web("only", "node-2", &claim(IP)).to_string())?;
    namespace.ready_pods("app=web", 1, LIMIT).await?;
    let first = served(&namespace, IP, |_| true).await?;

    let closed = Firewall::close(&cluster, "node-2").await?;
    let message = asked_until(&namespace, IP, "it is not forwarded", |vip| {
        reachable(vip, "False", "NotForwarding")
    })
    .await?;
    ensure!(message.contains("inet firewall forward"), "{message}");
    drop(closed);
    asked_until(&namespace, IP, "it is forwarded again", |vip| {
        reachable(vip, "True", "Announced")
    })
    .await?;
    let after = served(&namespace, IP, |_| true).await?;
    assert_eq!(holder(&after)?.pod, holder(&first)?.pod, "it has not moved");
    Ok(())
}
