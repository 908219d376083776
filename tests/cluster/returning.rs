//! A node that was away comes back with a pod whose address another node has by now:
//! it takes the address off by itself, and only the new pod answers.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use floe_testbed::host::HostRef;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use serde_json::json;

use crate::LIMIT;
use crate::holdings::{addresses, ip, told};
use crate::moving::{bridges, database, node_of, successor};
use crate::segment;
use crate::underlay::{answers, shown};
use crate::witness::{Poll, claimants};

/// A pod on the node that goes away, and its successor elsewhere.
struct Pair {
    name: String,
    ip: Ipv4Addr,
    old: HostRef,
    new: Pod,
    poll: Poll,
}

/// When two answered for one address, counted from the return of the node.
#[derive(Default)]
struct Both {
    first: Option<Duration>,
    last: Duration,
}

/// A node without the leader of the controllers, whose loss delays others least.
async fn node_without_leader(cluster: &Cluster) -> Result<String> {
    let leader = floe::leader(cluster, LIMIT).await?;
    let floes: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let leads = node_of(&floes.get(&leader).await?)?;
    let nodes = ["node-1", "node-2", "node-3"].map(str::to_owned);
    let other = nodes.into_iter().find(|node| *node != leads);
    other.context("there are three nodes")
}

/// Runs a database on a node, if that is there.
async fn on_node(
    namespace: &TestNamespace<'_>,
    name: &str,
    network: &str,
    node: &str,
) -> Result<Pod> {
    let mut database = database(name, network);
    database["spec"]["template"]["spec"]["affinity"] = json!({ "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 100, "preference": {
            "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": [node] }],
        } }],
    } });
    namespace.apply(&database.to_string())?;
    addresses(namespace, &format!("app={name}"), 1).await?;
    let pod = namespace.api::<Pod>().get(&format!("{name}-0")).await?;
    ensure!(node_of(&pod)? == node, "{name} runs on {}", node_of(&pod)?);
    Ok(pod)
}

/// Replaces a pod of a node that cannot be asked.
async fn replace(namespace: &TestNamespace<'_>, old: &Pod) -> Result<Pair> {
    let cluster = namespace.cluster();
    let (name, address) = (old.name_any(), ip(old)?);
    let network = cluster.pod_network(old)?;
    namespace.kubectl(&["delete", "pod", &name, "--force", "--grace-period=0"])?;
    let new = successor(namespace, old).await?;
    ensure!(node_of(&new)? != node_of(old)? && ip(&new)? == address);
    let outside = cluster.outside().await?;
    answers(&outside, &name, &address)?;
    ensure!(has(&network, &address)?, "nobody could tell the old node");
    Ok(Pair {
        name,
        ip: address.parse()?,
        old: network,
        new,
        poll: Poll::begin(&outside, address.parse::<IpAddr>()?)?,
    })
}

/// Whether a pod's network has an address.
fn has(network: &HostRef, ip: &str) -> Result<bool> {
    let address = format!("eth0 {ip}/24");
    Ok(shown(network)?.contains(&address))
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn returning_after_its_pods_were_replaced_a_node_gives_their_addresses_up_at_once()
-> Result<()> {
    let cluster = segment::alone().await?;
    let namespace = TestNamespace::create(&cluster, "returning").await?;
    let outside = cluster.outside().await?;
    bridges(&namespace).await?;
    let node = node_without_leader(&cluster).await?;
    let bridged = on_node(&namespace, "bridged", "galaxy-k8s-vlan", &node).await?;
    let routed = on_node(&namespace, "routed", "routed", &node).await?;

    cluster.pull_cable(&node).await?;
    cluster.wait_for_node(&node, false, LIMIT).await?;
    let pairs = [
        replace(&namespace, &bridged).await?,
        replace(&namespace, &routed).await?,
    ];
    // The kubelet would end the pods as soon as it can ask. This is about the time
    // before, and about nodes whose kubelet does not come back.
    cluster.kill(&node, "kubelet").await?;

    let back = Instant::now();
    cluster.plug_cable(&node).await?;
    let mut both = [Both::default(), Both::default()];
    let taken_off = wait::until("only the new pods answer", LIMIT, async || {
        let mut alone = 0;
        for (pair, both) in pairs.iter().zip(&mut both) {
            let found = claimants(&outside, pair.ip)?;
            if found.len() > 1 {
                both.last = back.elapsed();
                both.first.get_or_insert(both.last);
            }
            alone += usize::from(found.len() == 1 && !has(&pair.old, &pair.ip.to_string())?);
        }
        Ok((alone == pairs.len()).then(|| back.elapsed()))
    })
    .await?;
    for (pair, both) in pairs.into_iter().zip(both) {
        let Pair {
            name,
            ip,
            new,
            poll,
            ..
        } = pair;
        let text = format!("{ip} belongs to");
        told(&namespace, &name, "AddressMovedAway", &text).await?;
        answers(&outside, &name, &ip.to_string())?;
        assert_eq!(claimants(&outside, ip)?.len(), 1);
        assert_eq!(namespace.api::<Pod>().get(&name).await?.uid(), new.uid());
        // It may have been quicker than the first question.
        let when = both.first.map_or_else(
            || "never both answered".to_owned(),
            |first| {
                format!(
                    "both answered {} to {} ms",
                    first.as_millis(),
                    both.last.as_millis()
                )
            },
        );
        let pause = poll.longest_silence()?.as_millis();
        eprintln!("{name}: {when} after the cable was plugged in, with pauses of up to {pause} ms");
    }
    eprintln!("all was taken off after {} ms", taken_off.as_millis());
    cluster.start(&node, "kubelet").await?;
    cluster.wait_for_node(&node, true, LIMIT).await
}
