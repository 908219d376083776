use std::time::Duration;

use floe_core::lease::Moment;
use floe_net::netlink::{Address, Link, LinkKind};

use floe_core::vip::rules::Target;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn id(name: &str) -> VipId {
    VipId {
        namespace: "shop".into(),
        name: name.into(),
    }
}

fn link(index: u32, name: &str) -> Link {
    Link {
        index,
        name: name.into(),
        alias: None,
        mac: (name != "lo").then_some(Mac([2, 0, 0, 0, 0, 1])),
        mtu: 1500,
        is_up: true,
        has_carrier: true,
        master: None,
        is_blocked: false,
        parent: None,
        is_elsewhere: false,
        kind: LinkKind::Other(String::new()),
    }
}

fn address(link: u32, net: &str) -> Address {
    Address {
        link,
        net: net.parse().unwrap(),
        scope: 0,
        no_prefix_route: false,
        is_temporary: false,
    }
}

fn route(link: u32, dst: &str, gateway: Option<&str>) -> Route {
    Route {
        dst: dst.parse().unwrap(),
        gateway: gateway.map(ip),
        link,
        src: None,
        table: MAIN,
        metric: 0,
        protocol: 2,
        scope: 0,
        on_link: false,
    }
}

/// A node with one card, and pods behind a bridge and on cables of their own.
fn survey() -> Survey {
    Survey {
        links: vec![
            link(1, "lo"),
            link(2, "eth0"),
            link(3, "cni0"),
            link(4, "cali1"),
        ],
        addresses: vec![
            address(1, "127.0.0.1/8"),
            address(2, "10.9.0.2/24"),
            address(2, "fd00:9::2/64"),
            address(3, "10.1.0.1/24"),
        ],
        routes: vec![
            route(2, "0.0.0.0/0", Some("10.9.0.254")),
            route(2, "10.9.0.0/24", None),
            route(2, "10.2.0.0/24", Some("10.9.0.3")),
            route(3, "10.1.0.0/24", None),
            route(4, "10.1.0.77/32", None),
            route(4, "fd00:1::77/128", None),
        ],
        can_guard: true,
    }
}

fn pod(addresses: &[&str], mode: Mode) -> Candidate {
    Candidate {
        pod: "a".into(),
        uid: "u".into(),
        node: "n1".into(),
        node_address: ip("10.9.0.2"),
        addresses: addresses.iter().map(|it| ip(it)).collect(),
        mode,
        ready_since: 0,
    }
}

fn order(addresses: &[&str], role: Role, detail: Detail) -> Order {
    let addresses: Vec<IpAddr> = addresses.iter().map(|it| ip(it)).collect();
    Order {
        known: addresses.iter().copied().collect(),
        nodes: [ip("10.9.0.2"), ip("10.9.0.3")].into(),
        details: [(id("web"), detail)].into(),
        serving: Serving {
            number: 1,
            deadline: Some(Moment(Duration::from_secs(3))),
            roles: [(id("web"), Served { addresses, role })].into(),
        },
    }
}

fn planned(order: &Order) -> (Plan, Finding) {
    let plan = plan(order, &survey(), &BTreeMap::new());
    let found = plan.findings.get(&id("web")).cloned().unwrap_or_default();
    (plan, found)
}

#[test]
fn a_held_address_is_answered_on_the_link_of_its_subnet() {
    let role = Role::Holder(pod(&["10.1.0.11"], Mode::Nat));
    let (plan, found) = planned(&order(&["10.9.0.100"], role, Detail::default()));
    assert_eq!(found.trouble, None);
    assert_eq!(found.unreachable, None);
    assert_eq!(
        plan.answers,
        [("eth0".to_owned(), [ip("10.9.0.100")].into())].into()
    );
    let target = Target::Here {
        pod: ip("10.1.0.11"),
        link: "cni0".into(),
    };
    assert_eq!(plan.rules.target(ip("10.9.0.100")), Some(&target));
    let script = plan.rules.script();
    assert!(
        script.contains("inet floe-vip uplinks { \"eth0\" }"),
        "{script}"
    );
    assert!(script.contains("hook egress device \"eth0\""), "{script}");
    assert!(
        script.contains("netdev floe-vip announced4 { 10.9.0.100 }"),
        "{script}"
    );
    // Networks behind other nodes, and nodes, keep the pod's own address.
    assert!(
        script.contains("10.2.0.0/24") && script.contains("10.9.0.3/32"),
        "{script}"
    );
}

#[test]
fn both_families_go_to_the_pods_own_cable() {
    let role = Role::Holder(pod(&["10.1.0.77", "fd00:1::77"], Mode::Nat));
    let both = ["10.9.0.100", "fd00:9::100"];
    let detail = Detail {
        egress: true,
        ..Detail::default()
    };
    let (plan, found) = planned(&order(&both, role, detail));
    assert_eq!(found.trouble, None);
    for (vip, own) in both.into_iter().zip(["10.1.0.77", "fd00:1::77"]) {
        let target = Target::Here {
            pod: ip(own),
            link: "cali1".into(),
        };
        assert_eq!(plan.rules.target(ip(vip)), Some(&target));
    }
    let script = plan.rules.script();
    assert!(
        script.contains("egress4 { 10.1.0.77 : 10.9.0.100 }"),
        "{script}"
    );
}

#[test]
fn without_a_subnet_it_is_reachable_from_inside_only() {
    let holder = || Role::Holder(pod(&["10.1.0.11"], Mode::Nat));
    let (plan, found) = planned(&order(&["192.0.2.1"], holder(), Detail::default()));
    assert_eq!(found.unreachable, Some(Unreachable::NoInterface));
    assert_eq!(found.trouble, None);
    assert!(plan.answers.is_empty());
    assert!(plan.rules.target(ip("192.0.2.1")).is_some());
    for (interface, is_there) in [("eth0", true), ("eth7", false), ("lo", false)] {
        let detail = Detail {
            interface: interface.into(),
            ..Detail::default()
        };
        let (_, found) = planned(&order(&["192.0.2.1"], holder(), detail));
        assert_eq!(found.unreachable.is_none(), is_there, "{interface}");
    }
}

#[test]
fn what_cannot_be_served_says_why() {
    let cases = [
        (
            pod(&["10.1.0.11"], Mode::Nat),
            "fd00:9::100",
            "FamilyMissing",
        ),
        (pod(&["172.16.0.1"], Mode::Nat), "10.9.0.100", "NoRoute"),
        (
            pod(&["10.9.0.50"], Mode::Direct),
            "10.9.0.100",
            "NoNamespace",
        ),
    ];
    for (pod, vip, reason) in cases {
        for role in [Role::Holder(pod.clone()), Role::Prepared(pod)] {
            let (plan, found) = planned(&order(&[vip], role, Detail::default()));
            assert_eq!(found.trouble.map(|it| it.reason()), Some(reason));
            assert!(plan.answers.is_empty() && plan.rules.target(ip(vip)).is_none());
        }
    }
}

#[test]
fn a_pod_on_the_hosts_network_is_the_host() {
    let role = Role::Holder(pod(&["10.9.0.2"], Mode::Nat));
    let (plan, _) = planned(&order(&["10.9.0.100"], role, Detail::default()));
    let target = Target::Here {
        pod: ip("10.9.0.2"),
        link: "lo".into(),
    };
    assert_eq!(plan.rules.target(ip("10.9.0.100")), Some(&target));
}

#[test]
fn who_is_only_prepared_announces_nothing() {
    let role = Role::Prepared(pod(&["10.1.0.11"], Mode::Nat));
    let (plan, found) = planned(&order(&["10.9.0.100"], role, Detail::default()));
    assert_eq!(found, Finding::default());
    assert!(plan.rules.target(ip("10.9.0.100")).is_some());
    assert!(plan.answers.is_empty());
    assert!(!plan.rules.script().contains("announced4 { 10.9.0.100"));
}

#[test]
fn what_was_handed_over_is_led_to_its_node_and_what_is_away_to_its_pod() {
    let role = Role::HandedTo(ip("10.9.0.3"));
    let (plan, _) = planned(&order(
        &["10.9.0.100", "fd00:9::100"],
        role,
        Detail::default(),
    ));
    assert_eq!(plan.leads, [(ip("10.9.0.100"), (ip("10.9.0.3"), 2))].into());
    assert_eq!(plan.rules.target(ip("10.9.0.100")), None);

    let away = |mode| {
        let detail = Detail {
            mode,
            ..Detail::default()
        };
        let role = Role::Away(vec![ip("10.2.0.11")]);
        let (plan, _) = planned(&order(&["10.9.0.100"], role, detail));
        plan.rules.target(ip("10.9.0.100")).cloned()
    };
    let target = Target::Elsewhere {
        pod: ip("10.2.0.11"),
    };
    assert_eq!(away(Mode::Nat), Some(target));
    let mut survey = survey();
    let lead = route(2, "10.9.0.100/32", Some("10.9.0.3"));
    survey.routes.push(lead);
    let role = Role::Away(vec![ip("10.2.0.11")]);
    let order = order(&["10.9.0.100"], role, Detail::default());
    let script = super::plan(&order, &survey, &BTreeMap::new())
        .rules
        .script();
    assert!(!script.contains("10.9.0.100/32"), "{script}");
    assert_eq!(away(Mode::Direct), None);
}

/// What is guarded in [`room`] for one object.
fn guarded(name: &str) -> BTreeMap<PathBuf, Guarded> {
    let room = room(None);
    let guarded = Guarded {
        links: room.links,
        ids: BTreeSet::from([id(name)]),
    };
    BTreeMap::from([(room.netns, guarded)])
}

fn room(lower: Option<u32>) -> Room {
    Room {
        netns: "/run/netns/a".into(),
        link: 7,
        links: BTreeMap::from([("eth0".into(), 7)]),
        mac: Mac([2, 0, 0, 0, 0, 7]),
        lower,
        nets: vec!["10.5.0.0/24".parse().unwrap()],
    }
}

#[test]
fn a_direct_pod_gets_the_address_and_its_way_out_is_guarded() {
    let mut survey = survey();
    let mut veth = link(8, "veth1");
    (veth.kind, veth.master) = (LinkKind::Veth, Some(9));
    let mut card = link(10, "eth1");
    card.master = Some(9);
    survey
        .links
        .extend([veth, link(9, "br1"), card, link(11, "eth2")]);
    let role = Role::Holder(pod(&["10.5.0.50"], Mode::Direct));
    let order = order(&["10.5.0.100"], role, Detail::default());
    for (lower, exit) in [
        (Some(8), Some("eth1")),
        (Some(11), Some("eth2")),
        (None, None),
    ] {
        let rooms = [("u".to_owned(), room(lower))].into();
        let plan = plan(&order, &survey, &rooms);
        let loan = Loan {
            id: id("web"),
            room: Room {
                nets: Vec::new(),
                links: Links::new(),
                ..room(lower)
            },
            ip: ip("10.5.0.100"),
        };
        assert_eq!(plan.loans, [loan]);
        assert_eq!(plan.guarded, guarded("web"));
        assert_eq!(plan.findings[&id("web")], Finding::default());
        assert_eq!(plan.rules.target(ip("10.5.0.100")), None);
        let script = plan.rules.script();
        let devices: Vec<&str> = script
            .lines()
            .filter_map(|line| line.split("egress device \"").nth(1)?.split('"').next())
            .collect();
        assert_eq!(devices, exit.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn no_frame_of_a_direct_pod_leaves_before_it_is_the_holder() {
    let rooms = [("u".to_owned(), room(None))].into();
    let role = Role::Prepared(pod(&["10.5.0.50"], Mode::Direct));
    let order = order(&["10.5.0.100"], role, Detail::default());
    let plan = plan(&order, &survey(), &rooms);
    let mut rules = NodeRules::default();
    surroundings(&mut rules, &order, &survey());
    assert_eq!(plan.rules, rules);
    assert_eq!(plan.loans, []);
    // The guard in its namespace is ready before it may speak.
    assert_eq!(plan.guarded, guarded("web"));
}

#[test]
fn a_kernel_that_cannot_guard_gets_no_rules_for_it() {
    let role = Role::Holder(pod(&["10.1.0.11"], Mode::Nat));
    let order = order(&["10.9.0.100"], role, Detail::default());
    let survey = Survey {
        can_guard: false,
        ..survey()
    };
    let plan = plan(&order, &survey, &BTreeMap::new());
    assert!(!plan.rules.script().contains("netdev"));
    assert_eq!(plan.answers.len(), 1);
}

#[test]
fn a_pod_gets_no_address_itself_where_that_could_not_end_in_time() {
    let direct = pod(&["10.5.0.11"], Mode::Direct);
    let rooms = BTreeMap::from([(direct.uid.clone(), room(None))]);
    for role in [Role::Holder(direct.clone()), Role::Prepared(direct)] {
        let order = order(&["10.5.0.100"], role, Detail::default());
        let survey = Survey {
            can_guard: false,
            ..survey()
        };
        let plan = plan(&order, &survey, &rooms);
        assert!(plan.loans.is_empty());
        let found = &plan.findings[&id("web")];
        assert_eq!(found.trouble, Some(Trouble::Unguarded));
    }
}

fn on_node(mode: Mode) -> Candidate {
    pod(&["10.9.0.2"], mode)
}

fn node_detail() -> Detail {
    Detail {
        mode: Mode::Node,
        ..Detail::default()
    }
}

#[test]
fn a_node_has_the_addresses_itself_and_answers_on_the_link_that_is_near() {
    let both = ["10.9.0.100", "fd00:9::100"];
    let holder = Role::Holder(on_node(Mode::Node));
    let plan = plan(
        &order(&both, holder, node_detail()),
        &survey(),
        &BTreeMap::new(),
    );
    let own: BTreeSet<IpAddr> = both.iter().map(|it| ip(it)).collect();
    assert_eq!(plan.own, own);
    assert_eq!(plan.answers, [("eth0".to_owned(), own)].into());
    assert_eq!(
        plan.rules.target(ip("10.9.0.100")),
        None,
        "nothing is rewritten"
    );
    assert!(plan.rules.has_own());
    let found = &plan.findings[&id("web")];
    assert_eq!((&found.trouble, &found.unreachable), (&None, &None));
}

#[test]
fn a_node_that_is_prepared_has_the_addresses_and_tells_nobody() {
    let prepared = Role::Prepared(on_node(Mode::Node));
    let order = order(&["10.9.0.100"], prepared, node_detail());
    let plan = plan(&order, &survey(), &BTreeMap::new());
    assert_eq!(plan.own, [ip("10.9.0.100")].into());
    assert!(plan.answers.is_empty());
    let script = plan.rules.script();
    assert!(!script.contains("announced4 {  10"), "{script}");
    assert!(
        !script.contains("add element netdev floe-vip announced4"),
        "{script}"
    );
}

#[test]
fn a_node_without_the_subnet_says_so_and_one_that_cannot_end_it_in_time_refuses() {
    let holder = || Role::Holder(on_node(Mode::Node));
    let far = order(&["172.16.0.9"], holder(), node_detail());
    let far = plan(&far, &survey(), &BTreeMap::new());
    assert_eq!(far.own, [ip("172.16.0.9")].into());
    let found = &far.findings[&id("web")];
    assert_eq!(found.unreachable, Some(Unreachable::NoInterface));
    let old = Survey {
        can_guard: false,
        ..survey()
    };
    let refused = order(&["10.9.0.100"], holder(), node_detail());
    let refused = plan(&refused, &old, &BTreeMap::new());
    assert_eq!(
        refused.findings[&id("web")].trouble,
        Some(Trouble::Unguarded)
    );
    assert!(refused.own.is_empty());
}

#[test]
fn others_ask_their_neighbours_for_the_address_of_a_node_or_have_a_route_to_it() {
    let away = || Role::Away(vec![ip("10.9.0.3")]);
    let near = order(&["10.9.0.100"], away(), node_detail());
    let near = plan(&near, &survey(), &BTreeMap::new());
    assert!(near.leads.is_empty());
    assert_eq!(near.rules.target(ip("10.9.0.100")), None);
    let far = order(&["172.16.0.9"], away(), node_detail());
    let far = plan(&far, &survey(), &BTreeMap::new());
    assert_eq!(far.leads, [(ip("172.16.0.9"), (ip("10.9.0.3"), 2))].into());
}

#[test]
fn a_link_that_is_lost_is_another_thing_than_none_at_all() {
    let both = ["10.9.0.100", "fd00:9::100"];
    let held = |interface: &str| {
        let role = Role::Holder(pod(&["10.1.0.77", "fd00:1::77"], Mode::Nat));
        let detail = Detail {
            interface: interface.into(),
            ..Detail::default()
        };
        order(&both, role, detail)
    };
    let whole = survey();
    let mut down = survey();
    down.links[1].is_up = false;
    let mut half = survey();
    half.addresses.retain(|it| it.net.addr() != ip("fd00:9::2"));
    let mut heard = Heard::default();
    let mut found = |order: &Order, survey: &Survey| {
        let mut plan = plan(order, survey, &BTreeMap::new());
        heard.judge(order, &mut plan);
        let found = plan.findings.remove(&id("web")).unwrap_or_default();
        assert_eq!(found.trouble, None);
        found.unreachable
    };
    // It never had one.
    assert_eq!(found(&held(""), &down), Some(Unreachable::NoInterface));
    assert_eq!(found(&held(""), &whole), None);
    assert_eq!(found(&held(""), &down), Some(Unreachable::LinkLost));
    assert_eq!(found(&held(""), &half), Some(Unreachable::LinkLost));
    assert_eq!(found(&held(""), &whole), None);
    // A person wants it elsewhere, where it never was.
    assert_eq!(found(&held("eth7"), &whole), Some(Unreachable::NoInterface));
    assert_eq!(found(&held(""), &whole), None);
    // It was given away meanwhile.
    let away = order(&both, Role::Away(vec![ip("10.2.0.5")]), Detail::default());
    assert_eq!(found(&away, &down), None);
    assert_eq!(found(&held(""), &down), Some(Unreachable::NoInterface));
}

#[test]
fn nobody_asks_a_pod_for_an_address_that_none_of_its_subnets_has() {
    let rooms = [("u".to_owned(), room(None))].into();
    for (address, unreachable) in [
        ("10.5.0.100", None),
        ("10.9.0.100", Some(Unreachable::NoInterfaceInPod)),
    ] {
        let role = Role::Holder(pod(&["10.5.0.50"], Mode::Direct));
        let order = order(&[address], role, Detail::default());
        let plan = plan(&order, &survey(), &rooms);
        let found = &plan.findings[&id("web")];
        assert_eq!((&found.unreachable, plan.loans.len()), (&unreachable, 1));
    }
}

#[test]
fn of_several_objects_of_a_pod_the_first_says_how_it_leaves_and_the_others_tell() {
    let egress = Detail {
        egress: true,
        ..Detail::default()
    };
    let role = || Role::Holder(pod(&["10.1.0.11"], Mode::Nat));
    let mut both = order(&["10.9.0.100", "10.9.0.99"], role(), egress.clone());
    let other = Served {
        addresses: vec![ip("10.9.0.98")],
        role: role(),
    };
    both.serving.roles.insert(id("web-2"), other);
    both.details.insert(id("web-2"), egress);
    let plan = plan(&both, &survey(), &BTreeMap::new());
    let script = plan.rules.script();
    assert!(
        script.contains("egress4 { 10.1.0.11 : 10.9.0.100 }"),
        "{script}"
    );
    let why = |name: &str| plan.findings[&id(name)].no_egress.as_ref();
    assert_eq!(why("web"), None);
    assert_eq!(why("web-2").map(RuleRefusal::reason), Some("EgressTaken"));
    assert_eq!(plan.findings[&id("web-2")].trouble, None);
}
