//! From where an address is reached: from outside, from every node, from pods beside the
//! holder and elsewhere, and from the holder itself.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::host::HostRef;
use kube::ResourceExt;
use serde_json::json;

use super::ground::{NODES_OF_PODS, holder, pings, three, together, web};
use crate::LIMIT;
use crate::http::get;

/// Everybody reaches the holder, and the answers come from the address that was asked.
fn reaches(from: &HostRef, ip: IpAddr, holder: &str) -> Result<String> {
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
    const IP: &str = "10.200.0.222";
    let cluster = together().await?;
    let namespace = TestNamespace::create(&cluster, "reach").await?;
    let ip: IpAddr = IP.parse()?;
    let holder = holder(&three(&namespace, IP).await?)?;
    for node in NODES_OF_PODS {
        let name = format!("guest-of-{node}");
        let mut guest = web(&name, node, &json!({}));
        guest["metadata"]["labels"] = json!({ "app": "guest" });
        namespace.apply(&guest.to_string())?;
    }
    let guests = namespace.ready_pods("app=guest", 3, LIMIT).await?;

    let outside = cluster.outside().await?;
    let answer = reaches(&outside, ip, &holder.pod)?;
    let seen = format!("server={} client=10.200.0.200", holder.addresses[0]);
    assert!(answer.contains(&seen), "{answer} lacks {seen}");
    for node in NODES_OF_PODS {
        reaches(&cluster.host(node).await?, ip, &holder.pod)?;
    }
    for guest in &guests {
        reaches(&cluster.pod_network(guest)?, ip, &holder.pod)?;
    }
    let webs = namespace.pods("app=web").await?;
    for web in &webs {
        let kind = if web.name_any() == holder.pod {
            "holder"
        } else {
            "candidate"
        };
        let network = cluster.pod_network(web)?;
        reaches(&network, ip, &holder.pod).map_err(|error| error.context(kind))?;
    }
    Ok(())
}
