//! Addresses, routes, rules and neighbours.

use floe_core::announce::Mac;
use floe_net::netlink::{Address, Neighbour, Route, Rule};

use super::{Space, address, cable, ip};

const MAIN: u32 = 254;
const LINK_SCOPE: u8 = 253;

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn addresses_of_both_families_come_at_once_and_go() {
    let (mut left, _right) = cable();
    let link = left.link("eth0").index;
    for net in ["10.0.0.5/24", "fd00::5/64"] {
        let address = Address {
            link,
            ..address(net)
        };
        assert!(left.netlink.add_address(&address).unwrap());
        assert!(!left.netlink.add_address(&address).unwrap());
        assert!(left.netlink.addresses(None).unwrap().contains(&address));
        let listed = left.netlink.addresses(Some(link)).unwrap();
        assert!(listed.contains(&address), "{listed:?}");
        assert!(listed.iter().all(|address| address.link == link));
    }
    let seen = left.ip("-6 addr show dev eth0");
    let ours = seen.lines().find(|line| line.contains("fd00::5/64"));
    let ours = ours.unwrap_or_else(|| panic!("{seen}"));
    assert!(
        ours.contains("nodad") && !ours.contains("tentative"),
        "{ours}"
    );

    for net in ["10.0.0.5/24", "fd00::5/64"] {
        let net = net.parse().unwrap();
        assert!(left.netlink.remove_address(link, net).unwrap());
        assert!(!left.netlink.remove_address(link, net).unwrap());
        assert!(!left.netlink.remove_address(4711, net).unwrap());
    }
    assert_eq!(left.netlink.addresses(Some(4711)).unwrap(), []);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn an_address_without_a_prefix_route_makes_none() {
    let (mut left, _right) = cable();
    let link = left.link("eth0").index;
    for (net, without) in [
        ("10.0.0.5/24", true),
        ("10.1.0.5/24", false),
        ("fd00::5/64", true),
        ("fd01::5/64", false),
    ] {
        let address = Address {
            link,
            no_prefix_route: without,
            ..address(net)
        };
        assert!(left.netlink.add_address(&address).unwrap());
        assert!(
            left.netlink
                .addresses(Some(link))
                .unwrap()
                .contains(&address)
        );
        let routes = left.netlink.routes().unwrap();
        let has_route = routes.iter().any(|route| route.dst == address.net.trunc());
        assert_eq!(has_route, !without, "{net}: {routes:?}");
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn an_address_that_ages_is_known_and_one_with_a_peer_is_removed() {
    let (mut left, _right) = cable();
    let link = left.link("eth0").index;
    left.ip("addr add 10.0.0.5/24 dev eth0 valid_lft 600 preferred_lft 600");
    left.ip("addr add 10.1.0.5 peer 10.1.0.6/32 dev eth0");
    let listed = left.netlink.addresses(Some(link)).unwrap();
    let of = |ip: &str| {
        listed
            .iter()
            .find(|a| a.net.addr() == super::ip(ip))
            .unwrap()
    };
    assert!(of("10.0.0.5").is_temporary);
    assert!(!of("10.1.0.5").is_temporary);
    let net = of("10.1.0.5").net;
    assert!(left.netlink.remove_address(link, net).unwrap());
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn routes_of_several_tables_are_added_listed_and_removed() {
    let (mut left, _right) = cable();
    left.add("eth0", "10.0.0.5/24");
    left.add("eth0", "fd00::5/64");
    let link = left.link("eth0").index;
    let default = |dst: &str, gateway: &str, table| Route {
        gateway: Some(ip(gateway)),
        table,
        scope: 0,
        ..route(link, dst)
    };
    for (route, other) in [
        (default("0.0.0.0/0", "10.0.0.1", MAIN), "10.0.0.2"),
        (default("0.0.0.0/0", "10.0.0.1", 1000), "10.0.0.2"),
        (default("::/0", "fd00::1", MAIN), "fd00::2"),
        (default("::/0", "fd00::1", 1000), "fd00::2"),
    ] {
        assert!(left.netlink.add_route(&route).unwrap());
        assert!(!left.netlink.add_route(&route).unwrap());
        let route = listed(&mut left, &route);
        let other = Route {
            gateway: Some(ip(other)),
            ..route
        };
        assert!(!left.netlink.add_route(&other).unwrap());
        assert!(!left.netlink.remove_route(&other).unwrap());
        assert!(left.netlink.remove_route(&route).unwrap());
        assert!(left.netlink.add_route(&other).unwrap());
        let routes = left.netlink.routes().unwrap();
        assert!(routes.contains(&other), "{routes:?}");
        assert!(!routes.contains(&route), "{routes:?}");
        assert!(!left.netlink.remove_route(&route).unwrap());
        assert!(left.netlink.remove_route(&other).unwrap());
        assert!(!left.netlink.remove_route(&other).unwrap());
    }
    let on_link = Route {
        src: Some(ip("10.0.0.5")),
        metric: 50,
        ..route(link, "10.9.9.9/32")
    };
    assert!(left.netlink.add_route(&on_link).unwrap());
    let seen = left.ip("route show 10.9.9.9");
    for part in ["dev eth0", "scope link", "src 10.0.0.5", "metric 50"] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    assert_eq!(listed(&mut left, &on_link), on_link);
    assert!(left.netlink.remove_route(&on_link).unwrap());
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_gateway_that_is_in_no_network_of_the_link_needs_to_be_called_on_link() {
    let (mut left, _right) = cable();
    left.add("eth0", "10.0.0.5/32");
    left.add("eth0", "fd00::5/128");
    let link = left.link("eth0").index;
    for (dst, gateway) in [("0.0.0.0/0", "10.7.0.1"), ("::/0", "fd07::1")] {
        let far = Route {
            gateway: Some(ip(gateway)),
            scope: 0,
            ..route(link, dst)
        };
        let error = left.netlink.add_route(&far).unwrap_err().to_string();
        let start = format!("cannot add the route to {dst} via {gateway} of link {link}: ");
        assert!(error.starts_with(&start), "{error}");
        let reachable = Route {
            on_link: true,
            ..far
        };
        assert!(left.netlink.add_route(&reachable).unwrap());
        let found = listed(&mut left, &reachable);
        assert!(found.on_link);
        assert!(left.netlink.remove_route(&found).unwrap());
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_route_with_two_next_hops_is_listed_as_two() {
    let (mut left, _right) = cable();
    left.add("eth0", "10.0.0.5/24");
    left.ip("route add 10.8.0.0/16 nexthop via 10.0.0.1 nexthop via 10.0.0.2");
    let routes = left.netlink.routes().unwrap();
    let mut hops: Vec<_> = routes
        .iter()
        .filter(|route| route.dst.to_string() == "10.8.0.0/16")
        .map(|route| route.gateway.unwrap())
        .collect();
    hops.sort_unstable();
    assert_eq!(hops, [ip("10.0.0.1"), ip("10.0.0.2")]);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn rules_lead_to_tables_and_others_are_not_taken_for_them() {
    let mut space = Space::new();
    let before = space.netlink.rules().unwrap();
    assert!(before.iter().any(|rule| rule.priority == 32766));
    for from in ["10.0.0.5/32", "fd00::5/128"] {
        let rule = Rule {
            priority: 1001,
            from: from.parse().unwrap(),
            table: 1001,
        };
        assert!(space.netlink.add_rule(&rule).unwrap());
        assert!(!space.netlink.add_rule(&rule).unwrap());
        assert!(space.netlink.rules().unwrap().contains(&rule));
        assert!(space.netlink.remove_rule(&rule).unwrap());
        assert!(!space.netlink.remove_rule(&rule).unwrap());
    }
    for other in [
        "from 10.0.0.6 to 10.9.0.0/16 table 7",
        "from 10.0.0.6 fwmark 1 table 7",
        "from 10.0.0.6 iif lo table 7",
        "not from 10.0.0.6 table 7",
        "from 10.0.0.6 ipproto tcp table 7",
        "from 10.0.0.6 unreachable",
    ] {
        space.ip(&format!("rule add {other}"));
    }
    assert_eq!(space.netlink.rules().unwrap(), before);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn neighbours_are_set_changed_and_removed_also_those_that_this_host_answers_for() {
    let (mut left, _right) = cable();
    left.add("eth0", "10.0.0.5/24");
    left.add("eth0", "fd00::5/64");
    let link = left.link("eth0").index;
    for address in ["10.0.0.9", "fd00::9"] {
        let known = Neighbour {
            link,
            ip: ip(address),
            mac: Some(Mac([2, 0, 0, 0, 0, 1])),
            is_proxy: false,
            is_permanent: true,
        };
        let moved = Neighbour {
            mac: Some(Mac([2, 0, 0, 0, 0, 2])),
            ..known
        };
        left.netlink.put_neighbour(&known).unwrap();
        left.netlink.put_neighbour(&moved).unwrap();
        let listed = left.netlink.neighbours().unwrap();
        assert!(
            listed.contains(&moved) && !listed.contains(&known),
            "{listed:?}"
        );
        assert!(left.netlink.remove_neighbour(&moved).unwrap());

        let answered = Neighbour {
            link,
            ip: ip(address),
            mac: None,
            is_proxy: true,
            is_permanent: true,
        };
        left.netlink.put_neighbour(&answered).unwrap();
        left.netlink.put_neighbour(&answered).unwrap();
        assert!(left.netlink.neighbours().unwrap().contains(&answered));
        assert!(left.ip("neigh show proxy").contains(address));
        assert!(left.netlink.remove_neighbour(&answered).unwrap());
        assert!(!left.netlink.remove_neighbour(&answered).unwrap());
        assert!(!left.netlink.neighbours().unwrap().contains(&answered));
    }
}

/// A route to a destination on the link.
fn route(link: u32, dst: &str) -> Route {
    Route {
        dst: dst.parse().unwrap(),
        gateway: None,
        link,
        src: None,
        table: MAIN,
        metric: 0,
        protocol: 4,
        scope: LINK_SCOPE,
        on_link: false,
    }
}

/// The route as the kernel has it: it chooses the metric of IPv6.
fn listed(space: &mut Space, route: &Route) -> Route {
    let routes = space.netlink.routes().unwrap();
    let found = routes.iter().find(|found| {
        let wanted = Route {
            metric: found.metric,
            ..*route
        };
        **found == wanted
    });
    *found.unwrap_or_else(|| panic!("{route:?} is not among {routes:?}"))
}
