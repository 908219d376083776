use super::*;
use crate::{
    ipam::{owner::GroupKind, workload::Unsupported},
    schedule::preempt::preempt,
};

use ReleasePolicy::{Immutable, Never, OnDelete};

const ALL: &str = "n1 n2 n3 n4";

#[test]
fn a_pod_that_wants_no_address_can_run_anywhere() {
    let mut world = World::t();
    let mut pod = sts("sts-0", OnDelete);
    pod.wishes.clear();
    let sorted = world.filter(&pod, "n0 n1 n2 n3 n4").unwrap();
    assert_eq!(sorted.fit, ["n0", "n1", "n2", "n3", "n4"]);
    assert!(sorted.unfit.is_empty());
}

#[test]
fn a_kept_address_decides_where_the_pod_can_run() {
    let mut world = World::t();
    let pod = sts("sts-0", Immutable);
    assert_eq!(world.fit(&pod, ALL), "n3 n4");
    assert_eq!(
        world.unfit(&pod, "n0 n1 n2"),
        "n0:UnknownNode n1:NoAddressLeft n2:NodeNotConfigured"
    );
    world.hold("10.173.13.2", pod.key.as_str());
    assert_eq!(world.fit(&pod, ALL), "n4");
    let unfit = world.filter(&pod, "n3").unwrap().unfit;
    let kept = NodeRefusal::KeptElsewhere {
        ip: ip("10.173.13.2"),
    };
    assert_eq!(unfit, [("n3", kept)]);
    assert_eq!(
        kept.to_string(),
        "FloatingIPPlugin:NoFIPLeft: this pod's kept IP lives elsewhere: 10.173.13.2"
    );
    assert!(!kept.is_curable_by_preemption());
    // Nobody else is bound to it, and nobody waits for it in vain.
    assert_eq!(world.fit(&sts("sts-1", Immutable), ALL), "n3 n4");
    assert_eq!(world.fit(&pod, "n3"), "");
}

#[test]
fn a_pod_without_owner_keeps_nothing() {
    let mut world = World::t();
    let bare = workload(AppKind::Bare, "ns1", "NULL", 0);
    assert_eq!(world.fit(&pod_of(&bare, "pod", OnDelete), ALL), "n3 n4");
    let refusal = world.refused(&pod_of(&bare, "pod", Immutable), ALL);
    assert_eq!(refusal.reason(), "PodNameWithoutIndex");
}

#[test]
fn an_unconfigured_range_is_not_reported_as_an_exhausted_one() {
    let mut world = World::t();
    let mut pod = sts("sts-0", OnDelete);
    // The only address of n1 is held.
    pod.wishes = ranges("10.180.154.7");
    assert_eq!(world.unfit(&pod, "n1"), "n1:NoAddressLeft");
    pod.wishes = ranges("10.180.154.7|192.0.2.1~192.0.2.9");
    assert_eq!(
        world.unfit(&pod, "n1 n2 n3"),
        "n1:RangeNotConfigured n2:NodeNotConfigured n3:RangeNotConfigured"
    );
    let telling = world.filter(&pod, "n1 n2").unwrap().most_telling().unwrap();
    assert_eq!(
        telling.to_string(),
        "FloatingIPPlugin:NoFIPLeft: list 2 of request_ip_range has no address of the \
         configuration in it"
    );
    // No other pod can make room for it.
    assert!(!telling.is_curable_by_preemption());
}

#[test]
fn ranges_decide_where_the_pod_can_run() {
    let table = [
        ("10.49.27.205|10.49.27.216~10.49.27.218", "n3"),
        ("10.0.80.2~10.0.80.4|10.0.81.2", "n5"),
        ("10.0.80.2~10.0.80.4", "n5 n6"),
        ("10.49.27.205|10.0.80.2~10.0.80.4", ""),
        ("10.49.27.205 10.0.80.2~10.0.80.4", "n3 n5 n6"),
    ];
    for (text, fit) in table {
        let mut world = World::t();
        let mut pod = sts("sts-0", OnDelete);
        pod.wishes = ranges(text);
        assert_eq!(world.fit(&pod, "n3 n5 n6"), fit, "{text}");
    }
    for policy in [OnDelete, Immutable] {
        let mut world = World::t();
        let mut pod = sts("sts-0", policy);
        let mixed = "10.49.27.205 10.49.27.216~10.49.27.218 10.0.80.2~10.0.80.4";
        pod.wishes = ranges(&format!("{mixed}|{mixed}"));
        assert_eq!(world.fit(&pod, "n3 n5 n6"), "n3 n5 n6");
        let taken = world.bind(&pod, "n6");
        assert_eq!(
            taken,
            [Choice::New(ip("10.0.80.2")), Choice::New(ip("10.0.80.3"))]
        );
        assert_eq!(world.fit(&pod, "n3 n5 n6"), "n5 n6");
    }
}

#[test]
fn node_subnets_by_ranges() {
    let nodes = [
        ("T1", "10.49.27.3"),
        ("T2", "10.173.13.4"),
        ("T3", "10.180.1.2"),
        ("T4", "10.180.1.3"),
        ("T5a", "10.0.1.9"),
        ("T5b", "10.0.2.9"),
        ("T6a", "10.49.28.3"),
        ("T6b", "10.49.29.3"),
    ];
    let all = nodes.map(|(name, _)| name).join(" ");
    let table = [
        ("", all.as_str()),
        ("10.49.27.216~10.49.27.218", "T1"),
        ("10.49.27.216|10.49.27.218", "T1"),
        ("10.49.27.216 10.173.13.10~10.173.13.13", "T1 T2"),
        ("10.49.27.216 10.173.13.10~10.173.13.13|10.173.13.13", "T2"),
        (
            "10.49.27.216 10.173.13.10~10.173.13.13 10.180.154.2",
            "T1 T2 T3",
        ),
        ("10.49.27.216|10.173.13.10~10.173.13.13", ""),
        ("10.0.70.3~10.0.70.20", "T5a T5b"),
        ("10.0.70.3 10.0.80.2", "T5a T5b T6a T6b"),
    ];
    let offers = nodes.map(|(node, address)| Offer {
        node,
        address: Some(ip(address)),
    });
    let ledger = Ledger::new(fixture::t());
    for (text, subnets) in table {
        let mut pod = sts("sts-0", OnDelete);
        if !text.is_empty() {
            pod.wishes = ranges(text);
        }
        let sorted = filter(&ledger, &pod, &offers, at(1)).unwrap();
        assert_eq!(sorted.fit.join(" "), subnets, "{text}");
        assert_eq!(sorted.promise, None);
    }
}

#[test]
fn custom_workloads_keep_addresses_if_they_can() {
    let custom = |scale: Scale| {
        let kind = GroupKind {
            group: "test.org".into(),
            kind: "Foo".into(),
        };
        let mut app = workload(AppKind::Custom(kind), "ns1", "crd-xxx", 1);
        app.scale = scale;
        app
    };
    let (foo, not_scalable) = (custom(Scale::Yes), custom(Scale::No));
    let table = [
        (&foo, "crd-xxx-0", OnDelete, ""),
        (&foo, "crd-xxx-0", Immutable, ""),
        (&foo, "crd-xxx-0", Never, ""),
        (&foo, "crd-xxx-sbx", Never, "doesn't match"),
        (&not_scalable, "crd-xxx-0", OnDelete, ""),
        (&not_scalable, "crd-xxx-0", Never, ""),
        (
            &not_scalable,
            "crd-xxx-0",
            Immutable,
            "parent workload has no replicas",
        ),
        (&not_scalable, "crd-xxx-xb1", Never, "doesn't match"),
    ];
    for (app, name, policy, why) in table {
        let mut world = World::t();
        match world.filter(&pod_of(app, name, policy), ALL) {
            Ok(sorted) => {
                assert_eq!(why, "", "{name} {policy} must be refused");
                assert_eq!(sorted.fit, ["n3", "n4"]);
            }
            Err(refusal) => {
                let text = refusal.to_string();
                assert!(text.contains("not supported"), "{text}");
                assert!(!why.is_empty() && text.contains(why), "{text}");
            }
        }
    }
}

#[test]
fn who_has_an_address_is_not_asked_for_support() {
    let mut world = World::t();
    let mut pod = pod_of(&workload(AppKind::Job, "ns1", "job", 0), "job-0", Never);
    pod.unsupported = Some(Unsupported {
        policy: Never,
        pod: pod.name.clone(),
        why: crate::ipam::workload::WhyUnsupported::NoReplicas,
    });
    assert_eq!(world.refused(&pod, ALL).reason(), "WorkloadHasNoReplicas");
    world.hold("10.173.13.2", pod.key.as_str());
    assert_eq!(world.fit(&pod, ALL), "n4");
}

#[test]
fn the_old_pod_must_be_gone_first() {
    let mut world = World::t();
    let pod = sts("sts-0", Immutable);
    world.hold("10.173.13.2", pod.key.as_str());
    world.change("10.173.13.2", |it| it.uid = "the one before".into());
    let refusal = world.refused(&pod, ALL);
    assert_eq!(refusal.reason(), "OldPodNotGone");
    let text = "waiting for delete event of sts_ns1_sts_sts-0 before reuse this ip";
    assert!(refusal.to_string().starts_with(text), "{refusal}");
    assert_eq!(world.try_bind(&pod, "n4").unwrap_err(), refusal);
    // The uid is cleared when the old pod is gone, and may be its own.
    for uid in ["", &pod.uid] {
        world.change("10.173.13.2", |it| it.uid = uid.into());
        assert_eq!(world.fit(&pod, ALL), "n4");
    }
}

#[test]
fn what_galaxy_stored_is_the_pods_own() {
    let mut world = World::t();
    let app = workload(AppKind::ReplicaSet, "ns1", "web-front", 1);
    let mut pod = pod_of(&app, "web-front-x", Immutable);
    pod.limits = Limit::list("ns1", "web-front", 0, 1, None);
    pod.galaxy_key = Some("dp_ns1_web_web-front-x".into());
    assert_eq!(world.refused(&pod, ALL).reason(), "WorkloadLimitReached");
    world.hold("10.173.13.2", "dp_ns1_web_web-front-x");
    assert_eq!(world.fit(&pod, ALL), "n4");
    assert_eq!(world.bind(&pod, "n4"), [Choice::Own(ip("10.173.13.2"))]);
    assert_eq!(world.held_by(&pod.key), "10.173.13.2");
    // A key that is the same as its own is not counted twice.
    pod.galaxy_key = Some(pod.key.clone());
    assert_eq!(pod.held(&world.ledger).len(), 1);
}

#[test]
fn addresses_outside_of_the_configuration_are_not_used() {
    let mut world = World::t();
    let pod = sts("sts-0", Immutable);
    world.hold("192.168.0.5", pod.key.as_str());
    assert_eq!(world.fit(&pod, ALL), "n3 n4");
    let grant = world.try_bind(&pod, "n3").unwrap();
    assert!(matches!(grant.take[..], [Choice::New(_)]));
    assert_eq!(grant.give_back.len(), 1);
    assert_eq!(grant.give_back[0].ip, ip("192.168.0.5"));
    assert_eq!(grant.give_back[0].fate, Fate::Free);
}

#[test]
fn a_reserved_address_is_used_only_by_who_runs_with_it() {
    let mut world = World::t();
    let pod = sts("sts-0", Immutable);
    world.hold("10.173.13.2", pod.key.as_str());
    world.change("10.173.13.2", |it| it.reserved = true);
    assert_eq!(world.fit(&pod, ALL), "n3 n4");
    let grant = world.try_bind(&pod, "n3").unwrap();
    assert!(grant.give_back.is_empty(), "it stays reserved");
    world.change("10.173.13.2", |it| it.uid = pod.uid.clone());
    assert_eq!(world.fit(&pod, ALL), "n4");
}

#[test]
fn a_half_bound_pod_is_not_stranded() {
    let mut world = World::t();
    let pod = sts("sts-0", OnDelete);
    world.bind(&pod, "n4");
    let first = world.held_by(&pod.key);
    // The Binding failed, and n4 is offered again: nothing changes.
    assert_eq!(world.fit(&pod, "n3 n4"), "n4");
    // n4 is gone. Nobody relies on the address, so it is given back.
    assert_eq!(world.fit(&pod, "n1 n2 n3"), "n3");
    world.bind(&pod, "n3");
    assert_ne!(world.held_by(&pod.key), first);
    assert!(world.ledger.is_free(ip(&first)));
    // One that keeps its address waits for a node that can carry it.
    let kept = sts("sts-1", Immutable);
    world.bind(&kept, "n4");
    assert_eq!(world.fit(&kept, "n3"), "");
}

#[test]
fn addresses_that_no_node_can_carry_together_do_not_strand_a_pod() {
    let mut world = World::t();
    let mut pod = sts("sts-0", Immutable);
    pod.wishes = ranges("10.49.27.205 10.173.13.10|10.49.27.205 10.173.13.10~10.173.13.11");
    world.hold("10.49.27.205", pod.key.as_str());
    world.hold("10.173.13.10", pod.key.as_str());
    // Once there was a node for both. Only n4 has another one for the second wish.
    assert_eq!(world.fit(&pod, "n3 n4"), "n4");
    let taken = world.bind(&pod, "n4");
    let both = [
        Choice::Own(ip("10.173.13.10")),
        Choice::New(ip("10.173.13.11")),
    ];
    assert_eq!(taken, both);
    assert!(world.ledger.is_free(ip("10.49.27.205")));
}

#[test]
fn filter_asks_and_changes_nothing() {
    let mut world = World::t();
    world.hold("10.49.27.205", "dp_ns1_dp_");
    let pod = dp("dp", "dp-1", Never, 1);
    let ledger = world.ledger.clone();
    let first = filter(&ledger, &pod, &offers(ALL), at(9)).unwrap();
    assert_eq!(filter(&ledger, &pod, &offers(ALL), at(9)).unwrap(), first);
    // Also when the promise has been made.
    world.filter(&pod, ALL).unwrap();
    let again = filter(&world.ledger, &pod, &offers(ALL), at(9)).unwrap();
    assert_eq!(again, first);
}

#[test]
fn preemption_spares_nodes_that_would_not_do() {
    let mut world = World::t();
    let stay = |world: &World, pod: &Claimant| {
        preempt(&world.ledger, pod, &offers("n0 n1 n2 n3 n4")).join(" ")
    };
    assert_eq!(stay(&world, &sts("sts-0", OnDelete)), "n0 n1 n2 n3 n4");
    let pod = sts("sts-0", Immutable);
    assert_eq!(stay(&world, &pod), "n3 n4");
    world.hold("10.173.13.2", pod.key.as_str());
    assert_eq!(stay(&world, &pod), "n4");
    // It is refused altogether: nothing is said about nodes.
    world.change("10.173.13.2", |it| it.uid = "another".into());
    assert_eq!(stay(&world, &pod), "n0 n1 n2 n3 n4");
}

#[test]
fn refusals_have_stable_reasons() {
    let refusals = [
        NodeRefusal::UnknownNode,
        NodeRefusal::NotConfigured {
            address: ip("10.0.0.1"),
        },
        NodeRefusal::NoAddressLeft,
        NodeRefusal::RangeNotConfigured { list: 1 },
        NodeRefusal::KeptElsewhere { ip: ip("10.0.0.1") },
        NodeRefusal::SpareElsewhere { ip: ip("10.0.0.1") },
    ];
    let galaxys = [
        "UnknowNode",
        "NoFIPConfigNode",
        "NoFIPLeft",
        "NoFIPLeft",
        "NoFIPLeft",
        "NoFIPLeft",
    ];
    for (refusal, word) in refusals.into_iter().zip(galaxys) {
        let start = format!("FloatingIPPlugin:{word}");
        assert!(refusal.to_string().starts_with(&start), "{refusal}");
        assert_eq!(Refusal::from(refusal).reason(), refusal.reason());
    }
    let left = Refusal::from(NodeRefusal::NoAddressLeft);
    assert_eq!(left.to_string(), "no enough available ips left");
}
