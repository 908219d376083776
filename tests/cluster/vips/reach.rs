//! From where an address is reached: from outside, from every node, from pods beside the
//! holder and elsewhere, and from the holder itself.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, ensure};
use floe_api::floe::virtualip::{Holding, VirtualIP};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::host::HostRef;
use kube::ResourceExt;
use serde_json::json;

use super::ground::{NODES_OF_PODS, holder, pings, served, status, three, together, web};
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
        let asked = asks(from, IP.parse()?, &holder.pod);
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
fn asks(from: &HostRef, ip: IpAddr, holder: &str) -> Result<String> {
    // A connection is one only if the answers come from where it leads to; and ping names
    // whom it has heard.
    let answer = get(from, SocketAddr::new(ip, 80))?;
    let expected = format!("pod={holder} ");
    ensure!(answer.contains(&expected), "{} gets {answer:?}", from.name);
    let answers = pings(from, ip, 5)?;
    ensure!(
        answers == 5,
        "{answers} of 5 pings of {} are answered",
        from.name
    );
    Ok(answer)
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn nodes_and_pods_of_all_nodes_and_the_holder_itself_reach_the_holder() -> Result<()> {
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

    let outside = cluster.outside().await?;
    let (holder, answer) = reaches(&namespace, &outside).await?;
    let seen = format!("server={} client=10.200.0.200", holder.addresses[0]);
    assert!(answer.contains(&seen), "{answer} lacks {seen}");
    for node in NODES_OF_PODS {
        reaches(&namespace, &cluster.host(node).await?).await?;
    }
    for guest in &guests {
        reaches(&namespace, &cluster.pod_network(guest)?).await?;
    }
    let webs = namespace.pods("app=web").await?;
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
