//! From which addresses the scheduler may call its extender.
//!
//! A scheduler that speaks plain HTTP proves nothing but its source address. It runs in the
//! host network of a control-plane node. kube-proxy and the pod network may replace that
//! node's own address by another one of the same node (masquerading of traffic that does not
//! come from a pod), so those that the Node object reveals count as well.

use std::{collections::BTreeMap, net::IpAddr, str::FromStr};

use ipnet::IpNet;

/// One entry of the list of allowed sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Control-plane nodes and the hosts of API servers.
    ControlPlane,
    /// Every address.
    Any,
    /// The addresses of a network; a single address is a network of one.
    Net(IpNet),
}

/// Why a text is no [`Source`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected control-plane, any, an IP address or a network such as 10.0.0.0/24")]
pub struct InvalidSource;

impl FromStr for Source {
    type Err = InvalidSource;

    fn from_str(text: &str) -> Result<Self, InvalidSource> {
        match text {
            "control-plane" => return Ok(Self::ControlPlane),
            "any" => return Ok(Self::Any),
            _ => {}
        }
        let address = text
            .parse()
            .map(|ip: IpAddr| IpNet::from(ip.to_canonical()));
        let net = address.or_else(|_| text.parse().map(|net: IpNet| net.trunc()));
        net.map(Self::Net).map_err(|_| InvalidSource)
    }
}

impl Source {
    /// Whether a call from this address is allowed; `is_control_plane` decides about
    /// [`Source::ControlPlane`].
    pub fn allows(self, from: IpAddr, is_control_plane: impl FnOnce(IpAddr) -> bool) -> bool {
        match self {
            Self::ControlPlane => is_control_plane(from),
            Self::Any => true,
            Self::Net(net) => net.contains(&from),
        }
    }
}

/// What a Node object says about the addresses of its host.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// Its labels, of which one marks the control plane.
    pub labels: &'a BTreeMap<String, String>,
    /// Its annotations; those in [`ANNOTATIONS`] suffice.
    pub annotations: &'a BTreeMap<String, String>,
    /// Its internal and external addresses.
    pub addresses: &'a [IpAddr],
    /// The networks of its pods.
    pub pod_nets: &'a [IpNet],
}

/// The labels of control-plane nodes: that of kubeadm, its former one, and that of RKE.
/// A kubelet cannot set them on its own Node (admission plugin `NodeRestriction`).
const ROLES: [&str; 3] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/controlplane",
];

/// flannel annotates every node with the way by which it connects nodes.
const FLANNEL: &str = "flannel.alpha.coreos.com/backend-type";

/// The annotations in which pod networks publish addresses of a node's own interfaces.
pub const ANNOTATIONS: [&str; 12] = [
    FLANNEL,
    "projectcalico.org/IPv4Address",
    "projectcalico.org/IPv6Address",
    "projectcalico.org/IPv4IPIPTunnelAddr",
    "projectcalico.org/IPv4VXLANTunnelAddr",
    "projectcalico.org/IPv6VXLANTunnelAddr",
    "projectcalico.org/IPv4WireguardInterfaceAddr",
    "projectcalico.org/IPv6WireguardInterfaceAddr",
    "network.cilium.io/ipv4-cilium-host",
    "network.cilium.io/ipv6-cilium-host",
    "io.cilium.network.ipv4-cilium-host",
    "io.cilium.network.ipv6-cilium-host",
];

impl Host<'_> {
    /// The addresses from which a process in the host network of this node may appear, if it
    /// is a control-plane node; none for every other node.
    pub fn control_plane_addresses(self) -> Vec<IpAddr> {
        if !ROLES.iter().any(|role| self.labels.contains_key(*role)) {
            return Vec::new();
        }
        let mut found: Vec<IpAddr> = self.addresses.iter().map(IpAddr::to_canonical).collect();
        for name in ANNOTATIONS.iter().filter(|name| **name != FLANNEL) {
            let text = self.annotations.get(*name).map(String::as_str);
            // Calico writes the node's address with the length of its prefix.
            let text = text.map(|text| text.split('/').next().unwrap_or(text));
            found.extend(text.and_then(|text| text.parse::<IpAddr>().ok()));
        }
        // flannel's own device has the first address of the node's pod network, and the bridge
        // of its pods the second; no pod ever has them. Other pod networks give such addresses
        // to pods, or ignore the field, so they are trusted with flannel only.
        if self.annotations.contains_key(FLANNEL) {
            for net in self.pod_nets {
                found.push(net.network());
                found.extend(net.hosts().find(|ip| *ip != net.network()));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests;
