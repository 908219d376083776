use super::*;

use ReleasePolicy::{Immutable, Never};

const ALL: &str = "n1 n2 n3 n4";

#[test]
fn a_new_pod_of_a_deployment_gets_the_address_of_the_old_one() {
    let mut world = World::t();
    let old = dp("dp", "dp-old", Immutable, 1);
    assert_eq!(world.fit(&old, ALL), "n3 n4");
    let address = world.bind(&old, "n3")[0].ip();

    let new = dp("dp", "dp-new", Immutable, 1);
    let refusal = world.refused(&new, ALL);
    assert_eq!(
        refusal.to_string(),
        "deployment dp has allocated 1 ips with replicas of 1, wait for releasing"
    );
    world.release(&old, Fate::Spare);
    assert_eq!(world.fit(&new, ALL), "n3");
    assert_eq!(world.promised(&new), address.to_string());
    assert_eq!(world.bind(&new, "n3"), [Choice::Spare(address)]);
    assert_eq!(world.held_by(&new.key), address.to_string());

    // Never, replicas 0: the release keeps it. Replicas 1: another gets it.
    world.release(&new, Fate::Spare);
    let none = dp("dp", "dp-a", Never, 0);
    assert_eq!(world.refused(&none, ALL).reason(), "WorkloadLimitReached");
    let other = dp("dp", "dp-b", Never, 1);
    assert_eq!(world.fit(&other, ALL), "n3");
    assert_eq!(world.bind(&other, "n3"), [Choice::Spare(address)]);
}

#[test]
fn deployments_of_a_pool_share_its_spares() {
    let mut world = World::t();
    let first = pooled("pool1", "ns1", "dp", "dp-1", 1);
    let second = pooled("pool1", "ns2", "dp2", "dp2-1", 1);
    assert_eq!(world.fit(&first, ALL), "n3 n4");
    world.hold("10.173.13.2", first.key.as_str());
    assert_eq!(world.fit(&first, ALL), "n4");
    world.release(&first, Fate::Spare);
    assert_eq!(world.held_by(&"pool__pool1_".into()), "10.173.13.2");
    assert_eq!(world.fit(&second, ALL), "n4");
    assert_eq!(world.unfit(&second, "n1 n2 n3 n4"), {
        "n1:SpareAddressElsewhere n2:NodeNotConfigured n3:SpareAddressElsewhere"
    });
    world.bind(&second, "n4");
    assert_eq!(world.held_by(&second.key), "10.173.13.2");
    // The pool has no size, so it grows.
    assert_eq!(world.fit(&first, ALL), "n3 n4");
}

#[test]
fn the_spare_that_was_freed_last_is_used_first() {
    let mut world = World::t();
    world.hold("10.49.27.205", "pool__pool1_");
    world.hold("10.49.27.216", "pool__pool1_");
    let pod = pooled("pool1", "ns1", "dp", "dp-1", 1);
    assert_eq!(world.fit(&pod, "n3"), "n3");
    assert_eq!(world.bind(&pod, "n3"), [Choice::Spare(ip("10.49.27.216"))]);
    assert_eq!(world.held_by(&"pool__pool1_".into()), "10.49.27.205");
}

#[test]
fn two_pods_are_never_promised_the_same_spare() {
    let mut world = World::t();
    world.hold("10.49.27.205", "dp_ns1_dp_");
    world.hold("10.49.27.216", "dp_ns1_dp_");
    let pods = ["dp-1", "dp-2", "dp-3"].map(|name| dp("dp", name, Never, 3));
    let promised = |world: &mut World, pod: &Claimant| {
        world.filter(pod, "n3").unwrap();
        world.promised(pod)
    };
    assert_eq!(promised(&mut world, &pods[0]), "10.49.27.216");
    assert_eq!(promised(&mut world, &pods[1]), "10.49.27.205");
    assert_eq!(promised(&mut world, &pods[2]), "");
    // Asked again it gets the same, and what lapses goes to the next.
    assert_eq!(promised(&mut world, &pods[0]), "10.49.27.216");
    world.ledger.withdraw(&pods[0].uid);
    assert_eq!(promised(&mut world, &pods[2]), "10.49.27.216");
}

#[test]
fn a_spare_is_chosen_among_offered_nodes() {
    let mut world = World::t();
    world.hold("10.49.27.205", "dp_ns1_dp_");
    world.hold("10.173.13.2", "dp_ns1_dp_");
    let pod = dp("dp", "dp-1", Never, 2);
    // The newer one is at n4, which is not offered.
    assert_eq!(world.fit(&pod, "n2 n3"), "n3");
    assert_eq!(world.promised(&pod), "10.49.27.205");
    assert_eq!(world.fit(&pod, "n4"), "n4");
    assert_eq!(world.promised(&pod), "10.173.13.2");
    assert_eq!(world.fit(&pod, ALL), "n4");
}

#[test]
fn a_spare_elsewhere_strands_nobody_if_the_limits_allow_another() {
    let mut world = World::t();
    world.hold("10.173.13.2", "dp_ns1_dp_");
    let pod = dp("dp", "dp-1", Never, 2);
    assert_eq!(world.fit(&pod, "n3"), "n3");
    assert_eq!(world.promised(&pod), "", "a new address will do");
    assert!(matches!(world.bind(&pod, "n3")[..], [Choice::New(_)]));
    // The second place is for the spare.
    let next = dp("dp", "dp-2", Never, 2);
    let sorted = world.filter(&next, "n3").unwrap();
    let elsewhere = NodeRefusal::SpareElsewhere {
        ip: ip("10.173.13.2"),
    };
    assert_eq!(sorted.unfit, [("n3", elsewhere)]);
    assert_eq!(sorted.promise, None);
    assert_eq!(
        world.try_bind(&next, "n3").unwrap_err(),
        Refusal::OnNode(elsewhere)
    );
    assert_eq!(world.fit(&next, ALL), "n4");
}

#[test]
fn a_promised_spare_counts_where_it_cannot_be_used() {
    let mut world = World::t();
    world.hold("10.173.13.2", "dp_ns1_dp_");
    let pod = dp("dp", "dp-1", Never, 1);
    assert_eq!(world.fit(&pod, "n4"), "n4");
    assert_eq!(world.promised(&pod), "10.173.13.2");
    // Now only n3 is offered; its own promise does not make room for a new one.
    assert_eq!(world.unfit(&pod, "n3"), "n3:SpareAddressElsewhere");
}

#[test]
fn a_spare_that_nobody_could_use_bars_nobody() {
    let mut world = World::t();
    world.hold("10.173.13.2", "dp_ns1_dp_");
    let mut pod = dp("dp", "dp-1", Never, 1);
    pod.wishes = ranges("10.49.27.216~10.49.27.218");
    assert_eq!(world.fit(&pod, "n3 n4"), "n3");
    // Neither does one outside of the configuration, or a reserved one.
    let mut world = World::t();
    world.hold("192.168.1.1", "dp_ns1_dp_");
    world.hold("10.173.13.2", "dp_ns1_dp_");
    world.change("10.173.13.2", |it| it.reserved = true);
    let pod = dp("dp", "dp-2", Never, 1);
    assert_eq!(world.fit(&pod, "n3 n4"), "n3 n4");
    assert!(matches!(world.bind(&pod, "n4")[..], [Choice::New(_)]));
}

#[test]
fn pools_whose_names_begin_alike_share_nothing() {
    let mut world = World::t();
    world.hold("10.49.27.205", "pool__a_b_");
    world.hold("10.49.27.216", "pool__a_b_dp_ns1_dp_dp-0");
    let mut pod = pooled("a", "ns1", "dp", "dp-1", 1);
    let size = crate::schedule::limit::PoolSizes {
        everywhere: Some(1),
        in_namespace: None,
    };
    let pool = PoolName::new("a").unwrap();
    pod.limits = Limit::list("ns1", "dp", 1, 1, Some((&pool, size)));
    assert_eq!(world.fit(&pod, "n3"), "n3");
    assert!(matches!(world.bind(&pod, "n3")[..], [Choice::New(_)]));
}

#[test]
fn two_wishes_use_two_spares_if_they_can() {
    let mut world = World::t();
    world.hold("10.49.27.205", "dp_ns1_dp_");
    world.hold("10.49.27.216", "dp_ns1_dp_");
    world.hold("10.173.13.2", "dp_ns1_dp_");
    let mut pod = dp("dp", "dp-1", Never, 4);
    let list = "10.49.27.0~10.49.27.255 10.173.13.0~10.173.13.255";
    pod.wishes = ranges(&format!("{list}|{list}"));
    // Two spares are at n3, though the newest is at n4.
    assert_eq!(world.fit(&pod, "n3 n4"), "n3");
    assert_eq!(world.promised(&pod), "10.49.27.205 10.49.27.216");
    let taken = world.bind(&pod, "n3");
    let both = [
        Choice::Spare(ip("10.49.27.216")),
        Choice::Spare(ip("10.49.27.205")),
    ];
    assert_eq!(taken, both);
}

#[test]
fn a_half_bound_pod_of_a_deployment_gives_its_address_back_as_a_spare() {
    let mut world = World::t();
    let pod = dp("dp", "dp-1", Never, 2);
    world.filter(&pod, "n4").unwrap();
    let first = world.bind(&pod, "n4")[0].ip();
    // n4 is gone before the pod runs there, and there is room for another.
    assert_eq!(world.fit(&pod, "n3"), "n3");
    world.bind(&pod, "n3");
    assert_eq!(world.held_by(&"dp_ns1_dp_".into()), first.to_string());
    // Without room it has to wait for a node that can carry what it has.
    let mut world = World::t();
    let pod = dp("dp", "dp-1", Never, 1);
    world.filter(&pod, "n4").unwrap();
    world.bind(&pod, "n4");
    assert_eq!(world.unfit(&pod, "n3"), "n3:KeptAddressElsewhere");
    // Nor does it take a spare for it, when its workload wants no pods any more.
    world.hold("10.49.27.205", "dp_ns1_dp_");
    let unwanted = dp("dp", "dp-1", Never, 0);
    assert_eq!(world.unfit(&unwanted, "n3"), "n3:KeptAddressElsewhere");
    assert_eq!(world.fit(&unwanted, "n4"), "n4");
}
