use super::*;
use crate::config::fixture::{config, t};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn positions(ids: &[EntryId]) -> Vec<usize> {
    ids.iter().map(|id| id.position()).collect()
}

/// One entry for each list of node subnets, with the address 10.9.n.2.
fn topology(subnets: &[&str]) -> Topology {
    let entries: Vec<_> = subnets
        .iter()
        .enumerate()
        .map(|(n, subnets)| {
            let subnets = subnets.replace(' ', r#"", ""#);
            format!(
                r#"{{"nodeSubnets": ["{subnets}"], "subnet": "10.9.{n}.0/24", "gateway": "10.9.{n}.1", "ips": ["10.9.{n}.2"]}}"#
            )
        })
        .collect();
    Topology::new(config(&format!("[{}]", entries.join(","))))
}

#[test]
fn nodes_of_the_fixture_have_a_subnet() {
    let topology = Topology::new(t());
    let cases = [
        ("10.49.27.0", Some("10.49.27.0/24")),
        ("10.173.13.1", Some("10.173.13.0/24")),
        ("10.180.1.2", Some("10.180.1.2/32")),
        ("10.180.1.3", Some("10.180.1.3/32")),
        ("10.180.1.4", None),
        ("10.0.1.0", Some("10.0.1.0/24")),
        ("10.0.2.4", Some("10.0.2.0/24")),
        ("10.49.28.63", Some("10.49.28.0/26")),
        ("10.49.28.64", None),
        ("10.49.29.3", Some("10.49.29.0/24")),
        ("10.48.28.2", None),
        ("::ffff:10.0.2.4", Some("10.0.2.0/24")),
        ("::10.0.2.4", None),
    ];
    for (node, subnet) in cases {
        assert_eq!(topology.node_subnet(ip(node)), subnet.map(net), "{node}");
    }
    assert_eq!(topology.node_subnets().count(), 8);
    assert_eq!(Topology::default().node_subnet(ip("10.0.1.0")), None);
}

#[test]
fn subnets_and_entries_of_the_fixture() {
    let topology = Topology::new(t());
    // In the order of the gateways: T5 T6 T7 T1 T2 T3 T4.
    let cases: [(&str, &[usize]); 6] = [
        ("10.49.28.0/26", &[1, 2]),
        ("10.49.29.0/24", &[1]),
        ("10.0.1.0/24", &[0]),
        ("10.180.1.3/32", &[6]),
        ("10.49.28.0/25", &[]),
        ("10.180.1.4/32", &[]),
    ];
    for (subnet, entries) in cases {
        assert_eq!(
            positions(topology.entries_of(net(subnet))),
            entries,
            "{subnet}"
        );
    }
    for (subnet, ids) in topology.node_subnets() {
        assert_eq!(topology.entries_of(subnet), ids);
        assert!(
            ids.iter()
                .all(|&id| topology.entry(id).node_subnets().contains(&subnet))
        );
    }
}

#[test]
fn each_pod_address_has_one_entry() {
    let topology = Topology::new(t());
    let cases = [
        ("10.49.27.205", Some(3)),
        ("10.49.27.206", None),
        ("10.49.27.217", Some(3)),
        ("10.180.154.3", Some(5)),
        ("10.180.154.4", None),
        ("10.180.154.7", Some(6)),
        ("10.0.70.2", Some(0)),
        ("10.0.70.1", None),
        ("10.0.70.20", Some(0)),
        ("::ffff:10.0.70.20", Some(0)),
        ("10.0.70.21", None),
        ("0.0.0.0", None),
        ("255.255.255.255", None),
        ("fd00::1", None),
    ];
    for (pod, entry) in cases {
        let owner = topology.entry_of(ip(pod));
        assert_eq!(owner.map(EntryId::position), entry, "{pod}");
        assert_eq!(topology.node_subnets_of(ip(pod)).is_some(), entry.is_some());
    }
    let subnets = topology.node_subnets_of(ip("10.0.80.4")).unwrap();
    assert_eq!(
        *subnets,
        BTreeSet::from([net("10.49.28.0/26"), net("10.49.29.0/24")])
    );
    for (id, entry) in topology.config().enumerate() {
        assert!(entry.addresses().ranges().all(|range| {
            topology.entry_of(range.first()) == Some(id)
                && topology.entry_of(range.last()) == Some(id)
        }));
    }
}

#[test]
fn of_nested_subnets_the_inner_one_wins() {
    let topology = topology(&[
        "10.0.0.0/16",
        "10.0.1.0/24",
        "10.0.1.7/32 10.0.0.0/16",
        "0.0.0.0/0",
    ]);
    let cases: [(&str, &str, &[usize]); 4] = [
        ("10.0.2.1", "10.0.0.0/16", &[0, 2]),
        ("10.0.1.1", "10.0.1.0/24", &[1]),
        ("10.0.1.7", "10.0.1.7/32", &[2]),
        ("11.0.0.1", "0.0.0.0/0", &[3]),
    ];
    for (node, subnet, entries) in cases {
        assert_eq!(topology.node_subnet(ip(node)), Some(net(subnet)), "{node}");
        assert_eq!(positions(topology.entries_of(net(subnet))), entries);
    }
    assert_eq!(topology.node_subnet(ip("fd00::1")), None);
}

#[test]
fn nodes_of_both_families() {
    let topology = topology(&["10.0.0.0/24 fd00::/64", "fd00::10/124", "::/0"]);
    let cases = [
        ("10.0.0.9", Some("10.0.0.0/24")),
        ("10.0.1.9", None),
        ("fd00::9", Some("fd00::/64")),
        ("fd00::1f", Some("fd00::10/124")),
        ("fd01::1", Some("::/0")),
    ];
    for (node, subnet) in cases {
        assert_eq!(topology.node_subnet(ip(node)), subnet.map(net), "{node}");
    }
}
