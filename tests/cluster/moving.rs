//! A pod that moves to another node takes its address along, and the segment finds it
//! there without being asked to look.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use floe_testbed::cluster::namespace::{TestNamespace, is_ready};
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::supervisor::addresses::Seat;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::{POLICY, addresses};
use crate::http::get;
use crate::underlay::{hardware, neighbour};
use crate::witness::{Poll, seen_at};
use crate::{racks, segment};

/// A `StatefulSet` of one pod that keeps its address and ends at once, in a network.
pub fn database(name: &str, network: &str) -> Value {
    let annotations = json!({ POLICY: "immutable", "k8s.v1.cni.cncf.io/networks": network });
    let mut database = racks::workload("StatefulSet", name, 1, &annotations);
    database["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(1);
    database
}

/// The node of a pod that has one.
pub fn node_of(pod: &Pod) -> Result<String> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    node.with_context(|| format!("{} runs nowhere", pod.name_any()))
}

/// Waits until another pod of that name is Ready.
pub async fn successor(namespace: &TestNamespace<'_>, of: &Pod) -> Result<Pod> {
    let name = of.name_any();
    wait::until(&format!("{name} runs again"), LIMIT, async || {
        let pod = namespace.api::<Pod>().get(&name).await?;
        Ok((is_ready(&pod) && pod.uid() != of.uid()).then_some(pod))
    })
    .await
}

/// Makes the bridge on every node, as the first bridged pod of a node does. The pods
/// stay as long as their namespace.
pub async fn bridges(namespace: &TestNamespace<'_>) -> Result<()> {
    for node in ["node-1", "node-2", "node-3"] {
        let pod = crate::underlay::pod_on(node, &format!("first-of-{node}"), &json!({}));
        namespace.apply(&pod.to_string())?;
    }
    for node in ["node-1", "node-2", "node-3"] {
        let first = format!("app=first-of-{node}");
        namespace.ready_pods(&first, 1, LIMIT).await?;
    }
    Ok(())
}

/// A node that takes no new pods until this is dropped.
struct Cordoned<'a> {
    cluster: &'a Cluster,
    node: String,
}

impl<'a> Cordoned<'a> {
    fn new(namespace: &'a TestNamespace<'_>, node: String) -> Result<Self> {
        namespace.kubectl(&["cordon", &node])?;
        let cluster = namespace.cluster();
        Ok(Self { cluster, node })
    }
}

impl Drop for Cordoned<'_> {
    fn drop(&mut self) {
        // If it fails, the tests after this one say so.
        let _ = self
            .cluster
            .kubectl()
            .args(["uncordon", &self.node])
            .output();
    }
}

/// Has a pod leave its node.
async fn moved(namespace: &TestNamespace<'_>, pod: &Pod) -> Result<Pod> {
    let from = node_of(pod)?;
    let _cordoned = Cordoned::new(namespace, from.clone())?;
    namespace.kubectl(&["delete", "pod", &pod.name_any(), "--wait=false"])?;
    let moved = successor(namespace, pod).await?;
    assert_ne!(node_of(&moved)?, from);
    Ok(moved)
}

/// Moves the only pod of a new database twice: at first while the outside host is
/// silent, then while it asks all the time. `on_wire` is the hardware address that the
/// segment sees, of an address and of the node it is on.
async fn a_database_moves(
    namespace: &TestNamespace<'_>,
    network: &str,
    on_wire: impl Fn(&str, &str) -> Result<String>,
) -> Result<()> {
    let cluster = namespace.cluster();
    let outside = cluster.outside().await?;
    namespace.apply(&database("db", network).to_string())?;
    let held = addresses(namespace, "app=db", 1).await?;
    let ip = &held["db-0"];
    let address: IpAddr = ip.parse()?;
    let to = SocketAddr::new(address, 80);
    let pods = namespace.pods("app=db").await?;
    let first = pods.first().context("it was Ready")?;
    get(&outside, to)?;
    let mac = on_wire(ip, &node_of(first)?)?;
    assert_eq!(neighbour(&outside, ip)?, mac);
    assert_eq!(seen_at(cluster, &mac).await?, node_of(first)?);

    // The outside host says nothing, and is told nevertheless.
    let second = moved(namespace, first).await?;
    assert_eq!(addresses(namespace, "app=db", 1).await?, held);
    let mac = on_wire(ip, &node_of(&second)?)?;
    assert_eq!(neighbour(&outside, ip)?, mac, "before anybody asked");
    assert_eq!(seen_at(cluster, &mac).await?, node_of(&second)?);
    let answer = get(&outside, to)?;
    assert!(
        answer.contains(&format!("pod=db-0 server={ip} ")),
        "{answer}"
    );

    let poll = Poll::begin(&outside, address)?;
    let third = moved(namespace, &second).await?;
    wait::until("the outside host reaches it again", LIMIT, async || {
        get(&outside, to).map(Some)
    })
    .await?;
    let silence = poll.longest_silence()?;
    assert_eq!(addresses(namespace, "app=db", 1).await?, held);
    let mac = on_wire(ip, &node_of(&third)?)?;
    assert_eq!(neighbour(&outside, ip)?, mac);
    assert_eq!(seen_at(cluster, &mac).await?, node_of(&third)?);
    eprintln!(
        "{network}: {ip} moved from {} to {} and was away for {} ms",
        node_of(&second)?,
        node_of(&third)?,
        silence.as_millis()
    );
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn moving_a_bridged_pod_takes_its_address_along_and_the_switch_finds_it() -> Result<()> {
    let cluster = segment::alone().await?;
    let namespace = TestNamespace::create(&cluster, "moving").await?;
    // Its hardware address moves with it.
    a_database_moves(&namespace, "galaxy-k8s-vlan", |ip, _| hardware(ip)).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn moving_a_routed_pod_moves_the_neighbour_entries_of_others_to_the_new_node() -> Result<()> {
    let cluster = segment::alone().await?;
    let namespace = TestNamespace::create(&cluster, "moving").await?;
    bridges(&namespace).await?;
    a_database_moves(&namespace, "routed", |_, node| {
        let seats = (1..=3).map(Seat::Node);
        let seat = seats.into_iter().find(|seat| seat.name() == node);
        Ok(seat.with_context(|| format!("no seat {node}"))?.mac())
    })
    .await
}
