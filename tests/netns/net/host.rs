//! Moves of a host's addresses to a bridge and back, and addresses that are taken off
//! pods.

use std::{
    os::fd::{AsFd, AsRawFd},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use floe_core::node::moves::{BRIDGE_ALIAS, Move};
use floe_net::{
    moves,
    netlink::{LinkChange, Neighbour, NewKind, NewLink, Route},
    takeoff::{Removed, Target, take_off},
};

use super::{Space, address, cable, ip, plain};

/// How long the kernel may take for what it does by itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// A host with addresses of both families and routes on `eth0`, and a bridge `docker`.
/// The space at the other end keeps the cable up.
fn host() -> (Space, Space) {
    let (mut host, outside) = cable();
    for net in ["192.168.0.2/24", "192.168.0.3/24", "fd00:c0::2/64"] {
        host.add("eth0", net);
    }
    // The kernel makes this route by itself, a moment after the address.
    let end = Instant::now() + PATIENCE;
    while !host.ip("-6 route show table local").contains("fd00:c0::2") {
        assert!(Instant::now() < end, "no local route for fd00:c0::2");
        thread::yield_now();
    }
    let link = host.link("eth0").index;
    for (dst, gateway, metric) in [
        ("0.0.0.0/0", "192.168.0.1", 0),
        ("10.9.0.0/16", "192.168.0.9", 50),
        ("::/0", "fd00:c0::1", 1024),
    ] {
        let route = route(link, dst, Some(gateway), metric);
        assert!(host.netlink.add_route(&route).unwrap());
    }
    let device = host.link("eth0");
    host.netlink
        .create(&NewLink {
            alias: Some(BRIDGE_ALIAS),
            mac: device.mac,
            up: true,
            ..plain("docker")
        })
        .unwrap();
    (host, outside)
}

fn route(link: u32, dst: &str, gateway: Option<&str>, metric: u32) -> Route {
    Route {
        dst: dst.parse().unwrap(),
        gateway: gateway.map(ip),
        link,
        src: None,
        table: 254,
        metric,
        protocol: 4,
        scope: if gateway.is_some() { 0 } else { 253 },
        on_link: false,
    }
}

/// The addresses of a link but those of the link itself, and the routes through it, both
/// in words.
fn on(host: &mut Space, name: &str) -> (Vec<String>, Vec<String>) {
    let link = host.link(name);
    let seen = moves::observe(&mut host.netlink, &link, "docker").unwrap();
    let mut addresses: Vec<_> = seen.addresses.iter().map(|it| it.net.to_string()).collect();
    addresses.sort();
    let mut routes: Vec<_> = seen
        .routes
        .iter()
        .map(|it| {
            format!(
                "{} via {:?} metric {}",
                it.dst,
                it.gateway.unwrap(),
                it.metric
            )
        })
        .collect();
    routes.sort();
    (addresses, routes)
}

fn observed(host: &mut Space) -> Move {
    let device = host.link("eth0");
    moves::observe(&mut host.netlink, &device, "docker").unwrap()
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_host_moves_to_its_bridge_and_back() {
    let (mut host, _outside) = host();
    let before = on(&mut host, "eth0");
    assert_eq!(before.0.len(), 3, "{before:?}");
    assert_eq!(before.1.len(), 3, "{before:?}");
    let routes_before = host.ip("route show table all");
    let mut journal = observed(&mut host);

    // Twice: whatever was done already is success.
    for _ in 0..2 {
        moves::make(&mut host.netlink, &journal).unwrap();
        assert_eq!(on(&mut host, "docker"), before);
        assert_eq!(on(&mut host, "eth0"), (Vec::new(), Vec::new()));
        let bridge = host.link("docker").index;
        assert_eq!(host.link("eth0").master, Some(bridge));
    }

    journal.complete = true;
    for _ in 0..2 {
        moves::undo(&mut host.netlink, &journal).unwrap();
        assert_eq!(on(&mut host, "eth0"), before);
        assert_eq!(on(&mut host, "docker"), (Vec::new(), Vec::new()));
        assert_eq!(host.link("eth0").master, None);
        // The bridge has nothing by now: what is undone once more is not all of it.
        journal.complete = false;
    }
    let bridge = host.link("docker").index;
    host.netlink.remove(bridge).unwrap();
    assert_eq!(
        sorted(&host.ip("route show table all")),
        sorted(&routes_before)
    );
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_move_that_was_cut_short_anywhere_is_finished_or_undone() {
    /// How far a move came: addresses on the bridge, taken from the device, routes.
    const POINTS: [(usize, usize, bool); 5] = [
        (0, 0, false),
        (1, 0, false),
        (3, 0, false),
        (3, 2, false),
        (3, 3, true),
    ];
    for (added, removed, enslaved) in POINTS {
        for finish in [true, false] {
            let (mut host, _outside) = host();
            let before = on(&mut host, "eth0");
            let journal = observed(&mut host);
            let (device, bridge) = (host.link("eth0").index, host.link("docker").index);
            if enslaved || added > 0 {
                let master = [LinkChange::Master(Some(bridge))];
                host.netlink.change(device, &master).unwrap();
            }
            for it in &journal.addresses[..added] {
                host.add("docker", &it.net.to_string());
            }
            for it in &journal.addresses[..removed] {
                host.netlink.remove_address(device, it.net).unwrap();
            }
            let there = if finish {
                moves::make(&mut host.netlink, &journal).unwrap();
                "docker"
            } else {
                moves::undo(&mut host.netlink, &journal).unwrap();
                "eth0"
            };
            let point = (added, removed, finish);
            assert_eq!(on(&mut host, there), before, "{point:?}");
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn what_the_administrator_changed_on_the_bridge_goes_back_as_it_is() {
    let (mut host, _outside) = host();
    let mut journal = observed(&mut host);
    moves::make(&mut host.netlink, &journal).unwrap();
    journal.complete = true;
    host.add("docker", "192.168.0.77/24");
    let bridge = host.link("docker").index;
    let gone = "192.168.0.3/24".parse().unwrap();
    assert!(host.netlink.remove_address(bridge, gone).unwrap());
    moves::undo(&mut host.netlink, &journal).unwrap();
    let (addresses, routes) = on(&mut host, "eth0");
    assert_eq!(
        addresses,
        ["192.168.0.2/24", "192.168.0.77/24", "fd00:c0::2/64"]
    );
    assert_eq!(routes.len(), 3);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_host_that_was_booted_since_keeps_what_it_has() {
    let (mut host, _outside) = host();
    let mut journal = observed(&mut host);
    journal.complete = true;
    journal.bridge = "gone".into();
    journal.addresses[0].net = "192.168.0.99/24".parse().unwrap();
    let before = on(&mut host, "eth0");
    moves::undo(&mut host.netlink, &journal).unwrap();
    assert_eq!(on(&mut host, "eth0"), before);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn journals_are_written_listed_and_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    assert!(moves::all(folder.path()).unwrap().is_empty());
    let (mut host, _outside) = host();
    let journal = observed(&mut host);
    moves::write(folder.path(), &journal).unwrap();
    assert_eq!(
        moves::read(folder.path(), "eth0").unwrap(),
        Some(journal.clone())
    );
    std::fs::write(folder.path().join("moves/eth7.json"), "{}").unwrap();
    let all = moves::all(folder.path()).unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].as_ref().unwrap(), &journal);
    assert!(
        all[1]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("eth7.json")
    );
    assert!(moves::forget(folder.path(), "eth0").unwrap());
    assert!(!moves::forget(folder.path(), "eth0").unwrap());
    assert_eq!(moves::read(folder.path(), "eth0").unwrap(), None);
}

/// A node with a pod that has two addresses, and routes and proxy entries for both.
struct Node {
    host: Space,
    pod: Space,
    target: Target,
}

impl Node {
    fn new() -> Self {
        let (mut host, mut pod) = (Space::new(), Space::new());
        host.netlink
            .create(&NewLink {
                kind: NewKind::Veth {
                    peer: Box::new(NewLink {
                        namespace: Some(pod.netns.as_fd()),
                        up: true,
                        ..plain("eth0")
                    }),
                },
                alias: Some("floe:net:container:eth0"),
                up: true,
                ..plain("v-hcontainer-l0")
            })
            .unwrap();
        host.netlink
            .create(&NewLink {
                up: true,
                ..plain("uplink")
            })
            .unwrap();
        let (veth, uplink) = (
            host.link("v-hcontainer-l0").index,
            host.link("uplink").index,
        );
        for net in ["10.0.0.5/32", "fd00::5/128"] {
            pod.add("eth0", net);
            host.netlink
                .add_route(&route(veth, net, None, 1024))
                .unwrap();
            let ip = address(net).net.addr();
            let proxy = Neighbour {
                link: uplink,
                ip,
                mac: None,
                is_proxy: true,
                is_permanent: false,
            };
            host.netlink.put_neighbour(&proxy).unwrap();
        }
        let handle = pod.netns.as_fd().as_raw_fd();
        let netns = PathBuf::from(format!("/proc/{}/fd/{handle}", std::process::id()));
        Self {
            target: Target {
                ip: ip("10.0.0.5"),
                container: "container".into(),
                netns: Some(netns),
            },
            host,
            pod,
        }
    }

    fn take_off(&self, target: &Target) -> (Removed, Vec<String>) {
        let done = self.host.netns.run(|| {
            let (removed, failed) = take_off(target);
            (removed, failed.iter().map(ToString::to_string).collect())
        });
        done.unwrap()
    }

    fn in_pod(&mut self) -> Vec<String> {
        let link = self.pod.link("eth0").index;
        let all = self.pod.netlink.addresses(Some(link)).unwrap().into_iter();
        let all = all.map(|it| it.net.to_string());
        all.filter(|it| !it.starts_with("fe80")).collect()
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn an_address_is_taken_off_the_pod_and_the_host_and_the_others_stay() {
    let mut node = Node::new();
    let (removed, failed) = node.take_off(&node.target.clone());
    assert_eq!(failed, Vec::<String>::new());
    assert_eq!(
        removed.0,
        [
            "address 10.0.0.5/32 of eth0 in the pod",
            "proxy entry 10.0.0.5/32 of uplink",
            "route 10.0.0.5/32 through v-hcontainer-l0",
        ]
    );
    assert_eq!(node.in_pod(), ["fd00::5/128"]);
    assert!(
        node.host
            .ip("-6 route")
            .contains("fd00::5 dev v-hcontainer-l0")
    );
    assert!(node.host.ip("-6 neigh show proxy").contains("fd00::5"));
    assert!(node.host.link("v-hcontainer-l0").is_up);
    // Again: nothing is left to take off.
    assert_eq!(
        node.take_off(&node.target.clone()),
        (Removed::default(), Vec::new())
    );
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn an_address_of_another_pod_on_the_same_host_keeps_its_route_and_proxy_entry() {
    let mut node = Node::new();
    node.host
        .netlink
        .create(&NewLink {
            up: true,
            ..plain("other")
        })
        .unwrap();
    let other = node.host.link("other").index;
    let moved = route(other, "10.0.0.5/32", None, 7);
    assert!(node.host.netlink.add_route(&moved).unwrap());
    let (_, failed) = node.take_off(&node.target.clone());
    assert_eq!(failed, Vec::<String>::new());
    assert!(node.host.ip("route").contains("10.0.0.5 dev other"));
    assert!(!node.host.ip("route").contains("v-hcontainer-l0"));
    assert!(node.host.ip("neigh show proxy").contains("10.0.0.5"));
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_pod_whose_namespace_is_not_known_is_cut_off() {
    let mut node = Node::new();
    let unknown = Target {
        netns: None,
        ..node.target.clone()
    };
    let (removed, failed) = node.take_off(&unknown);
    assert_eq!(failed, Vec::<String>::new());
    assert!(
        removed
            .0
            .contains(&"link v-hcontainer-l0 set down".to_owned()),
        "{removed:?}"
    );
    assert!(!node.host.link("v-hcontainer-l0").is_up);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_host_never_loses_its_own_address() {
    let mut node = Node::new();
    node.host.add("uplink", "10.0.0.5/24");
    // A state file that leads to the host's own namespace.
    let own = node.host.netns.run(|| {
        let target = Target {
            netns: Some("/proc/thread-self/ns/net".into()),
            ..node.target.clone()
        };
        let (_, failed) = take_off(&target);
        failed.iter().map(ToString::to_string).collect::<Vec<_>>()
    });
    let failed = own.unwrap();
    assert!(
        failed[0].contains("it is the namespace of the host"),
        "{failed:?}"
    );
    assert!(node.host.ip("addr show uplink").contains("10.0.0.5/24"));
    assert_eq!(node.in_pod().len(), 2, "the pod was not reached");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_namespace_that_is_gone_is_no_failure() {
    let node = Node::new();
    let gone = Target {
        netns: Some("/run/netns/nothing-here".into()),
        ..node.target.clone()
    };
    let (removed, failed) = node.take_off(&gone);
    assert_eq!(failed, Vec::<String>::new());
    assert!(removed.0[1].starts_with("route 10.0.0.5/32"), "{removed:?}");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_proxy_entry_goes_also_when_the_route_has_gone_before() {
    let mut node = Node::new();
    let veth = node.host.link("v-hcontainer-l0").index;
    // The kernel takes IPv6 routes away with the link, and proxy entries stay.
    let down = [LinkChange::Up(false)];
    node.host.netlink.change(veth, &down).unwrap();
    assert!(!node.host.ip("-6 route").contains("fd00::5"));
    let target = Target {
        ip: ip("fd00::5"),
        ..node.target.clone()
    };
    let (removed, failed) = node.take_off(&target);
    assert_eq!(failed, Vec::<String>::new());
    assert_eq!(removed.0[1], "proxy entry fd00::5/128 of uplink");
    assert_eq!(node.host.ip("-6 neigh show proxy").trim(), "");
    assert!(node.host.ip("neigh show proxy").contains("10.0.0.5"));
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_pod_without_a_namespace_or_a_link_is_out_of_reach() {
    let node = Node::new();
    let unknown = Target {
        container: "another".into(),
        netns: None,
        ..node.target.clone()
    };
    let (removed, failed) = node.take_off(&unknown);
    assert_eq!(removed, Removed::default());
    assert!(failed[0].contains("no link of the host"), "{failed:?}");
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().map(str::trim).collect();
    lines.sort_unstable();
    lines
}
