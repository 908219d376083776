//! When pods go nothing of them stays on their node, and what floe did to the node
//! itself for all of them can be undone.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::host::{HostRef, sibling_program};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::api::Api;
use serde_json::json;

use crate::LIMIT;
use crate::holdings::{FAMILIES, holds, ips};
use crate::segment;
use crate::underlay::{answers, emptied, hardware, one_of_each, pod_on};

const NODE: &str = "node-3";
/// Its own address, and the bridge that floe makes.
const OWN: &str = "10.200.0.13/24";
const BRIDGE: &str = "docker";

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_node_is_as_it_was_after_its_pods_and_a_cleanup_and_serves_again() -> Result<()> {
    let cluster = segment::alone().await?;
    let namespace = TestNamespace::create(&cluster, "undone").await?;
    let (node, outside) = (cluster.host(NODE).await?, cluster.outside().await?);
    // Other tests were here.
    emptied(&cluster, NODE).await?;
    cleanup(&node)?;
    let bare = state(&node)?;
    // A controller may run here: what is attached for it stays.
    let of_system = attached(&node)?;
    assert_eq!(carrier(&node)?, "eth0");

    let mut traces = Vec::new();
    for (name, annotations) in [
        ("one", json!({})),
        ("both", json!({ FAMILIES: "v4,v6" })),
        (
            "three",
            one_of_each(&[
                "10.200.0.150~10.200.0.159",
                "10.200.0.160~10.200.0.169",
                "10.200.0.170~10.200.0.179",
            ]),
        ),
    ] {
        let pod = serve(&namespace, &outside, name, &annotations).await?;
        for ip in ips(&pod)? {
            // The address of IPv6 shares the interface of the other.
            traces.extend(hardware(&ip).ok());
            traces.push(ip);
        }
    }
    assert_eq!(traces.len(), 6 + 5, "{traces:?}");
    assert_eq!(carrier(&node)?, BRIDGE);
    let crowded = state(&node)?;
    assert!(crowded.contains("v-h"), "{crowded}");
    let present = everything(&node)?;
    for trace in &traces {
        assert!(has_word(&present, trace), "{trace} is nowhere:\n{present}");
    }

    // It is not pulled away under pods.
    let refusal = cleanup(&node).err().context("it is in use")?;
    let refusal = format!("{refusal:#}");
    assert!(refusal.contains("CleanupIncomplete"), "{refusal}");
    assert!(refusal.contains("in use by v-h"), "{refusal}");
    assert_eq!(state(&node)?, crowded, "nothing was touched");

    namespace.kubectl(&["delete", "pod", "one", "both", "three", "--timeout=60s"])?;
    holds(&namespace, 0).await?;
    let left = everything(&node)?;
    for trace in traces.iter().map(String::as_str).chain(["v-h", "v-s"]) {
        assert!(!has_word(&left, trace), "{trace} is left:\n{left}");
    }
    assert_eq!(attached(&node)?, of_system);

    let before = readiness(&cluster).await?;
    let told = cleanup(&node)?;
    let moved = format!("done: move addresses and routes back from {BRIDGE} to eth0");
    assert!(told.contains(&moved), "{told}");
    assert_eq!(state(&node)?, bare);
    assert_eq!(carrier(&node)?, "eth0");
    heartbeat(&cluster).await?;
    assert_eq!(
        readiness(&cluster).await?,
        before,
        "it was Ready all the time"
    );
    assert_eq!(cleanup(&node)?.trim(), "nothing to undo");

    serve(&namespace, &outside, "next", &json!({})).await?;
    assert_eq!(carrier(&node)?, BRIDGE);
    heartbeat(&cluster).await?;
    assert_eq!(
        readiness(&cluster).await?,
        before,
        "it was Ready all the time"
    );
    Ok(())
}

/// A pod on the node, which answers at all its addresses.
async fn serve(
    namespace: &TestNamespace<'_>,
    outside: &HostRef,
    name: &str,
    annotations: &serde_json::Value,
) -> Result<Pod> {
    namespace.apply(&pod_on(NODE, name, annotations).to_string())?;
    let pods = namespace
        .ready_pods(&format!("app={name}"), 1, LIMIT)
        .await?;
    let pod = pods.into_iter().next().context("there is one")?;
    for ip in ips(&pod)? {
        answers(outside, name, &ip)?;
    }
    Ok(pod)
}

/// Runs `floe-agent cleanup` on a node, and returns what it tells; when it fails,
/// in the error.
fn cleanup(node: &HostRef) -> Result<String> {
    let program = sibling_program("floe-agent")?;
    let script = format!("{} cleanup 2>&1 && echo undone || true", program.display());
    let told = node.shell(&script)?;
    let told = told.trim_end();
    let done = told.strip_suffix("undone");
    Ok(done.with_context(|| told.to_owned())?.to_owned())
}

/// The links, addresses, routes, rules and neighbours that somebody has set up, and
/// floe's files.
fn state(node: &HostRef) -> Result<String> {
    let mut state = String::new();
    for (what, script) in [
        (
            "links",
            "ip -o link show | sed 's/^[0-9]*: //; s/\\\\.*//; s/ qdisc .*//'",
        ),
        ("alias", "ip link show | grep -w alias || true"),
        (
            "addresses",
            "ip -o address show | awk '{ print $2, $3, $4 }'",
        ),
        ("routes", "ip route show"),
        ("routes of IPv6", "ip -6 route show"),
        ("rules", "ip rule show; ip -6 rule show"),
        (
            "neighbours",
            "ip neighbour show nud permanent; ip neighbour show proxy",
        ),
        (
            "files",
            "find /var/lib/cni/galaxy /var/lib/cni/floe -type f 2>/dev/null || true",
        ),
    ] {
        let text = node.shell(script)?;
        let mut lines: Vec<_> = text.lines().map(str::trim_end).collect();
        lines.sort_unstable();
        // Writing to a String cannot fail.
        let _ = writeln!(state, "{what}:\n  {}", lines.join("\n  "));
    }
    Ok(state)
}

/// All that can be asked about the node's network, and floe's files with their content.
fn everything(node: &HostRef) -> Result<String> {
    node.shell(
        "ip -d link show; ip address show; ip route show table all; ip -6 route show table all
         ip rule show; ip -6 rule show; ip neighbour show; ip neighbour show proxy
         ip -6 neighbour show proxy; bridge fdb show; bridge link show
         find /var/lib/cni/galaxy /var/lib/cni/floe -type f -print -exec cat {} +",
    )
}

/// The containers for which something is attached.
fn attached(node: &HostRef) -> Result<String> {
    node.shell("find /var/lib/cni/galaxy -type f 2>/dev/null | sort")
}

/// The link that has the node's own address.
fn carrier(node: &HostRef) -> Result<String> {
    let script = "ip -o -4 address show scope global | awk '{ print $2, $4 }'";
    let shown = node.shell(script)?;
    let carriers = shown.lines().filter_map(|line| line.strip_suffix(OWN));
    let carriers: Vec<_> = carriers.map(str::trim).collect();
    ensure!(carriers.len() == 1, "{OWN} is on {carriers:?}");
    Ok(carriers[0].to_owned())
}

/// Whether a text has an address or the beginning of a name, and not only a longer
/// address that begins alike.
fn has_word(text: &str, trace: &str) -> bool {
    text.match_indices(trace).any(|(at, _)| {
        let rest = &text[at + trace.len()..];
        !rest.starts_with(|c: char| c.is_ascii_hexdigit()) || trace.starts_with("v-")
    })
}

/// Since when the node is Ready.
async fn readiness(cluster: &Cluster) -> Result<Option<Time>> {
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    let status = nodes.get(NODE).await?.status;
    let conditions = status.and_then(|status| status.conditions);
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions
        .find(|it| it.type_ == "Ready")
        .context("it has no condition")?;
    ensure!(ready.status == "True", "it is {ready:?}");
    Ok(ready.last_transition_time)
}

/// Waits until the kubelet has reached the API server twice from now on: that it did
/// so once may be from before.
async fn heartbeat(cluster: &Cluster) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(cluster.client().await?, "kube-node-lease");
    let renewed = async || -> Result<Option<MicroTime>> {
        Ok(leases
            .get(NODE)
            .await?
            .spec
            .and_then(|spec| spec.renew_time))
    };
    for _ in 0..2 {
        let last = renewed().await?;
        wait::until("the node renews its lease", LIMIT, async || {
            Ok((renewed().await? > last).then_some(()))
        })
        .await?;
    }
    Ok(())
}
