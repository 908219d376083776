//! Objects that people make: one address out of a range for pods of a label, moves on
//! request, and addresses of both families that move together.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result, ensure};
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::floe::agent;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::ground::{NODES_OF_PODS, alone, holder, moved, seen, served, status, together, webs};
use crate::LIMIT;
use crate::holdings::{FAMILIES, told};
use crate::moving::bridges;
use crate::underlay;

/// An object for the pods of the label `app=web`.
fn object(name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": name }, "spec": spec,
    });
    object["spec"]["selector"] = json!({ "matchLabels": { "app": "web" } });
    object
}

/// The candidate that does not hold an object.
fn another(vip: &VirtualIP) -> Result<String> {
    let holder = holder(vip)?;
    let candidates = status(vip).candidates.into_iter();
    let mut others = candidates.filter(|it| it.uid != holder.uid);
    Ok(others.next().context("there is one candidate only")?.pod)
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_object_gets_an_address_of_its_range_and_moves_as_it_is_told() -> Result<()> {
    const RANGE: &str = "10.200.0.219~10.200.0.220";
    let cluster = together().await?;
    let namespace = TestNamespace::create(&cluster, "ranges").await?;
    webs(&namespace, &json!({})).await?;
    namespace.apply(&object("shop", &json!({ "ranges": [RANGE] })).to_string())?;
    let all = |vip: &VirtualIP| status(vip).candidates.len() == 3;
    let first = served(&namespace, "shop", all).await?;
    let [IpAddr::V4(ip)] = status(&first).addresses[..] else {
        panic!("it has {:?}", status(&first).addresses);
    };
    let range = Ipv4Addr::new(10, 200, 0, 219)..=Ipv4Addr::new(10, 200, 0, 220);
    assert!(range.contains(&ip), "{ip}");

    let wanted = another(&first)?;
    let wish = format!("floe.dev/move-to={wanted}");
    namespace.kubectl(&["annotate", "vip", "shop", &wish])?;
    let second = moved(&namespace, &first, "Requested").await?;
    assert_eq!(holder(&second)?.pod, wanted);
    assert_eq!(status(&second).addresses, status(&first).addresses);
    let heard = |vip: &VirtualIP| !vip.annotations().contains_key("floe.dev/move-to");
    seen(&namespace, "shop", "has no wish left", heard).await?;

    // A wish that cannot be is told and taken off.
    namespace.kubectl(&["annotate", "vip", "shop", "floe.dev/move-to=nobody"])?;
    told(&namespace, "shop", "MoveToNoCandidate", "pod nobody").await?;
    let same = seen(&namespace, "shop", "has no wish left", heard).await?;
    assert_eq!(status(&same).moves, status(&second).moves);
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn addresses_of_both_families_are_in_one_pod_and_move_together() -> Result<()> {
    const IPS: [&str; 2] = ["10.200.0.221", "fd00:200::221"];
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "families").await?;
    duals(&namespace).await?;
    namespace.apply(&object("both", &json!({ "addresses": IPS })).to_string())?;
    let all = |vip: &VirtualIP| status(vip).candidates.len() == 3;
    let first = served(&namespace, "both", all).await?;
    has_both(&namespace, &first, &IPS).await?;

    let pod = holder(&first)?.pod;
    namespace.kubectl(&["delete", "pod", &pod, "--wait=false"])?;
    let second = moved(&namespace, &first, "PodDeleted").await?;
    has_both(&namespace, &second, &IPS).await?;

    let wish = format!("floe.dev/move-to={}", another(&second)?);
    namespace.kubectl(&["annotate", "vip", "both", &wish])?;
    let third = moved(&namespace, &second, "Requested").await?;
    has_both(&namespace, &third, &IPS).await
}

/// Runs a pod with addresses of both families on each node, and waits until all are ready.
pub async fn duals(namespace: &TestNamespace<'_>) -> Result<()> {
    // The first such pod of a node has its agent lose contact for a moment.
    bridges(namespace).await?;
    agent::wait_until_ready(namespace.cluster())?;
    for (number, node) in (1..).zip(NODES_OF_PODS) {
        let name = format!("dual-{number}");
        let mut pod = underlay::pod_on(node, &name, &json!({ FAMILIES: "v4,v6" }));
        pod["metadata"]["labels"] = json!({ "app": "web" });
        pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
        namespace.apply(&pod.to_string())?;
    }
    namespace.ready_pods("app=web", 3, LIMIT).await?;
    Ok(())
}

/// Checks that the holder has the addresses itself, and nobody else has them.
async fn has_both(namespace: &TestNamespace<'_>, vip: &VirtualIP, ips: &[&str]) -> Result<()> {
    let holder = holder(vip)?;
    assert_eq!(
        holder.mode, "direct",
        "replies of such pods bypass the host"
    );
    for pod in namespace.pods("app=web").await? {
        if pod.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let network = namespace.cluster().pod_network(&pod)?;
        let shown = underlay::shown(&network)?;
        let has = |ip: &str| {
            let words = [format!("eth0 {ip}/32"), format!("eth0 {ip}/128")];
            shown.iter().any(|it| words.contains(it))
        };
        let found = ips.iter().filter(|ip| has(ip)).count();
        let wanted = if is(&pod, &holder.pod) { ips.len() } else { 0 };
        ensure!(found == wanted, "{} has {shown:?}", pod.name_any());
    }
    // The pod sees the address itself.
    let outside = namespace.cluster().outside().await?;
    for ip in ips {
        underlay::answers(&outside, &holder.pod, ip)?;
    }
    Ok(())
}

fn is(pod: &Pod, name: &str) -> bool {
    pod.name_any() == name
}
