//! Pods whose addresses are on the segment of the nodes: how they are written, and
//! what others on the segment see of them.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use floe_testbed::host::HostRef;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::ARGS;
use crate::http::get;
use crate::racks;

/// A pod as the user document writes it, with more annotations.
pub fn pod(name: &str, annotations: &Value) -> Value {
    let mut pod = racks::pod(name, annotations);
    pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json!("galaxy-k8s-vlan");
    pod
}

/// The same, for one node.
pub fn pod_on(node: &str, name: &str, annotations: &Value) -> Value {
    let mut pod = pod(name, annotations);
    pod["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
    pod
}

/// The annotation that asks for one address of each range.
pub fn one_of_each(ranges: &[&str]) -> Value {
    let lists: Vec<_> = ranges.iter().map(|range| [range]).collect();
    json!({ ARGS: json!({ "request_ip_range": lists }).to_string() })
}

/// Waits until a node has no pods but those of the system: pods of tests before may
/// still be going.
pub async fn emptied(cluster: &Cluster, node: &str) -> Result<()> {
    let pods: Api<Pod> = Api::all(cluster.client().await?);
    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    wait::until(&format!("{node} is empty"), LIMIT, async || {
        let found = pods.list(&here).await?.items.into_iter();
        let others = found.filter(|pod| pod.namespace().as_deref() != Some(floe::NAMESPACE));
        let others: Vec<_> = others.map(|pod| pod.name_any()).collect();
        ensure!(others.is_empty(), "it has {others:?}");
        Ok(Some(()))
    })
    .await
}

/// Asks for a page at an address, which has to come from this pod and from this
/// very address.
pub fn answers(from: &HostRef, pod: &str, ip: &str) -> Result<()> {
    let to = SocketAddr::new(ip.parse()?, 80);
    let answer = get(from, to)?;
    let expected = format!("pod={pod} server={ip} ");
    ensure!(answer.contains(&expected), "{answer} lacks {expected}");
    Ok(())
}

/// The hardware address that a host knows for an address.
pub fn neighbour(of: &HostRef, ip: &str) -> Result<String> {
    let known = of.network_script(&format!("ip neighbour show to {ip}"))?;
    let mut words = known.split_whitespace();
    let hardware = words.by_ref().find(|word| *word == "lladdr");
    let hardware = hardware.and_then(|_| words.next());
    let hardware = hardware.with_context(|| format!("{} knows of {ip}: {known:?}", of.name))?;
    Ok(hardware.to_owned())
}

/// The hardware address that belongs to an IPv4 address, and moves with it.
pub fn hardware(ip: &str) -> Result<String> {
    let [a, b, c, d] = ip.parse::<Ipv4Addr>()?.octets();
    Ok(format!("02:42:{a:02x}:{b:02x}:{c:02x}:{d:02x}"))
}

/// All addresses in a pod's network that others can use, each with its interface in
/// front: `eth0 10.0.0.5/24`.
pub fn shown(network: &HostRef) -> Result<Vec<String>> {
    let lines = network.network_script("ip -o address show scope global")?;
    lines
        .lines()
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            ensure!(words.len() > 3, "an address is told as {line:?}");
            Ok(format!("{} {}", words[1], words[3]))
        })
        .collect()
}
