//! A site: nodes and one host outside of them, on one segment.
//!
//! ```text
//!   outside ── wire ──┐            ┌── uplink ── node 0    192.168.0.2, fd00:c0::2
//!   192.168.0.1       ├── switch ──┤
//!   203.0.113.9 (lo)  ┘            └── uplink ── node 1    192.168.0.3, fd00:c0::3
//! ```
//!
//! The outside host is the gateway of everybody, and has an address behind it, which
//! only a default route leads to.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use floe_testbed::host::sibling_program;
use tempfile::TempDir;

use super::capture::{Capture, Frame};
use super::lab::{Namespace, wait_for};
use super::view::View;

/// The names under which the program is installed.
const NAMES: [&str; 5] = [
    "floe-cni",
    "galaxy-k8s-sriov",
    "galaxy-k8s-vlan",
    "galaxy-sdn",
    "galaxy-underlay-veth",
];
/// The device of a node that leads to the segment.
pub const UPLINK: &str = "uplink";
/// Addresses that are reached through the gateway only.
pub const FAR_V4: &str = "203.0.113.9";
pub const FAR_V6: &str = "2001:db8::9";

/// Nodes and an outside host; all of it is gone when dropped.
pub struct Site {
    /// The host that is on no node.
    pub outside: Namespace,
    /// The nodes.
    pub nodes: Vec<Node>,
    switch: Namespace,
    folder: TempDir,
}

/// A node: a namespace with an uplink, and folders of its own for what plugins keep.
pub struct Node {
    number: u8,
    /// Its network.
    pub net: Namespace,
    /// `FLOE_RUN`.
    pub run: PathBuf,
    /// `FLOE_STATE`.
    pub state: PathBuf,
    /// Where the plugins lie.
    pub bin: PathBuf,
}

impl Site {
    /// A site with so many nodes.
    pub fn new(nodes: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = install(folder.path());
        let switch = Namespace::new(folder.path(), "switch");
        switch.batch("link add segment type bridge mcast_snooping 0\nlink set segment up\n");
        let outside = Namespace::new(folder.path(), "outside");
        join(&switch, &outside, "port-out", "wire");
        outside.set("ipv6/conf/all/forwarding", "1");
        outside.set("ipv4/ip_forward", "1");
        outside.batch(&format!(
            "address add 192.168.0.1/24 dev wire
             address add fd00:c0::1/64 dev wire nodad
             address add {FAR_V4}/32 dev lo
             address add {FAR_V6}/128 dev lo nodad
             link set wire up\n"
        ));
        let nodes = (0..nodes)
            .map(|number| Node::new(folder.path(), &bin, &switch, number))
            .collect();
        let site = Self {
            outside,
            nodes,
            switch,
            folder,
        };
        for node in &site.nodes {
            // It comes with the carrier, which may be after the first look.
            wait_for("the uplink's link-local address", || {
                let view = View::of(&node.net);
                let link_local = |address: &String| address.starts_with("fe80:");
                view.addresses(UPLINK).iter().any(link_local).then_some(())
            });
        }
        site
    }

    /// The only node, or the first one.
    pub fn node(&self) -> &Node {
        &self.nodes[0]
    }

    /// A namespace for a pod.
    pub fn pod(&self, name: &str) -> Namespace {
        Namespace::new(self.folder.path(), &format!("pod-{name}"))
    }

    /// A folder for what the test itself needs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Pulls the cable of the first node: its uplink is up, and has no carrier.
    pub fn pull_cable(&self) {
        self.switch.ip("link set port-0 down");
        wait_for("the carrier to go", || {
            let shown = self.node().net.ip(&format!("link show dev {UPLINK}"));
            shown.contains("NO-CARRIER").then_some(())
        });
    }

    /// Puts everybody's outside end into a VLAN too: `192.168.<id>.1` and
    /// `fd00:c<id>::1`, on the device `wire.<id>`.
    pub fn tag(&self, id: u16) {
        self.outside.batch(&format!(
            "link add link wire name wire.{id} type vlan id {id}
             address add 192.168.{id}.1/24 dev wire.{id}
             address add fd00:c{id}::1/64 dev wire.{id} nodad
             link set wire.{id} up\n"
        ));
    }

    /// What has passed a capture of the outside host's wire until now.
    pub fn seen(&self, wire: &Capture) -> Vec<Frame> {
        // It takes the way of everything that was sent from the node before.
        let end = "the end of the capture";
        let socket = self.node().net.udp(self.node().addresses()[0]);
        socket.set_broadcast(true).unwrap();
        socket.send_to(end.as_bytes(), "192.168.0.255:7").unwrap();
        wire.frames_until(end)
    }

    /// The port of the switch behind which a hardware address was seen last.
    pub fn port_of(&self, mac: &str) -> Option<String> {
        let table = self
            .switch
            .read("bridge", &["fdb", "show", "br", "segment"], "");
        let line = table.lines().find(|line| line.starts_with(mac))?;
        let mut words = line.split_whitespace();
        let device = words.find(|word| *word == "dev").and(words.next());
        device.map(str::to_owned)
    }
}

impl Node {
    fn new(folder: &Path, bin: &Path, switch: &Namespace, number: u8) -> Self {
        let net = Namespace::new(folder, &format!("node-{number}"));
        join(switch, &net, &format!("port-{number}"), UPLINK);
        let host = number + 2;
        // As on a node of a cluster.
        net.set("ipv6/conf/all/forwarding", "1");
        net.set("ipv4/ip_forward", "1");
        net.batch(&format!(
            "address add 192.168.0.{host}/24 dev {UPLINK}
             address add fd00:c0::{host}/64 dev {UPLINK} nodad
             link set {UPLINK} up
             route add default via 192.168.0.1
             route add 10.99.0.0/16 via 192.168.0.1
             route add default via fd00:c0::1
             route add fd00:99::/48 via fd00:c0::1\n"
        ));
        Self::with_files(number, net, &folder.join(format!("files-{number}")), bin)
    }

    /// The machine itself as a node, with its files in `folder`.
    pub fn machine(folder: &Path) -> Self {
        let bin = install(folder);
        Self::with_files(0, Namespace::machine(), folder, &bin)
    }

    fn with_files(number: u8, net: Namespace, folder: &Path, bin: &Path) -> Self {
        let node = Self {
            number,
            net,
            run: folder.join("run"),
            state: folder.join("state"),
            bin: bin.to_owned(),
        };
        fs::create_dir_all(&node.run).unwrap();
        fs::create_dir_all(&node.state).unwrap();
        node
    }

    /// Its own addresses on the segment.
    pub fn addresses(&self) -> [IpAddr; 2] {
        let host = self.number + 2;
        [format!("192.168.0.{host}"), format!("fd00:c0::{host}")].map(|it| it.parse().unwrap())
    }
}

/// A folder with the program under all its names.
fn install(folder: &Path) -> PathBuf {
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    let program = sibling_program("floe-cni").unwrap();
    for name in NAMES {
        symlink(&program, bin.join(name)).unwrap();
    }
    bin
}

/// A cable from a port of the switch to a device of a namespace.
fn join(switch: &Namespace, to: &Namespace, port: &str, device: &str) {
    // Link-local addresses are usable at once.
    for scope in ["all", "default"] {
        to.set(&format!("ipv6/conf/{scope}/accept_dad"), "0");
        to.set(&format!("ipv6/conf/{scope}/accept_ra"), "0");
    }
    switch.batch(&format!(
        "link add {port} type veth peer name {device} netns {}
         link set {port} master segment up\n",
        to.path().display()
    ));
}
