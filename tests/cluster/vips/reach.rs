//! From where an address is reached, and by which protocols: from outside, from every node,
//! from pods beside the holder and elsewhere, and from the holder itself.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, ensure};
use floe_api::floe::virtualip::{Holding, VirtualIP};
use floe_net::conntrack;
use floe_testbed::cluster::Cluster;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::host::HostRef;
use kube::ResourceExt;
use serde_json::json;

use super::ground::{
    NODES_OF_PODS, claim, holder, pings, seen, served, status, three, together, until, web, webs,
};
use super::raw::{self, Echo, PROTOCOLS};
use crate::LIMIT;
use crate::http::get;

const IP: &str = "10.200.0.222";

/// Somebody reaches the holder. An address that moves meanwhile is asked again: a machine
/// that is too busy to renew a lease in time has it moved, and that is not the matter here.
async fn reaches(namespace: &TestNamespace<'_>, from: &HostRef) -> Result<(Holding, String)> {
    let vips = namespace.api::<VirtualIP>();
    let mut tries = 0;
    loop {
        let before = served(namespace, IP, |_| true).await?;
        let holder = holder(&before)?;
        let asked = asks(from, IP.parse()?, &holder);
        let after = vips.get(IP).await?;
        let is_same = status(&after)
            .holder
            .is_some_and(|it| it.term == holder.term)
            && status(&after).moves == status(&before).moves;
        tries += 1;
        if is_same || tries == 5 {
            return Ok((holder, asked?));
        }
    }
}

/// Asks the holder; the answers come from the address that was asked.
fn asks(from: &HostRef, ip: IpAddr, holder: &Holding) -> Result<String> {
    // A connection is one only if the answers come from where it leads to; and ping names
    // whom it has heard.
    let answer = get(from, SocketAddr::new(ip, 80))?;
    let expected = format!("pod={} ", holder.pod);
    ensure!(answer.contains(&expected), "{} gets {answer:?}", from.name);
    let answers = pings(from, ip, 5)?;
    ensure!(
        answers == 5,
        "{answers} of 5 pings of {} are answered",
        from.name
    );
    for protocol in PROTOCOLS {
        let answer = raw::ask(from, ip, protocol)?;
        let found = (answer.source, answer.name.as_str());
        ensure!(
            found == (ip, holder.pod.as_str()),
            "{}, protocol {protocol}: {answer:?}",
            from.name
        );
    }
    Ok(answer)
}

/// Has the kernels of all nodes forget who asked.
async fn forget(cluster: &Cluster) -> Result<()> {
    let all = BTreeSet::from([IP.parse()?]);
    for node in NODES_OF_PODS {
        let network = cluster.host(node).await?.network()?;
        network.run(|| conntrack::forget(&all).map_err(io::Error::other))?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn nodes_and_pods_of_all_nodes_and_the_holder_itself_reach_the_holder_by_any_protocol()
-> Result<()> {
    let cluster = together().await?;
    let namespace = TestNamespace::create(&cluster, "reach").await?;
    three(&namespace, IP).await?;
    for node in NODES_OF_PODS {
        let name = format!("guest-of-{node}");
        let mut guest = web(&name, node, &json!({}));
        guest["metadata"]["labels"] = json!({ "app": "guest" });
        namespace.apply(&guest.to_string())?;
    }
    let guests = namespace.ready_pods("app=guest", 3, LIMIT).await?;
    let webs = namespace.pods("app=web").await?;
    let mut echoes = Vec::new();
    for web in &webs {
        let network = cluster.pod_network(web)?;
        echoes.push(Echo::start(&network, &web.name_any())?);
    }

    let outside = cluster.outside().await?;
    let (holder, answer) = reaches(&namespace, &outside).await?;
    let seen = format!("server={} client=10.200.0.200", holder.addresses[0]);
    assert!(answer.contains(&seen), "{answer} lacks {seen}");
    let seen = raw::ask(&outside, IP.parse()?, 253)?.seen;
    assert_eq!(seen, IpAddr::from([10, 200, 0, 200]), "the client itself");
    // Those on the node of the holder are seen with one address, by which alone the kernel
    // tells protocols without ports apart: they take turns.
    for node in NODES_OF_PODS {
        reaches(&namespace, &cluster.host(node).await?).await?;
    }
    forget(&cluster).await?;
    for guest in &guests {
        reaches(&namespace, &cluster.pod_network(guest)?).await?;
    }
    forget(&cluster).await?;
    let mut itself = false;
    for web in &webs {
        let network = cluster.pod_network(web)?;
        let (holder, _) = reaches(&namespace, &network)
            .await
            .with_context(|| format!("from {}", web.name_any()))?;
        itself |= holder.uid == web.uid().unwrap_or_default();
    }
    ensure!(itself, "the holder itself was not asked");
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_address_of_no_interface_works_inside_of_the_cluster_and_says_so() -> Result<()> {
    const IP: &str = "172.30.0.10";
    let cluster = together().await?;
    let namespace = TestNamespace::create(&cluster, "inside").await?;
    webs(&namespace, &claim(IP)).await?;
    let inside_only = |vip: &VirtualIP| {
        let serves = vip
            .condition("Serving")
            .is_some_and(|it| it.status == "True");
        let reached = vip.condition("Reachable");
        serves && reached.is_some_and(|it| it.status == "False" && it.reason == "NoInterface")
    };
    seen(&namespace, IP, "is reachable from inside only", inside_only).await?;
    let mut places = Vec::new();
    for node in NODES_OF_PODS {
        places.push(cluster.host(node).await?);
    }
    for web in namespace.pods("app=web").await? {
        places.push(cluster.pod_network(&web)?);
    }
    let vips = namespace.api::<VirtualIP>();
    for place in places {
        // An agent elsewhere may hear of the holder a moment later than this test.
        let what = format!("{} reaches {IP}", place.name);
        until(&namespace, &what, async || {
            let holder = holder(&vips.get(IP).await?)?.pod;
            let answer = get(&place, SocketAddr::new(IP.parse()?, 80))?;
            ensure!(answer.contains(&format!("pod={holder} ")), "{answer:?}");
            Ok(Some(()))
        })
        .await?;
    }
    let outside = cluster.outside().await?;
    let answer = get(&outside, SocketAddr::new(IP.parse()?, 80));
    assert!(answer.is_err(), "nobody told it to outside: {answer:?}");
    Ok(())
}
