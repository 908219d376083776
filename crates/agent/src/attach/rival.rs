//! Finds the pod or node that already answers for an address of a pod that is being attached.
//!
//! A plugin reports only the hardware address that has answered. The cluster may know more: which
//! other pod shows the address, or which node has that hardware address.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use floe_core::addr;
use floe_net::netlink::{Neighbour, Netlink};
use floe_shell::logs;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, VersionMatch},
};
use tokio::{task::spawn_blocking, time::timeout};
use tracing::debug;

use super::Attacher;

/// How long to ask. The runtime waits for the answer that its call has failed.
const PATIENCE: Duration = Duration::from_secs(2);

impl Attacher {
    /// Describes the pod or node that answers for an address; `None` if it is unknown.
    pub(super) async fn rival(&self, own_uid: &str, ip: IpAddr, mac: &str) -> Option<String> {
        let asked = async {
            match self.pod_with(own_uid, ip).await {
                Some(pod) => Some(pod),
                None => self.node_with(mac).await,
            }
        };
        timeout(PATIENCE, asked).await.ok().flatten()
    }

    /// Another pod whose status shows the address. Only the primary address of a pod can be
    /// selected (`status.podIP`): a pod that has it as its second one is not found.
    async fn pod_with(&self, own_uid: &str, ip: IpAddr) -> Option<String> {
        let pods: Api<Pod> = Api::all(self.pods.client());
        let with_it = cached().fields(&format!("status.podIP={ip}"));
        let listed = pods.list(&with_it).await;
        let listed = listed.map_err(|error| unknown("pods", &error)).ok()?.items;
        let mut others = listed.iter().filter(|pod| {
            pod.uid().as_deref() != Some(own_uid) && shows(pod, ip) && !is_finished(pod)
        });
        let pod = others.next()?;
        let spec = pod.spec.as_ref();
        let node = spec.and_then(|it| it.node_name.as_deref())?;
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        Some(format!("pod {namespace}/{name} on node {node} shows it"))
    }

    /// The node that has the hardware address.
    async fn node_with(&self, mac: &str) -> Option<String> {
        let known = spawn_blocking(|| Netlink::open().and_then(|mut it| it.neighbours()));
        let known = known.await.map_err(|error| unknown("neighbours", &error));
        let known = known.ok()?;
        let known = known.map_err(|error| unknown("neighbours", &error)).ok()?;
        let hosts = hosts_with(mac, &known);
        if hosts.is_empty() {
            return None;
        }
        let nodes: Api<Node> = Api::all(self.pods.client());
        let nodes = nodes.list(&cached()).await;
        let nodes = nodes.map_err(|error| unknown("nodes", &error)).ok()?.items;
        let node = nodes
            .iter()
            .find(|node| !addresses(node).is_disjoint(&hosts));
        Some(match (node, hosts.first()) {
            (Some(node), _) => format!("that is node {}", node.name_any()),
            (None, Some(host)) => format!("that is the host with {host}"),
            (None, None) => return None,
        })
    }
}

/// What the API server has in memory: good enough for a hint, and it costs no read of everything
/// from its storage.
fn cached() -> ListParams {
    ListParams::default()
        .matching(VersionMatch::NotOlderThan)
        .at("0")
}

/// Logs a failed lookup at debug level, because the result is only a hint.
fn unknown(what: &str, error: &dyn std::error::Error) {
    let error = logs::with_causes(error);
    debug!(what, error, "cannot find out who answers for an address");
}

fn shows(pod: &Pod, ip: IpAddr) -> bool {
    let status = pod.status.as_ref();
    let several = status.and_then(|it| it.pod_ips.as_ref());
    let several = several.into_iter().flatten().map(|it| it.ip.as_str());
    let one = status.and_then(|it| it.pod_ip.as_deref());
    several
        .chain(one)
        .any(|text| addr::parse(text) == Some(addr::canonical(ip)))
}

fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The addresses that live where a hardware address is.
fn hosts_with(mac: &str, known: &[Neighbour]) -> BTreeSet<IpAddr> {
    let has_it = |it: &&Neighbour| it.mac.is_some_and(|known| known.to_string() == mac);
    let there = known.iter().filter(|it| !it.is_proxy).filter(has_it);
    there.map(|it| addr::canonical(it.ip)).collect()
}

fn addresses(node: &Node) -> BTreeSet<IpAddr> {
    let status = node.status.as_ref();
    let all = status.and_then(|it| it.addresses.as_ref());
    let all = all.into_iter().flatten();
    all.filter_map(|it| addr::parse(&it.address)).collect()
}

#[cfg(test)]
mod tests {
    use floe_core::announce::Mac;

    use super::*;

    #[test]
    fn a_hardware_address_is_that_of_all_its_addresses() {
        let mac = Mac([2, 0, 0, 0, 0, 0x12]);
        let entry = |ip: [u8; 4], mac, is_proxy| Neighbour {
            link: 2,
            ip: ip.into(),
            mac,
            is_proxy,
            is_permanent: false,
        };
        let other = Mac([2, 0, 0, 0, 0, 0x13]);
        let known = [
            entry([10, 200, 0, 12], Some(mac), false),
            entry([10, 200, 0, 13], Some(other), false),
            entry([10, 200, 0, 14], None, false),
            entry([10, 200, 0, 15], Some(mac), true),
        ];
        let found = hosts_with("02:00:00:00:00:12", &known);
        assert_eq!(found, BTreeSet::from([[10, 200, 0, 12].into()]));
    }
}
