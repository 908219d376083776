//! The address plan: every cluster has the same one, in namespaces of its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The name of the host that runs the control plane.
pub const CONTROL_PLANE: &str = "control-plane";
/// The name of the host on the nodes' segment that is no node.
pub const OUTSIDE: &str = "outside";

/// Where nodes and pods find the API server.
pub const API_SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 200, 0, 1)), 6443);
/// Where the API server itself listens, behind the gate.
pub const API_SERVER_BEHIND_GATE: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6444);
/// Where nodes pull images.
pub const REGISTRY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 200, 0, 1)), 5000);

/// The addresses of Services.
pub const SERVICES: &str = "10.96.0.0/16";
/// The Service through which pods find the API server.
pub const KUBERNETES_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The Service address at which the scheduler looks for its extender.
///
/// A scheduler resolves no Service names, so the address has to be fixed.
pub const EXTENDER_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 40);
/// The port of the extender.
pub const EXTENDER_PORT: u16 = 9040;
/// The addresses of nodes.
pub const NODES: &str = "10.200.0.0/16";
/// The addresses of pods.
pub const PODS: &str = "10.244.0.0/16";

/// A host on the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// The control plane; it is also everybody's gateway.
    ControlPlane,
    /// A node, counted from 1.
    Node(u8),
    /// The host outside of the cluster.
    Outside,
}

impl Seat {
    /// The host's name.
    pub fn name(self) -> String {
        match self {
            Self::ControlPlane => CONTROL_PLANE.to_owned(),
            Self::Node(number) => format!("node-{number}"),
            Self::Outside => OUTSIDE.to_owned(),
        }
    }

    /// The host's IPv4 address on the segment 10.200.0.0/24.
    pub fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 200, 0, self.number())
    }

    /// The host's IPv6 address on the segment `fd00:200::/64`, as text.
    pub fn ipv6(self) -> String {
        format!("fd00:200::{:x}", self.number())
    }

    /// The hardware address of the host's only cable.
    pub fn mac(self) -> String {
        format!("02:f1:0e:00:00:{:02x}", self.number())
    }

    /// The pods of a node.
    pub fn pods(self) -> Option<String> {
        match self {
            Self::Node(number) => Some(format!("10.244.{number}.0/24")),
            Self::ControlPlane | Self::Outside => None,
        }
    }

    /// The other end of the host's cable, at the switch.
    pub fn port(self) -> String {
        format!("port-{}", self.number())
    }

    fn number(self) -> u8 {
        match self {
            Self::ControlPlane => 1,
            Self::Node(number) => 10 + number,
            Self::Outside => 200,
        }
    }
}
