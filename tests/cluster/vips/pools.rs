//! Pools without a cloud: an address is kept on nodes by their agents, and follows the pods
//! that the pool asks for. Programs of the host are reached at it, and on the wire only one
//! node ever speaks for it.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, ensure};
use floe_api::flipop::pool::FloatingIPPool;
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::{self, agent};
use serde_json::{Value, json};

use super::ground::{NODES_OF_PODS, alone, holder, leading_node, make_ready, status, web};
use super::standstill::{Frozen, agent_process};
use super::wire::Wire;
use crate::LIMIT;
use crate::http::get;

const V4: &str = "10.200.0.238";
const FROZEN: &str = "10.200.0.237";
const V6: &str = "fd00:200::227";
const OBJECT4: &str = "l2-10.200.0.238";
const OBJECT6: &str = "l2-fd00-0200-0000-0000-0000-0000-0000-0227";

/// A web server on the network of its node.
fn server(node: &str) -> Value {
    let number = node.trim_start_matches("node-");
    let mut pod = web(&format!("web-{number}"), node, &json!({}));
    pod["spec"]["hostNetwork"] = true.into();
    pod
}

fn pool(namespace: &TestNamespace<'_>, ips: &[&str]) -> Value {
    json!({
        "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool",
        "metadata": { "name": "edge" },
        "spec": {
            "provider": "l2", "ips": ips,
            "match": { "podNamespace": namespace.name(), "podLabel": "app=web" },
        },
    })
}

fn web_of(node: &str) -> String {
    node.replace("node-", "web-")
}

/// Waits until an address is active on a node as `wanted`, says so itself, and whoever listens
/// on that node is reached at it from outside.
async fn served(
    namespace: &TestNamespace<'_>,
    (ip, object): (&str, &str),
    wanted: impl Fn(&str) -> bool,
) -> Result<String> {
    let outside = namespace.cluster().outside().await?;
    let (pools, vips) = (
        namespace.api::<FloatingIPPool>(),
        namespace.api::<VirtualIP>(),
    );
    let at: IpAddr = ip.parse()?;
    wait::until(&format!("{ip} is served"), LIMIT, async || {
        let pool = pools.get("edge").await?.status.unwrap_or_default();
        let told = pool.ips.get(ip).cloned().unwrap_or_default();
        let vip = vips.get(object).await?;
        let held = holder(&vip).with_context(|| format!("the pool says {pool:?}"))?;
        ensure!(wanted(&held.node), "{} has it", held.node);
        ensure!(
            told.state == "active" && told.node_name == held.node,
            "{} has it, and the pool says {told:?}",
            held.node
        );
        ensure!(held.mode == "node", "{held:?}");
        let answer = get(&outside, SocketAddr::new(at, 80))?;
        // The program itself sees the address.
        ensure!(
            answer.contains(&format!("server={ip} ")),
            "it says {answer:?}"
        );
        for kind in ["Serving", "Reachable"] {
            let said = vip.condition(kind);
            ensure!(said.is_some_and(|it| it.status == "True"), "{said:?}");
        }
        Ok(Some(held.node))
    })
    .await
}

/// The addresses of the loopback link of a node.
async fn own_of(cluster: &Cluster, node: &str) -> Result<String> {
    let host = cluster.host(node).await?;
    host.network_script("ip -o addr show dev lo")
}

/// The nodes that have an address themselves, which then neither sends from it nor has a
/// subnet by it.
async fn owners(cluster: &Cluster, ip: &str) -> Result<Vec<&'static str>> {
    let mut owners = Vec::new();
    for node in NODES_OF_PODS {
        let all = own_of(cluster, node).await?;
        let length = if ip.contains(':') { 128 } else { 32 };
        let Some(line) = all.lines().find(|it| it.contains(&format!(" {ip}/"))) else {
            continue;
        };
        for word in [&format!("{ip}/{length} ") as &str, "deprecated"] {
            ensure!(line.contains(word), "{line}");
        }
        ensure!(!line.contains("forever"), "{line}");
        owners.push(node);
    }
    Ok(owners)
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_address_of_a_pool_without_a_cloud_follows_pods_and_nodes() -> Result<()> {
    const OTHER: &str = "10.200.0.101";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "edge").await?;
    for node in NODES_OF_PODS {
        namespace.apply(&server(node).to_string())?;
    }
    namespace.ready_pods("app=web", 3, LIMIT).await?;
    namespace.apply(&pool(&namespace, &[V4, V6]).to_string())?;
    let (four, six) = ((V4, OBJECT4), (V6, OBJECT6));
    let first = served(&namespace, four, |_| true).await?;
    let sixth = served(&namespace, six, |_| true).await?;
    assert_eq!(owners(&cluster, V4).await?, [first.as_str()]);
    assert_eq!(owners(&cluster, V6).await?, [sixth.as_str()]);
    let wire = Wire::listen(&namespace, &[(OBJECT4, &[V4]), (OBJECT6, &[V6])]).await?;
    wire.hears(&first, LIMIT).await?;

    // The pod that makes the node fit is not ready.
    make_ready(&namespace, &web_of(&first), false)?;
    let second = served(&namespace, four, |node| node != first).await?;
    assert_eq!(owners(&cluster, V4).await?, [second.as_str()]);
    wire.hears(&second, LIMIT).await?;
    make_ready(&namespace, &web_of(&first), true)?;
    namespace.ready_pods("app=web", 3, LIMIT).await?;
    people_see_it(&namespace, &second)?;

    // The node loses its power.
    let leading = leading_node(&cluster).await?;
    let moves = status(&namespace.api::<VirtualIP>().get(OBJECT4).await?).moves;
    cluster.power_off(&second).await?;
    let third = served(&namespace, four, |node| node != second).await?;
    wire.hears(&third, LIMIT).await?;
    served(&namespace, six, |node| node != second).await?;
    cluster.power_on(&second).await?;
    cluster.wait_for_node(&second, true, LIMIT).await?;
    agent::wait_until_ready(&cluster)?;
    if leading == second {
        floe::wait_until_ready(&cluster)?;
    }
    let vip = namespace.api::<VirtualIP>().get(OBJECT4).await?;
    ensure!(status(&vip).moves > moves, "{:?}", vip.status);
    for (ip, speakers) in wire.speakers().await? {
        let least = if ip.is_ipv4() { 3 } else { 1 };
        ensure!(speakers.len() >= least, "only {speakers:?} for {ip}");
    }

    // What nobody has set aside is refused, and the reason stands where people look; the
    // others stay where they are.
    namespace.apply(&pool(&namespace, &[V4, V6, OTHER]).to_string())?;
    let pools = namespace.api::<FloatingIPPool>();
    wait::until("it is refused", LIMIT, async || {
        let pool = pools.get("edge").await?.status.unwrap_or_default();
        let told = pool.ips.get(OTHER).cloned().unwrap_or_default();
        ensure!(told.error.contains("sets aside"), "{told:?}");
        Ok(Some(()))
    })
    .await?;
    served(&namespace, four, |_| true).await?;

    // An address that leaves the list, and a pool that goes, leave nothing.
    namespace.apply(&pool(&namespace, &[V6]).to_string())?;
    gone(&namespace, (V4, OBJECT4)).await?;
    served(&namespace, six, |_| true).await?;
    namespace.kubectl(&["delete", "floatingippool", "edge"])?;
    gone(&namespace, (V6, OBJECT6)).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_agent_that_stands_still_loses_the_address_of_its_node_and_is_silent() -> Result<()> {
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "edge-frozen").await?;
    for node in NODES_OF_PODS {
        namespace.apply(&server(node).to_string())?;
    }
    namespace.ready_pods("app=web", 3, LIMIT).await?;
    namespace.apply(&pool(&namespace, &[FROZEN]).to_string())?;
    let object = format!("l2-{FROZEN}");
    let first = served(&namespace, (FROZEN, &object), |_| true).await?;
    let wire = Wire::listen(&namespace, &[(&object, &[FROZEN])]).await?;
    wire.hears(&first, LIMIT).await?;
    let frozen = Frozen::new(agent_process(&cluster, &first).await?)?;
    // The kernel takes the address off by itself.
    wait::until("the node has it no more", LIMIT, async || {
        let has = owners(&cluster, FROZEN).await?.contains(&first.as_str());
        Ok((!has).then_some(()))
    })
    .await?;
    let second = served(&namespace, (FROZEN, &object), |node| node != first).await?;
    wire.hears(&second, LIMIT).await?;
    drop(frozen);
    agent::wait_until_ready(&cluster)?;
    assert_eq!(owners(&cluster, FROZEN).await?, [second.as_str()]);
    wire.had_one_speaker(2).await?;
    namespace.kubectl(&["delete", "floatingippool", "edge"])?;
    gone(&namespace, (FROZEN, &object)).await
}

/// What `kubectl get` shows of it.
fn people_see_it(namespace: &TestNamespace<'_>, node: &str) -> Result<()> {
    let row = namespace.kubectl(&["get", "vip", OBJECT4, "--no-headers"])?;
    ensure!(row.contains(&format!("node/{node}")), "{row}");
    Ok(())
}

/// Waits until an address has no object, is on no node, and nobody answers.
async fn gone(namespace: &TestNamespace<'_>, (ip, object): (&str, &str)) -> Result<()> {
    let cluster = namespace.cluster();
    let vips = namespace.api::<VirtualIP>();
    wait::until(&format!("{object} is gone"), LIMIT, async || {
        Ok(vips.get_opt(object).await?.is_none().then_some(()))
    })
    .await?;
    assert_eq!(owners(cluster, ip).await?, [""; 0]);
    let outside = cluster.outside().await?;
    let answer = get(&outside, SocketAddr::new(ip.parse()?, 80));
    ensure!(answer.is_err(), "somebody answers at {ip}: {answer:?}");
    Ok(())
}
