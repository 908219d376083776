use super::*;
use crate::schedule::gate::{Admission, admit, capacity};

use ReleasePolicy::{Immutable, OnDelete};

fn nets(text: &str) -> Vec<IpNet> {
    text.split_whitespace()
        .map(|it| it.parse().unwrap())
        .collect()
}

impl World {
    fn admit(&self, pod: &Claimant, nodes: &str) -> Result<Admission, Refusal> {
        admit(&self.ledger, pod, &offers(nodes), at(self.now + 1000))
    }

    /// What a controller does with an admission: records without a node.
    fn gate(&mut self, pod: &Claimant, nodes: &str) -> Admission {
        let admission = self.admit(pod, nodes).unwrap();
        for choice in &admission.grant.take {
            let record = Record {
                ip: choice.ip(),
                key: pod.key.clone(),
                policy: pod.policy,
                node: String::new(),
                uid: pod.uid.clone(),
                updated: self.tick(),
                reserved: false,
                workload_note: None,
            };
            self.ledger.observe(record);
        }
        admission
    }
}

#[test]
fn a_gated_pod_gets_all_subnets_that_can_carry_its_address() {
    let world = World::t();
    // n5 could also have T7, which nodes of n6's subnet cannot carry.
    let admission = world.admit(&sts("sts-0", OnDelete), "n5 n6").unwrap();
    let [Choice::New(address)] = admission.grant.take[..] else {
        panic!("{admission:?}");
    };
    let wanted = if address.to_string().starts_with("10.0.80.") {
        "10.49.28.0/26 10.49.29.0/24"
    } else {
        "10.49.28.0/26"
    };
    assert_eq!(admission.subnets, nets(wanted));
    // What only n6 can have, both can carry.
    let admission = world.admit(&sts("sts-0", OnDelete), "n6").unwrap();
    assert_eq!(admission.subnets, nets("10.49.28.0/26 10.49.29.0/24"));
}

#[test]
fn refusals_are_those_of_the_extender() {
    let mut world = World::t();
    let pod = sts("sts-0", Immutable);
    let refused = |world: &World, pod, nodes| world.admit(pod, nodes).unwrap_err().reason();
    assert_eq!(refused(&world, &pod, "n1"), "NoAddressLeft");
    assert_eq!(refused(&world, &pod, "n2"), "NodeNotConfigured");
    assert_eq!(refused(&world, &pod, "n0 n1 n2"), "NoAddressLeft");
    assert_eq!(refused(&world, &pod, ""), "NoNodeFits");
    world.hold("10.173.13.2", pod.key.as_str());
    assert_eq!(refused(&world, &pod, "n3"), "KeptAddressElsewhere");
    let admission = world.admit(&pod, "n3 n4").unwrap();
    assert_eq!(admission.grant.take, [Choice::Own(ip("10.173.13.2"))]);
    assert_eq!(admission.subnets, nets("10.173.13.0/24"));
    world.change("10.173.13.2", |record| record.uid = "another".into());
    assert_eq!(refused(&world, &pod, "n3 n4"), "OldPodNotGone");
    let limited = dp("web", "web-1", Immutable, 0);
    assert_eq!(refused(&world, &limited, "n3"), "WorkloadLimitReached");
}

#[test]
fn what_was_written_before_a_crash_is_gone_on_with() {
    for policy in [Immutable, OnDelete] {
        let mut world = World::t();
        let pod = dp("web", "web-1", policy, 1);
        let first = world.gate(&pod, "n3 n4 n5 n6");
        let again = world.admit(&pod, "n6 n5 n4 n3").unwrap();
        let address = first.grant.take[0].ip();
        assert_eq!(again.grant.take, [Choice::Own(address)]);
        assert_eq!(again.subnets, first.subnets);
        assert_eq!(again.grant.give_back, []);
    }
}

#[test]
fn without_a_reason_for_one_subnet_pods_are_spread() {
    let mut world = World::t();
    let mut subnets = std::collections::BTreeSet::new();
    for number in 0..4 {
        let pod = sts(&format!("sts-{number}"), OnDelete);
        subnets.insert(world.gate(&pod, "n3 n4").subnets);
    }
    assert_eq!(subnets.len(), 2, "{subnets:?}");
}

#[test]
fn a_spare_goes_before_new_addresses_wherever_it_lies() {
    let mut world = World::t();
    world.hold("10.49.27.216", "dp_ns1_web_");
    let pod = dp("web", "web-1", Immutable, 1);
    let admission = world.admit(&pod, "n4 n3").unwrap();
    assert_eq!(admission.grant.take, [Choice::Spare(ip("10.49.27.216"))]);
    assert_eq!(admission.subnets, nets("10.49.27.0/24"));
}

#[test]
fn nodes_offer_as_much_as_there_are_addresses_or_the_cap() {
    let world = World::t();
    let topology = world.ledger.topology();
    let offered = |subnet: &str, cap| capacity(topology, subnet.parse().unwrap(), cap);
    assert_eq!(offered("10.49.28.0/26", None), 6);
    assert_eq!(offered("10.49.28.0/26", Some(4)), 4);
    assert_eq!(offered("10.49.28.0/26", Some(40)), 6);
    assert_eq!(offered("10.99.0.0/24", None), 0);
    let v6 = r#"[{"nodeSubnets": ["fd00:1::/64"], "ips": ["fd00:2::2~fd00:2::ffff:ffff:ffff:fff0"],
        "subnet": "fd00:2::/64", "gateway": "fd00:2::1"}]"#;
    let world = World::of(fixture::config(v6));
    let all = capacity(
        world.ledger.topology(),
        "fd00:1::/64".parse().unwrap(),
        None,
    );
    assert_eq!(all, 1_000_000);
}
