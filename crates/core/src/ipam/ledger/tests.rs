use super::*;
use crate::{
    config::fixture,
    ipam::{choice::Wish, families::Family, policy::ReleasePolicy},
};

mod shared;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn record(address: &str, key: &str) -> Record {
    Record {
        ip: ip(address),
        key: key.into(),
        policy: ReleasePolicy::Never,
        node: String::new(),
        uid: String::new(),
        updated: at(0),
        reserved: false,
        workload_note: None,
    }
}

fn promise(group: &str, places: usize, addresses: &[&str], until: i64) -> Promise {
    Promise {
        group: group.into(),
        namespace: "ns1".into(),
        app_prefix: group.into(),
        places,
        addresses: addresses.iter().map(|text| ip(text)).collect(),
        until: at(until),
    }
}

/// One new address by node subnet, as a pod without ranges gets it.
fn allocate(ledger: &mut Ledger, subnet: &str, key: &str) -> Option<IpAddr> {
    let found = Wish::Any(Family::V4).free(ledger, net(subnet), 1);
    let ip = *found.first()?;
    ledger.observe(Record {
        ip,
        ..record("0.0.0.0", key)
    });
    Some(ip)
}

fn spares(ledger: &Ledger, group: &str) -> Vec<String> {
    let Some(group) = ledger.group(&group.into()) else {
        return Vec::new();
    };
    let mut all: Vec<SpareRank> = group
        .entries_with_spares()
        .flat_map(|entry| group.spares_of(entry))
        .collect();
    all.sort_unstable();
    all.iter().map(|(_, ip)| ip.to_string()).collect()
}

#[test]
fn an_address_comes_from_the_entries_of_the_node_subnet() {
    let mut ledger = Ledger::new(fixture::t());
    let table = [
        ("10.173.13.0/24", "10.173.13.0/24"),
        ("10.180.1.2/32", "10.180.154.0/24"),
        ("10.180.1.3/32", "10.180.154.0/24"),
        ("10.0.1.0/24", "10.0.70.0/24"),
        ("10.0.2.0/24", "10.0.70.0/24"),
        ("10.49.29.0/24", "10.0.80.0/24"),
    ];
    for (node_subnet, pod_subnet) in table {
        let ip = allocate(&mut ledger, node_subnet, "sts_ns1_a_a-0").unwrap();
        assert!(net(pod_subnet).contains(&ip), "{ip} is not in {pod_subnet}");
        assert!(ledger.carries(net(node_subnet), ip));
    }
    let unknown = allocate(&mut ledger, "10.173.14.0/24", "sts_ns1_a_a-0");
    assert_eq!(unknown, None);
}

#[test]
fn a_node_subnet_of_two_entries_uses_both() {
    let mut ledger = Ledger::new(fixture::t());
    let mut found = BTreeSet::new();
    while let Some(ip) = allocate(&mut ledger, "10.49.28.0/26", "sts_ns1_a_a-0") {
        assert!(found.insert(ip));
    }
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    let all = [
        "10.0.80.2",
        "10.0.80.3",
        "10.0.80.4",
        "10.0.81.2",
        "10.0.81.3",
        "10.0.81.4",
    ];
    assert_eq!(found, all);
    assert_eq!(
        allocate(&mut ledger, "10.49.29.0/24", "sts_ns1_a_a-0"),
        None
    );
}

#[test]
fn a_new_key_moves_the_same_address() {
    let mut ledger = Ledger::new(fixture::t());
    let taken = allocate(&mut ledger, "10.49.27.0/24", "sts_ns1_a_pod2").unwrap();
    let moved = Record {
        key: "sts_ns1_a_pod3".into(),
        ..ledger.record(taken).unwrap().clone()
    };
    ledger.observe(moved);
    assert_eq!(ledger.held_by(&"sts_ns1_a_pod2".into()).count(), 0);
    let held: Vec<IpAddr> = ledger
        .held_by(&"sts_ns1_a_pod3".into())
        .map(|it| it.ip)
        .collect();
    assert_eq!(held, [taken]);
    assert_eq!(ledger.records().count(), 1);
}

#[test]
fn two_spellings_of_an_address_are_one_record() {
    let mut ledger = Ledger::new(fixture::t());
    ledger.observe(record("::ffff:10.49.27.205", "sts_ns1_a_a-0"));
    assert!(!ledger.is_free(ip("10.49.27.205")));
    assert!(ledger.record(ip("::ffff:10.49.27.205")).is_some());
    assert!(ledger.forget(ip("::ffff:10.49.27.205")).is_some());
    assert!(ledger.is_free(ip("10.49.27.205")));
    assert!(ledger.forget(ip("10.49.27.205")).is_none());
}

#[test]
fn a_freed_address_rests_longest() {
    let mut ledger = Ledger::new(fixture::t());
    let first = allocate(&mut ledger, "10.180.1.2/32", "sts_ns1_a_a-0").unwrap();
    ledger.forget(first);
    let second = allocate(&mut ledger, "10.180.1.2/32", "sts_ns1_a_a-0").unwrap();
    assert_ne!(first, second, "the other one has been free for longer");
    // It also does so after a change of the configuration.
    ledger.forget(second);
    ledger.reconfigure(fixture::t());
    let third = allocate(&mut ledger, "10.180.1.2/32", "sts_ns1_a_a-0").unwrap();
    assert_eq!(third, first);
}

#[test]
fn groups_never_cross_pools() {
    let mut ledger = Ledger::new(fixture::t());
    ledger.observe(record("10.49.27.205", "pool__a_"));
    ledger.observe(record("10.49.27.216", "pool__a_dp_ns1_x_x-1"));
    // A record of galaxy for the pool `a_b`, as its text has it.
    ledger.observe(record("10.49.27.217", "pool__a_b_dp_ns1_x_x-2"));
    ledger.observe(record("10.49.27.218", "pool__a_b_"));
    let group = HolderKey::from("pool__a_");
    let under: Vec<String> = ledger.under(&group).map(|it| it.ip.to_string()).collect();
    assert_eq!(under, ["10.49.27.205", "10.49.27.216"]);
    assert_eq!(ledger.starting_with("pool__a_").count(), 4);
    assert_eq!(ledger.group(&group).unwrap().held(Scope::Group), 1);
    assert_eq!(spares(&ledger, "pool__a_"), ["10.49.27.205"]);
}

#[test]
fn apps_and_namespaces_of_a_pool_are_counted_apart() {
    let mut ledger = Ledger::new(fixture::t());
    for (last, key) in [
        (2, "pool__p_dp_ns1_a_a-1"),
        (3, "pool__p_dp_ns1_a_a-2"),
        (4, "pool__p_dp_ns1_b_b-1"),
        (5, "pool__p_sts_ns2_c_c-0"),
        (6, "pool__p_"),
        (7, "dp_ns1_a_a-3"),
    ] {
        ledger.observe(record(&format!("10.0.70.{last}"), key));
    }
    let pool = HolderKey::from("pool__p_");
    let group = ledger.group(&pool).unwrap();
    assert_eq!(group.held(Scope::Group), 4);
    assert_eq!(group.held(Scope::App(&"pool__p_dp_ns1_a_".into())), 2);
    assert_eq!(group.held(Scope::Namespace("ns1")), 3);
    assert_eq!(group.held(Scope::Namespace("ns3")), 0);
    let mut wanted = promise("pool__p_", 2, &[], 9);
    wanted.app_prefix = "pool__p_dp_ns1_b_".into();
    ledger.promise("u", wanted);
    let group = ledger.group(&pool).unwrap();
    assert_eq!(group.promised(Scope::Group), 2);
    assert_eq!(group.promised(Scope::App(&"pool__p_dp_ns1_a_".into())), 0);
    assert_eq!(group.promised(Scope::Namespace("ns1")), 2);
    let alone = HolderKey::from("dp_ns1_a_");
    let group = ledger.group(&alone).unwrap();
    assert_eq!(group.held(Scope::App(&alone)), 1);
    for last in 2..=7 {
        ledger.forget(IpAddr::from([10, 0, 70, last]));
    }
    ledger.withdraw("u");
    assert!(ledger.group(&pool).is_none() && ledger.group(&alone).is_none());
}

#[test]
fn only_idle_unreserved_configured_addresses_are_spares() {
    let mut ledger = Ledger::new(fixture::t());
    let spare = |address, updated| Record {
        updated: at(updated),
        ..record(address, "dp_ns1_a_")
    };
    ledger.observe(spare("10.49.27.205", 1));
    ledger.observe(spare("10.173.13.2", 3));
    ledger.observe(spare("10.49.27.216", 2));
    ledger.observe(spare("192.168.0.1", 4));
    ledger.observe(Record {
        reserved: true,
        ..spare("10.49.27.217", 5)
    });
    ledger.observe(Record {
        uid: "u".into(),
        ..spare("10.49.27.218", 6)
    });
    let all = ["10.173.13.2", "10.49.27.216", "10.49.27.205"];
    assert_eq!(spares(&ledger, "dp_ns1_a_"), all);
    // Taken away by the configuration, and back again.
    ledger.reconfigure(fixture::config("[]"));
    assert!(spares(&ledger, "dp_ns1_a_").is_empty());
    assert!(ledger.is_outside(ip("10.49.27.205")));
    assert_eq!(ledger.records().count(), 6);
    ledger.reconfigure(fixture::t());
    assert_eq!(spares(&ledger, "dp_ns1_a_"), all);
}

#[test]
fn a_promise_sets_aside_and_lapses() {
    let mut ledger = Ledger::new(fixture::t());
    ledger.observe(record("10.49.27.205", "dp_ns1_a_"));
    ledger.promise(
        "u1",
        promise("dp_ns1_a_", 2, &["10.49.27.205", "10.49.27.216"], 5),
    );
    assert!(spares(&ledger, "dp_ns1_a_").is_empty());
    assert!(!ledger.is_free(ip("10.49.27.216")));
    assert_eq!(ledger.promised_to(ip("10.49.27.216")), Some("u1"));
    // Nobody gets what is promised to another.
    ledger.promise(
        "u2",
        promise("dp_ns1_a_", 1, &["10.49.27.216", "10.49.27.217"], 7),
    );
    let kept: Vec<IpAddr> = ledger
        .promise_to("u2")
        .unwrap()
        .addresses
        .iter()
        .copied()
        .collect();
    assert_eq!(kept, [ip("10.49.27.217")]);
    assert_eq!(ledger.promises().count(), 2);

    assert!(ledger.lapse(at(4)).is_empty());
    assert_eq!(ledger.lapse(at(5)), ["u1"]);
    assert_eq!(spares(&ledger, "dp_ns1_a_"), ["10.49.27.205"]);
    assert!(ledger.is_free(ip("10.49.27.216")));
    assert_eq!(ledger.lapse(at(100)), ["u2"]);
    assert_eq!(ledger.promises().count(), 0);
}

#[test]
fn a_record_outlives_the_promise_that_led_to_it() {
    let mut ledger = Ledger::new(fixture::t());
    ledger.promise("u", promise("dp_ns1_a_", 1, &["10.49.27.216"], 5));
    ledger.observe(record("10.49.27.216", "dp_ns1_a_a-1"));
    ledger.withdraw("u");
    assert!(!ledger.is_free(ip("10.49.27.216")));
    // And a promise outlives a record that went away.
    ledger.promise("u", promise("dp_ns1_a_", 1, &["10.49.27.216"], 5));
    ledger.forget(ip("10.49.27.216"));
    assert!(!ledger.is_free(ip("10.49.27.216")));
    ledger.withdraw("u");
    assert!(ledger.is_free(ip("10.49.27.216")));
}

#[test]
fn an_address_that_its_pod_has_by_now_is_not_counted_as_promised_as_well() {
    let held_by = |uid: &str, address: &str| Record {
        uid: uid.into(),
        ..record(address, "dp_ns1_a_a-1")
    };
    let used = |ledger: &Ledger| {
        let group = ledger.group(&"dp_ns1_a_".into());
        group.map_or(0, |it| it.held(Scope::Group) + it.promised(Scope::Group))
    };
    let mut ledger = Ledger::new(fixture::t());
    // It holds one, and gets two more.
    ledger.observe(held_by("u", "10.49.27.205"));
    ledger.promise("u", promise("dp_ns1_a_", 2, &["10.49.27.216"], 5));
    assert_eq!(used(&ledger), 3);
    // Another process writes the records; that of an earlier one is written again.
    ledger.observe(held_by("u", "10.49.27.216"));
    assert_eq!(used(&ledger), 3);
    ledger.observe(held_by("u", "10.49.27.205"));
    ledger.observe(held_by("u", "10.49.27.216"));
    assert_eq!(used(&ledger), 3);
    ledger.observe(held_by("u", "10.49.27.217"));
    assert_eq!(used(&ledger), 3);
    // One goes again: the pod still waits for it.
    ledger.forget(ip("10.49.27.217"));
    assert_eq!(used(&ledger), 3);
    assert_eq!(ledger.promise_to("u").unwrap().places, 1);
    // Records of others carry nothing out.
    ledger.observe(held_by("v", "10.49.27.218"));
    assert_eq!(used(&ledger), 4);
    ledger.withdraw("u");
    assert_eq!(used(&ledger), 3);
}

#[test]
fn an_ipv6_network_costs_no_more_than_an_address() {
    let text = r#"[{"nodeSubnets":["10.0.0.0/8"],"ips":["fd00::2~fd00::ffff:ffff:ffff:fffe"],
        "subnet":"fd00::/64","gateway":"fd00::1"}]"#;
    let mut ledger = Ledger::new(fixture::config(text));
    let any = Wish::Any(Family::V6);
    for last in 2..5 {
        let found = any.free(&ledger, net("10.0.0.0/8"), 1);
        assert_eq!(found, [ip(&format!("fd00::{last}"))]);
        ledger.observe(record(&format!("fd00::{last}"), "sts_ns1_a_a-0"));
    }
    ledger.forget(ip("fd00::3"));
    assert_eq!(any.free(&ledger, net("10.0.0.0/8"), 1), [ip("fd00::5")]);
    assert!(
        Wish::Any(Family::V4)
            .free(&ledger, net("10.0.0.0/8"), 1)
            .is_empty()
    );
}
