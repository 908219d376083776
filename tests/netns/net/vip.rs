//! Shared addresses on a segment: a client and two nodes, each with pods behind a bridge.
//!
//! ```text
//!   client .1      node a .2 ── cni0 ── a1, a2     10.1.0.0/24   fd00:1::/64
//!      │              │
//!      └── switch ────┴─ node b .3 ── cni0 ── b1   10.2.0.0/24   fd00:2::/64
//!          10.9.0.0/24  fd00:9::/64
//! ```
//!
//! The client knows no way to pods: an answer that does not come from the shared address
//! cannot reach it, or is not taken for one.

mod announcing;
mod echo;
mod forwarding;
mod lending;
mod moving;
mod owning;
mod silence;
mod traffic;

use std::{
    collections::BTreeSet,
    net::IpAddr,
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use floe_core::vip::rules::NodeRules;
use floe_net::{
    boottime::{self, Deadline},
    conntrack,
    netlink::{NewKind, NewLink, Route},
    nft::Nft,
    pulse,
    responder::Responder,
    sysctl,
};

use self::echo::Echo;
use super::{Space, ip, plain};

const VIP4: &str = "10.9.0.100";
const VIP6: &str = "fd00:9::100";
const SOON: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_mins(2);

/// Both shared addresses.
fn vips() -> [IpAddr; 2] {
    [ip(VIP4), ip(VIP6)]
}

/// The whole segment.
struct Scene {
    client: Space,
    a: Node,
    b: Node,
    _switch: Space,
}

/// A node and its pods.
struct Node {
    space: Space,
    pods: Vec<Pod>,
    deadline: Deadline,
    rules: NodeRules,
    responder: Responder,
}

/// A pod whose every port and protocol is answered with its name.
struct Pod {
    space: Space,
    v4: IpAddr,
    v6: IpAddr,
    echo: Echo,
}

impl Scene {
    fn new() -> Self {
        let mut switch = Space::new();
        let bridge = NewLink {
            up: true,
            ..plain("br0")
        };
        switch.netlink.create(&bridge).unwrap();
        let client = host(&mut switch, 1);
        let a = Node::new(&mut switch, 2, 1, &["a1", "a2"]);
        let b = Node::new(&mut switch, 3, 2, &["b1"]);
        let mut scene = Self {
            client,
            a,
            b,
            _switch: switch,
        };
        scene.a.route("10.2.0.0/24", "10.9.0.3");
        scene.a.route("fd00:2::/64", "fd00:9::3");
        scene.b.route("10.1.0.0/24", "10.9.0.2");
        scene.b.route("fd00:1::/64", "fd00:9::2");
        scene
    }

    /// One in which `a1` holds both addresses, and node b knows it.
    fn serving() -> Self {
        let mut scene = Self::new();
        scene.a.hold("a1");
        let pod = scene.a.pod("a1").both();
        for (vip, pod) in vips().into_iter().zip(pod) {
            scene.b.rules.send_away(vip, pod).unwrap();
        }
        scene.b.program();
        scene.a.live(LONG);
        scene
    }
}

impl Node {
    /// Host `number` of the segment, with pods in network `pods`.
    fn new(switch: &mut Space, number: u8, pods: u8, names: &[&str]) -> Self {
        let mut space = host(switch, number);
        let bridge = NewLink {
            up: true,
            ..plain("cni0")
        };
        space.netlink.create(&bridge).unwrap();
        space.add("cni0", &format!("10.{pods}.0.1/24"));
        space.add("cni0", &format!("fd00:{pods}::1/64"));
        space.set("net/ipv4/ip_forward", "1");
        space.set("net/ipv6/conf/all/forwarding", "1");
        // Where the kernel can show bridged packets to the rules at all, it shall not.
        for family in ["iptables", "ip6tables"] {
            let setting = format!("net/bridge/bridge-nf-call-{family}");
            if space.netns.run(|| sysctl::read(&setting)).unwrap().is_ok() {
                space.set(&setting, "0");
            }
        }
        let pods = (11..)
            .zip(names)
            .map(|(last, name)| Pod::new(&mut space, pods, last, name))
            .collect();
        let deadline = Deadline::default();
        let responder = space
            .netns
            .run(|| Responder::start("eth0", deadline.clone()))
            .unwrap()
            .unwrap();
        let mut rules = NodeRules::default();
        rules.add_uplink("eth0").unwrap();
        rules.add_exit("eth0").unwrap();
        for vip in vips() {
            rules.know(vip);
        }
        Self {
            space,
            pods,
            deadline,
            rules,
            responder,
        }
    }

    fn pod(&self, name: &str) -> &Pod {
        let pod = self.pods.iter().find(|pod| pod.echo.name == name);
        pod.unwrap_or_else(|| panic!("no pod {name}"))
    }

    fn route(&mut self, dst: &str, gateway: &str) {
        let link = self.space.link("eth0").index;
        self.space.route(dst, gateway, link);
    }

    /// Makes a pod of this node the holder of both addresses.
    fn hold(&mut self, pod: &str) {
        let pods = self.pod(pod).both();
        for (vip, pod) in vips().into_iter().zip(pods) {
            self.rules.hold(vip, pod, "cni0").unwrap();
            self.rules.announce(vip);
        }
        self.program();
        self.responder.set(BTreeSet::from(vips())).unwrap();
    }

    /// Makes the kernel's rules those of this node.
    fn program(&self) {
        self.nft(&self.rules.script());
    }

    fn nft(&self, script: &str) {
        let applied = self.space.netns.run(|| Nft::default().apply(script));
        applied.unwrap().unwrap();
    }

    /// Lets the node speak for its addresses for this long, as an agent does.
    fn live(&self, left: Duration) {
        let until = boottime::now() + left;
        let pulses = self.rules.pulses();
        let kept = self.space.netns.run(|| pulse::OF_NODE.keep(pulses, until));
        kept.unwrap().unwrap();
        self.deadline.set(until);
    }

    /// Ends at once what the kernel lets the node do.
    fn die(&self) {
        let pulses = self.rules.pulses();
        let ended = self.space.netns.run(|| pulse::end(pulses));
        ended.unwrap().unwrap();
    }

    /// Makes the kernel forget the connections of both addresses.
    fn forget(&self) -> usize {
        let all = BTreeSet::from(vips());
        self.space
            .netns
            .run(|| conntrack::forget(&all))
            .unwrap()
            .unwrap()
    }

    /// Waits until the kernel has forgotten that the node lives.
    fn wait_for_death(&self) {
        until("the kernel counts down", || {
            let listed = self
                .space
                .netns
                .run(|| Nft::default().list("inet floe-vip"));
            let counts = listed.unwrap().unwrap().unwrap().contains("expires");
            !counts && self.deadline.left().is_none()
        });
    }
}

impl Pod {
    fn new(node: &mut Space, network: u8, last: u8, name: &str) -> Self {
        let mut space = Space::new();
        let bridge = node.link("cni0").index;
        plug(node, &format!("port{last}"), bridge, &mut space);
        let (v4, v6) = (
            format!("10.{network}.0.{last}"),
            format!("fd00:{network}::{last}"),
        );
        space.add("eth0", &format!("{v4}/24"));
        space.add("eth0", &format!("{v6}/64"));
        let link = space.link("eth0").index;
        space.route("0.0.0.0/0", &format!("10.{network}.0.1"), link);
        space.route("::/0", &format!("fd00:{network}::1"), link);
        let echo = Echo::start(&space, name);
        Self {
            space,
            v4: ip(&v4),
            v6: ip(&v6),
            echo,
        }
    }

    fn both(&self) -> [IpAddr; 2] {
        [self.v4, self.v6]
    }
}

impl Space {
    fn set(&self, setting: &str, value: &str) {
        let set = self.netns.run(|| sysctl::write(setting, value));
        set.unwrap().unwrap();
    }

    fn route(&mut self, dst: &str, gateway: &str, link: u32) {
        let route = Route {
            dst: dst.parse().unwrap(),
            gateway: Some(ip(gateway)),
            link,
            src: None,
            table: 254,
            metric: 0,
            protocol: 4,
            scope: 0,
            on_link: false,
        };
        assert!(self.netlink.add_route(&route).unwrap());
    }
}

/// A host of the segment.
fn host(switch: &mut Space, number: u8) -> Space {
    let mut space = Space::new();
    let bridge = switch.link("br0").index;
    plug(switch, &format!("port{number}"), bridge, &mut space);
    space.add("eth0", &format!("10.9.0.{number}/24"));
    space.add("eth0", &format!("fd00:9::{number}/64"));
    space
}

/// Plugs `eth0` of a new machine into a port of a bridge.
fn plug(side: &mut Space, port: &str, bridge: u32, machine: &mut Space) {
    machine.ip("link set lo up");
    let peer = NewLink {
        namespace: Some(machine.netns.as_fd()),
        up: true,
        ..plain("eth0")
    };
    let new = NewLink {
        kind: NewKind::Veth {
            peer: Box::new(peer),
        },
        master: Some(bridge),
        up: true,
        ..plain(port)
    };
    side.netlink.create(&new).unwrap();
    let index = machine.link("eth0").index;
    let carries = machine
        .netlink
        .wait_for_carrier(index, Instant::now() + SOON);
    assert!(carries.unwrap());
}

/// Waits for a condition.
fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        thread::yield_now();
    }
}
