//! The segment that joins all hosts of a cluster, and the cables to it.

use std::fmt::Write;

use anyhow::Result;

use super::addresses::{SERVICES, Seat};
use crate::host::HostRef;

const SWITCH: &str = "br0";

/// Makes the switch, which lives on the control plane's host.
pub fn make_switch(control_plane: &HostRef, seats: &[Seat]) -> Result<()> {
    let seat = Seat::ControlPlane;
    let mut script = format!(
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
         ip link set lo up
         ip link add {SWITCH} address {mac} type bridge
         # A switch looks at no layer above its own.
         sysctl -qw net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0 \
                    net.bridge.bridge-nf-call-arptables=0 2>/dev/null || true
         ip addr add {v4}/24 dev {SWITCH}
         ip addr add {v6}/64 dev {SWITCH} nodad
         ip link set {SWITCH} up
         # Rewritten before it leaves; but what has no route is never rewritten.
         ip route add {SERVICES} dev {SWITCH}
         nft add table inet testbed
         nft 'add set inet testbed cut {{ type ipv4_addr; flags interval; auto-merge; }}'
         nft 'add chain inet testbed input {{ type filter hook input priority -300; }}'
         nft 'add chain inet testbed output {{ type filter hook output priority -300; }}'
         nft add rule inet testbed input ip saddr @cut drop
         nft add rule inet testbed output ip daddr @cut drop
        ",
        mac = seat.mac(),
        v4 = seat.ipv4(),
        v6 = seat.ipv6(),
    );
    script.push_str(&routes_to_pods(seat, seats));
    control_plane.network_script(&script).map(drop)
}

/// Lays a cable from a host that was just switched on to the switch.
pub fn plug_in(control_plane: &HostRef, host: &HostRef, seat: Seat, seats: &[Seat]) -> Result<()> {
    let port = seat.port();
    control_plane.network_script(&format!(
        "ip link add {port} type veth peer name eth0 address {mac} netns {pid}
         ip link set {port} master {SWITCH} up",
        mac = seat.mac(),
        pid = host.anchor,
    ))?;
    let mut script = format!(
        "ip link set lo up
         ip addr add {v4}/24 dev eth0
         ip addr add {v6}/64 dev eth0 nodad
         ip link set eth0 up
         ip route add default via {gateway}
        ",
        v4 = seat.ipv4(),
        v6 = seat.ipv6(),
        gateway = Seat::ControlPlane.ipv4(),
    );
    if matches!(seat, Seat::Node(_)) {
        script.push_str("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1\n");
    }
    if seat == Seat::Outside {
        // Services are no business of the outside: only what is routed to it.
        let _ = writeln!(script, "ip route add unreachable {SERVICES}");
    }
    script.push_str(&routes_to_pods(seat, seats));
    host.network_script(&script).map(drop)
}

/// Takes the cable of a host away, which is about to be switched off.
pub fn unplug(control_plane: &HostRef, seat: Seat) -> Result<()> {
    control_plane
        .network_script(&format!("ip link del {}", seat.port()))
        .map(drop)
}

/// Pulls or plugs the cable of a host, at the switch.
pub fn cable(control_plane: &HostRef, seat: Seat, plugged: bool) -> Result<()> {
    let state = if plugged { "up" } else { "down" };
    control_plane
        .network_script(&format!("ip link set {} {state}", seat.port()))
        .map(drop)
}

/// Drops everything between the control plane and these hosts with their pods,
/// and between it and nobody else. What hosts say to each other passes.
pub fn cut_off(control_plane: &HostRef, seats: &[Seat]) -> Result<()> {
    let mut script = "nft flush set inet testbed cut\n".to_owned();
    for seat in seats {
        let pods = seat
            .pods()
            .map(|pods| format!(", {pods}"))
            .unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(
            script,
            "nft add element inet testbed cut '{{ {}{pods} }}'",
            seat.ipv4()
        );
    }
    control_plane.network_script(&script).map(drop)
}

fn routes_to_pods(from: Seat, seats: &[Seat]) -> String {
    let mut script = String::new();
    for node in seats.iter().filter(|seat| **seat != from) {
        if let Some(pods) = node.pods() {
            // Writing to a String cannot fail.
            let _ = writeln!(script, "ip route add {pods} via {}", node.ipv4());
        }
    }
    script
}
