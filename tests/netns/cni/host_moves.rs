//! Hosts of all kinds move to the bridge and back: whatever their addresses and routes
//! are like, they come out the same, or nothing is touched.

use std::collections::BTreeSet;

use floe_net::{
    moves::{self, MovesError},
    netlink::Netlink,
};
use serde_json::Value;

use super::harness::lab::{Namespace, deliver, wait_for};
use super::harness::mode::{BRIDGE, Given};
use super::harness::plugin::{Attachment, Failure};
use super::harness::site::{Node, Site, UPLINK};
use super::harness::view::{Snapshot, View};

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_host_whose_network_service_makes_the_routes_itself_keeps_them() {
    // As NetworkManager does it.
    moves_and_returns(
        "address del 192.168.0.2/24 dev uplink
         address del fd00:c0::2/64 dev uplink
         address add 192.168.0.2/24 dev uplink noprefixroute
         address add fd00:c0::2/64 dev uplink noprefixroute nodad
         route add 192.168.0.0/24 dev uplink proto kernel scope link src 192.168.0.2 metric 100
         route add default via 192.168.0.1 proto dhcp src 192.168.0.2 metric 100
         route add fd00:c0::/64 dev uplink proto kernel metric 100
         route add default via fd00:c0::1 proto ra metric 100\n",
    );
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_host_with_addresses_that_have_peers_keeps_its_routes() {
    let site = Site::new(1);
    let node = site.node();
    node.net.batch(
        "address del 192.168.0.2/24 dev uplink
         address del fd00:c0::2/64 dev uplink
         address add 192.168.0.2 peer 192.168.0.1/32 dev uplink
         address add fd00:c0::2 peer fd00:c0::1/128 dev uplink nodad
         route add default via 192.168.0.1\n",
    );
    wait_for("the kernel's route to the peer", || {
        let route = node.net.ip("-6 route show fd00:c0::1");
        route.contains(UPLINK).then_some(())
    });
    there_and_back(&site);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn what_is_special_about_an_address_or_a_route_moves_with_it() {
    moves_and_returns(
        "address add 192.168.0.102/24 brd 192.168.0.255 dev uplink metric 55
         address add 10.70.0.2/24 brd + dev uplink metric 55
         address add fd00:70::2/64 dev uplink metric 77 nodad
         route add 10.61.0.0/16 via 192.168.0.1 mtu 1400 advmss 1300
         route add 10.62.0.0/16 tos 0x10 via 192.168.0.1
         route add 10.62.0.0/16 via 192.168.0.9
         route add 10.63.0.0/16 via 192.168.0.1 mtu lock 1300
         route add 224.0.0.0/4 dev uplink
         route add fd00:61::/48 via fd00:c0::1 mtu 1400
         route add fd00:62::/48 via fd00:c0::1 pref high
         route add fd00:63::/48 via fd00:c0::8
         route append fd00:63::/48 via fd00:c0::9\n",
    );
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_leased_address_and_a_route_that_expires_still_go_by_themselves() {
    let site = Site::new(1);
    let node = site.node();
    node.net.batch(
        "address add 192.168.0.66/24 dev uplink valid_lft 6000 preferred_lft 3000
         address add fd00:c0::66/64 dev uplink valid_lft 7000 preferred_lft 0 nodad
         route add fd00:64::/48 via fd00:c0::1 expires 5000\n",
    );
    let is_leased = |at: &str| {
        let addresses: Value =
            serde_json::from_str(&node.net.ip(&format!("-j address show dev {at}"))).unwrap();
        let lives = |ip: &str, what: &str| {
            let all = addresses[0]["addr_info"].as_array().unwrap();
            let one = all.iter().find(|it| it["local"] == ip);
            one.unwrap_or_else(|| panic!("{ip} is not on {at}: {addresses}"))[what]
                .as_u64()
                .unwrap()
        };
        let leased = [
            ("192.168.0.66", "valid_life_time", 5900..=6000),
            ("192.168.0.66", "preferred_life_time", 2900..=3000),
            ("fd00:c0::66", "valid_life_time", 6900..=7000),
            ("fd00:c0::66", "preferred_life_time", 0..=0),
        ];
        for (ip, what, range) in leased {
            let is = lives(ip, what);
            assert!(range.contains(&is), "{at}: {ip} {what} {is}");
        }
        let forever = u64::from(u32::MAX);
        assert_eq!(lives("192.168.0.2", "valid_life_time"), forever, "{at}");
        let route = node.net.ip("-6 route show fd00:64::/48");
        let mut words = route.split_whitespace();
        assert!(words.clone().any(|word| word == at), "{route}");
        let left = words.find(|word| *word == "expires").and(words.next());
        let left = left.unwrap_or_else(|| panic!("it stays for ever: {route}"));
        let seconds: u32 = left.trim_end_matches("sec").parse().unwrap();
        assert!((4900..=5000).contains(&seconds), "{route}");
    };
    is_leased(UPLINK);
    add(&site, 40);
    is_leased("docker");
    undo(node);
    is_leased(UPLINK);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_bridge_listens_to_routers_as_the_device_did() {
    for (accepts, makes) in [("2", "1"), ("0", "0")] {
        let site = Site::new(1);
        let node = site.node();
        node.net.set("ipv6/conf/uplink/accept_ra", accepts);
        node.net.set("ipv6/conf/uplink/autoconf", makes);
        node.net.set("ipv6/conf/default/accept_ra", "1");
        add(&site, 41);
        assert_eq!(node.net.get("ipv6/conf/docker/accept_ra"), accepts);
        assert_eq!(node.net.get("ipv6/conf/docker/autoconf"), makes);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_route_that_could_not_come_along_is_told_before_anything_is_touched() {
    // The kernel's own addresses would come a moment after the first look.
    let second = "link add second type veth peer name other
         link set second addrgenmode none
         link set other addrgenmode none
         link set second up
         link set other up
         address add 10.80.0.2/24 dev second\n";
    let cases = [
        (
            "a next hop that nothing leads to",
            "address add 172.16.0.2/24 dev uplink
             route add 10.77.0.0/16 via 172.16.0.1
             address del 172.16.0.2/24 dev uplink\n"
                .to_owned(),
            "GatewayOutOfReach",
            "172.16.0.1",
        ),
        (
            "two next hops",
            "route add 10.60.0.0/16 nexthop via 192.168.0.1 nexthop via 192.168.0.9\n".to_owned(),
            "MultipathRoute",
            "10.60.0.0/16",
        ),
        (
            "next hops on two devices",
            format!(
                "{second}route add 10.60.0.0/16 nexthop via 192.168.0.1 nexthop via 10.80.0.1\n"
            ),
            "MultipathRoute",
            "10.60.0.0/16",
        ),
        (
            "next hops of IPv6 on two devices",
            format!(
                "{second}address add fd00:80::2/64 dev second nodad
                 route add fd00:60::/48 nexthop via fd00:c0::1 nexthop via fd00:80::1\n"
            ),
            "MultipathRoute",
            "fd00:60::/48",
        ),
        (
            "a next hop that is an object of its own",
            "nexthop add id 7 via 192.168.0.1 dev uplink
             route add 10.64.0.0/16 nhid 7\n"
                .to_owned(),
            "RouteUnknown",
            "10.64.0.0/16",
        ),
        (
            "a source network",
            "route add fd00:65::/48 from fd00:c0::/64 via fd00:c0::1\n".to_owned(),
            "RouteUnknown",
            "fd00:65::/48",
        ),
    ];
    for (story, setup, reason, named) in cases {
        let site = Site::new(1);
        let node = site.node();
        node.net.batch(&setup);
        let before = Snapshot::of(node);
        let failure = refused(&site, UPLINK);
        assert!(
            failure.message.contains(reason) && failure.message.contains(named),
            "{story}: {failure:?}"
        );
        assert_eq!(failure.code, 7, "{story}");
        before.must_return(node, story);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_route_that_could_not_come_back_keeps_the_host_on_the_bridge() {
    let site = Site::new(1);
    let node = site.node();
    add(&site, 46);
    node.net
        .ip("route add 10.60.0.0/16 nexthop via 192.168.0.1 nexthop via 192.168.0.9");
    let before = Snapshot::of(node);
    let refused = try_undo(node).unwrap_err();
    assert_eq!(refused.reason(), "MultipathRoute");
    before.must_return(node, "a clean-up that cannot be");
    node.net.ip("route delete 10.60.0.0/16");
    undo(node);
    assert_eq!(View::of(&node.net).defaults().len(), 2);
    is_reached(&site);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_device_that_no_bridge_can_take_keeps_everything() {
    let site = Site::new(1);
    let node = site.node();
    node.net
        .ip("link add above link uplink type macvlan mode bridge");
    let before = Snapshot::of(node);
    let failure = refused(&site, UPLINK);
    assert!(failure.message.contains("MoveFailed"), "{failure:?}");
    before.must_return(node, "a device that is taken");
    is_reached(&site);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn two_cards_are_never_joined_by_one_bridge() {
    // The kernel here has no other kind that looks like a card to a bridge.
    let card = "link add under type veth peer name cable
         link set under up
         link set cable up
         link add card link under type macvlan mode bridge
         address add 10.80.0.2/24 dev card
         link set card up\n";
    for (first, second) in [(UPLINK, "card"), ("card", UPLINK)] {
        let site = Site::new(1);
        let node = site.node();
        node.net.batch(card);
        let pod = site.pod("first");
        Attachment::new(node, &BRIDGE, &pod, &[Given::v4(0, 42)])
            .with("device", first)
            .add();
        let before = Snapshot::of(node);
        let failure = refused(&site, second);
        assert!(failure.message.contains("BridgeTaken"), "{failure:?}");
        assert!(failure.message.contains(first), "{failure:?}");
        assert_eq!(failure.code, 7);
        before.must_return(node, "the second card");
        // With a bridge of its own it works.
        let pod = site.pod("own");
        Attachment::new(node, &BRIDGE, &pod, &[Given::v4(0, 44)])
            .with("device", second)
            .with("default_bridge_name", "docker-b")
            .add();
        let view = View::of(&node.net);
        assert_eq!(view.link_text(second, "master"), "docker-b");
        assert_eq!(view.link_text(first, "master"), "docker");
    }
}

/// A host with this setup moves and returns.
fn moves_and_returns(setup: &str) {
    let site = Site::new(1);
    site.node().net.batch(setup);
    there_and_back(&site);
}

/// The host moves to the bridge, is reached there, and comes back, each time with exactly
/// what it had.
fn there_and_back(site: &Site) {
    let node = site.node();
    is_reached(site);
    wait_for("the kernel's routes of all addresses", || {
        is_settled(&node.net).then_some(())
    });
    let before = on(&node.net, UPLINK);
    assert!(before.len() > 5, "{before:#?}");
    add(site, 45);
    must_have(&node.net, "docker", &before);
    must_have(&node.net, UPLINK, &BTreeSet::new());
    is_reached(site);
    undo(node);
    must_have(&node.net, UPLINK, &before);
    must_have(&node.net, "docker", &BTreeSet::new());
    is_reached(site);
}

/// Whether the kernel has made the routes of all addresses, which takes a moment.
fn is_settled(namespace: &Namespace) -> bool {
    let view = View::of(namespace);
    let addresses = view.global_addresses(UPLINK);
    addresses.iter().all(|net| {
        let (ip, _) = net.split_once('/').unwrap();
        view.routes("local", ip)
            .iter()
            .any(|(dev, _)| *dev == UPLINK)
    })
}

/// Waits until a link has exactly this.
fn must_have(namespace: &Namespace, name: &str, expected: &BTreeSet<String>) {
    let mut rounds = 0;
    let last = wait_for("a look without result", || {
        let now = on(namespace, name);
        rounds += 1;
        (now == *expected || rounds == 50).then_some(now)
    });
    let more: Vec<_> = last.difference(expected).collect();
    let less: Vec<_> = expected.difference(&last).collect();
    assert!(last == *expected, "{name} has {more:#?}, but not {less:#?}");
}

/// All addresses and routes of a link but those of the link itself, as `ip` shows them.
fn on(namespace: &Namespace, name: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let read = |args: &str| -> Vec<Value> {
        let text = namespace.ip(args);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    for link in read(&format!("-j address show dev {name}")) {
        for address in link["addr_info"].as_array().unwrap() {
            let mut address = address.clone();
            // The name of its link.
            address.as_object_mut().unwrap().remove("label");
            all.insert(format!("address {address}"));
        }
    }
    for family in ["-4", "-6"] {
        for mut route in read(&format!("{family} -d -j route show table all")) {
            let hops = route["nexthops"].as_array_mut();
            let hops = hops.map(std::mem::take).unwrap_or_default();
            let members = route.as_object_mut().unwrap();
            members.remove("nexthops");
            // What the carrier changes.
            members.remove("flags");
            if hops.is_empty() {
                if members.remove("dev") == Some(name.into()) {
                    all.insert(format!("route {route}"));
                }
                continue;
            }
            for hop in hops.iter().filter(|hop| hop["dev"] == name) {
                all.insert(format!("route {route} through {}", hop["gateway"]));
            }
        }
    }
    all.retain(|line| !line.contains("\"fe80:") && !line.contains("\"ff00:"));
    all
}

fn is_reached(site: &Site) {
    for (own, outside) in site
        .node()
        .addresses()
        .into_iter()
        .zip(["192.168.0.1", "fd00:c0::1"])
    {
        let here = site.node().net.udp(own);
        let there = site.outside.udp(outside.parse().unwrap());
        deliver(&there, &here, "the node is reached");
        deliver(&here, &there, "the node reaches others");
    }
}

fn add(site: &Site, host: u8) {
    let pod = site.pod("moved");
    let attachment = Attachment::new(site.node(), &BRIDGE, &pod, &[Given::v4(0, host)]);
    attachment.add();
    attachment.del();
}

fn refused(site: &Site, device: &str) -> Failure {
    let pod = site.pod("refused");
    Attachment::new(site.node(), &BRIDGE, &pod, &[Given::v4(0, 43)])
        .with("device", device)
        .refused()
}

/// What a clean-up does.
fn undo(node: &Node) {
    try_undo(node).unwrap();
}

fn try_undo(node: &Node) -> Result<(), MovesError> {
    node.net.within(|| {
        let mut netlink = Netlink::open().unwrap();
        let mut journals = moves::all(&node.state).unwrap().into_iter();
        journals.try_for_each(|it| moves::undo(&mut netlink, &it.unwrap()))
    })
}
