use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn full() -> NodeRules {
    let mut rules = NodeRules::default();
    rules.add_uplink("eth0").unwrap();
    rules.add_exit("eth0").unwrap();
    rules.add_exit("bond0.12").unwrap();
    rules
        .hold(ip("10.9.0.100"), ip("10.244.1.5"), "cni0")
        .unwrap();
    rules
        .hold(ip("10.9.0.101"), ip("10.244.1.6"), "cni0")
        .unwrap();
    rules
        .hold(ip("fd00:9::100"), ip("fd00:244::5"), "cni0")
        .unwrap();
    rules.send_away(ip("10.9.0.102"), ip("10.244.2.7")).unwrap();
    rules
        .send_away(ip("fd00:9::102"), ip("fd00:245::7"))
        .unwrap();
    rules.leave_as(ip("10.244.1.5"), ip("10.9.0.100")).unwrap();
    rules.announce(ip("10.9.0.100"));
    rules.announce(ip("fd00:9::100"));
    rules.know(ip("10.9.0.103"));
    rules.add_inside("10.244.0.0/16".parse().unwrap());
    rules.add_inside("fd00:244::/32".parse().unwrap());
    rules
}

#[test]
fn the_rules_of_a_node_with_everything_are_these() {
    assert_eq!(full().script(), include_str!("golden/full.nft"));
}

#[test]
fn the_rules_of_a_node_that_serves_nothing_have_no_elements() {
    let script = NodeRules::default().script();
    assert_eq!(script, include_str!("golden/empty.nft"));
    assert!(!script.contains("add element"));
    assert!(!script.contains("netdev"));
}

#[test]
fn no_script_touches_who_is_alive() {
    let script = full().script();
    let mut lines = script.lines();
    assert!(!lines.any(|line| {
        line.starts_with("flush set") && line.ends_with(" alive")
            || line.starts_with("add element") && line.contains(" alive ")
            || line.starts_with("delete")
    }));
}

#[test]
fn a_move_among_a_thousand_is_a_script_of_its_own_elements() {
    let rules = |moved: bool| {
        let mut rules = NodeRules::default();
        rules.add_uplink("eth0").unwrap();
        rules.add_exit("eth0").unwrap();
        for number in 0..1_000_u32 {
            let vip = IpAddr::from(std::net::Ipv4Addr::from(0x0a00_0000 + number));
            if number == 7 && moved {
                rules.hold(vip, ip("10.244.1.2"), "veth1").unwrap();
                rules.announce(vip);
            } else {
                rules.send_away(vip, ip("10.244.2.2")).unwrap();
            }
        }
        rules
    };
    let (before, after) = (rules(false), rules(true));
    let words = "\
delete element inet floe-vip away4 { 10.0.0.7 : 10.244.2.2 }
add element inet floe-vip hairpin { \"veth1\" . \"veth1\" }
add element inet floe-vip held4 { 10.0.0.7 : 10.244.1.2 }
add element inet floe-vip here4 { 10.0.0.7 }
add element netdev floe-vip announced4 { 10.0.0.7 }
";
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let script = after.script_since(&before).unwrap();
    let (mut found, mut wanted) = (lines(&script), lines(words));
    found[1..].sort();
    wanted[1..].sort();
    assert_eq!(found, wanted);
    assert_eq!(after.script_since(&after).unwrap(), "");
    // There and back again.
    let back = before.script_since(&after).unwrap();
    assert_eq!(back.matches("delete element").count(), 4);
    assert_eq!(back.matches("add element").count(), 1);
}

#[test]
fn what_is_more_than_elements_is_told_as_a_whole() {
    let one = full();
    let mut other = full();
    other.add_exit("eth7").unwrap();
    assert_eq!(other.script_since(&one), None);
    assert_eq!(one.script_since(&other), None);
    let mut other = full();
    other.add_inside("10.99.0.0/16".parse().unwrap());
    assert_eq!(other.script_since(&one), None);
}

#[test]
fn a_removal_works_also_when_there_is_nothing() {
    assert_eq!(
        removal(TABLE),
        "add table inet floe-vip\ndelete table inet floe-vip\n"
    );
}

#[test]
fn a_pod_leaves_with_one_address_of_a_family_and_the_first_one_stays() {
    let mut rules = full();
    let (pod, first, second) = (ip("10.244.1.5"), ip("10.9.0.100"), ip("10.9.0.99"));
    let refused = rules.leave_as(pod, second).unwrap_err();
    assert_eq!(refused.reason(), "EgressTaken");
    assert_eq!(rules.leave_as(pod, first), Ok(()));
    assert_eq!(rules, full());
}

#[test]
fn an_address_has_one_target_and_the_last_word_counts() {
    let mut rules = full();
    let vip = ip("10.9.0.100");
    rules.send_away(vip, ip("10.244.2.9")).unwrap();
    assert_eq!(
        rules.target(vip),
        Some(&Target::Elsewhere {
            pod: ip("10.244.2.9")
        })
    );
    let script = rules.script();
    assert!(!script.contains("held4 { 10.9.0.100"), "{script}");
    assert!(
        script.contains("away4 { 10.9.0.100 : 10.244.2.9"),
        "{script}"
    );
}

#[test]
fn connections_of_what_came_went_or_changed_are_forgotten_and_no_others() {
    let earlier = full();
    assert!(earlier.changed_since(&earlier).is_empty());
    let mut rules = full();
    // Another pod, another node, and a new one.
    rules
        .hold(ip("10.9.0.101"), ip("10.244.1.7"), "cni0")
        .unwrap();
    rules
        .hold(ip("fd00:9::102"), ip("fd00:244::7"), "cni0")
        .unwrap();
    rules.send_away(ip("10.9.0.104"), ip("10.244.2.4")).unwrap();
    let expected = BTreeSet::from([ip("10.9.0.101"), ip("fd00:9::102"), ip("10.9.0.104")]);
    assert_eq!(rules.changed_since(&earlier), expected);
    assert_eq!(earlier.changed_since(&rules), expected);
    // What leaves with another address.
    let mut rules = full();
    rules.egress.clear();
    rules.leave_as(ip("10.244.1.5"), ip("10.9.0.101")).unwrap();
    let expected = BTreeSet::from([ip("10.9.0.100"), ip("10.9.0.101")]);
    assert_eq!(rules.changed_since(&earlier), expected);
}

#[test]
fn announcements_alone_change_no_connection() {
    let mut rules = full();
    rules.announce(ip("10.9.0.101"));
    assert!(rules.changed_since(&full()).is_empty());
}

#[test]
fn what_cannot_be_a_link_is_refused_before_it_is_in_a_script() {
    let mut rules = NodeRules::default();
    for name in [
        "",
        ".",
        "..",
        "a b",
        "eth0\"",
        "x;flush ruleset",
        "a/b",
        "a\nb",
        "sixteen-letters-",
        "eth*",
        "ü",
    ] {
        let refusal = rules.add_uplink(name).unwrap_err();
        assert_eq!(refusal.reason(), "InvalidLink", "{name:?}");
        assert!(rules.add_exit(name).is_err());
        assert!(rules.hold(ip("10.9.0.1"), ip("10.1.0.1"), name).is_err());
    }
    assert_eq!(rules, NodeRules::default());
    for name in ["eth0", "bond0.12", "br-1_x", "veth0@a"] {
        rules.add_uplink(name).unwrap();
    }
}

#[test]
fn addresses_of_two_families_do_not_meet() {
    let mut rules = NodeRules::default();
    let refusal = rules
        .hold(ip("10.9.0.1"), ip("fd00::1"), "cni0")
        .unwrap_err();
    assert_eq!(refusal.reason(), "FamilyMissing");
    assert!(rules.send_away(ip("fd00::1"), ip("10.1.0.1")).is_err());
    assert!(rules.leave_as(ip("fd00::1"), ip("10.1.0.1")).is_err());
    assert_eq!(rules, NodeRules::default());
}

#[test]
fn a_thousand_addresses_are_as_many_lines_as_one() {
    let lines = |count: u16| {
        let mut rules = NodeRules::default();
        for number in 0..count {
            let [high, low] = number.to_be_bytes();
            let vip = IpAddr::from([10, 9, high, low]);
            rules.hold(vip, ip("10.244.1.5"), "cni0").unwrap();
        }
        rules.script().lines().count()
    };
    assert_eq!(lines(1), lines(1000));
}

#[test]
fn links_whose_names_are_alike_have_chains_of_their_own() {
    let mut rules = NodeRules::default();
    for name in ["a.b", "a_b", "a-b", "ab"] {
        rules.add_exit(name).unwrap();
    }
    let script = rules.script();
    let chains: BTreeSet<_> = script
        .lines()
        .filter(|line| line.contains("hook egress"))
        .filter_map(|line| line.split_whitespace().nth(4))
        .collect();
    assert_eq!(chains.len(), 4, "{chains:?}");
}

#[test]
fn an_address_of_the_host_is_guarded_and_the_kernel_answers_for_it_on_no_link() {
    let mut rules = NodeRules::default();
    rules.add_exit("eth0").unwrap();
    assert!(!rules.script().contains("table arp"));
    rules.own(ip("10.9.0.100"));
    rules.own(ip("fd00:9::100"));
    let script = rules.script();
    for line in [
        "add element inet floe-vip here4 { 10.9.0.100 }",
        "add element inet floe-vip here6 { fd00:9::100 }",
        "add element netdev floe-vip known4 { 10.9.0.100 }",
        "add rule arp floe-vip asked arp operation request arp daddr ip @own drop",
        "add element arp floe-vip own { 10.9.0.100 }",
    ] {
        assert!(script.lines().any(|it| it == line), "{line}: {script}");
    }
    // Nothing is rewritten, and nothing is announced before somebody says so.
    assert!(!script.contains(" held4 { 10.9.0.100"), "{script}");
    assert!(
        !script.contains("add element netdev floe-vip announced"),
        "{script}"
    );
}

#[test]
fn a_pair_that_is_served_again_is_neither_ended_nor_leaving() {
    let mut rules = full();
    let served = rules.pairs();
    let other = Pair {
        vip: ip("10.9.0.100"),
        pod: ip("10.244.1.9"),
    };
    let elsewhere = Pair {
        vip: ip("10.9.0.102"),
        pod: ip("10.244.2.7"),
    };
    rules.end(served.iter().copied().chain([other, elsewhere]));
    rules.leave(served.iter().copied());
    let script = rules.script();
    let ended = "add element inet floe-vip ended4 { 10.9.0.100 . 10.244.1.9 }";
    assert!(script.contains(ended), "{script}");
    assert!(!script.contains("add element inet floe-vip leaving"));
    // What is served elsewhere is no pair of this node, and what leaves with an address is.
    assert!(served.iter().all(|it| it.vip != ip("10.9.0.102")));
    let egress = Pair {
        vip: ip("10.9.0.100"),
        pod: ip("10.244.1.5"),
    };
    assert!(served.contains(&egress));
}
