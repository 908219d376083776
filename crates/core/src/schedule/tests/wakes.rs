//! Who is woken when there is room.

use super::*;
use crate::schedule::wake::{self, Candidate};

/// All nodes of the stories.
const ALL: &str = "n0 n1 n2 n3 n4 n5 n6";

/// Who of the line is woken, by name.
fn woken(world: &mut World, line: &[&Claimant]) -> String {
    woken_on(world, line, ALL)
}

fn woken_on(world: &mut World, line: &[&Claimant], nodes: &str) -> String {
    let before = format!("{:?}", world.ledger);
    let candidates: Vec<Candidate<'_>> = line
        .iter()
        .map(|claimant| Candidate {
            claimant,
            reserves: true,
        })
        .collect();
    let served = wake::round(&mut world.ledger, &candidates, &offers(nodes));
    assert_eq!(format!("{:?}", world.ledger), before, "nothing has changed");
    let names: Vec<&str> = served.iter().map(|it| line[*it].name.as_str()).collect();
    names.join(" ")
}

#[test]
fn a_rollout_hands_each_address_to_the_newest_revision() {
    let mut world = World::t();
    let old = [1, 2].map(|it| dp("dp", &format!("dp-old-{it}"), ReleasePolicy::Immutable, 2));
    for pod in &old {
        world.filter(pod, "n3").unwrap();
        world.bind(pod, "n3");
    }
    // The new pod waits: all addresses that two replicas may have are in use.
    let new = dp("dp", "dp-new-1", ReleasePolicy::Immutable, 2);
    assert_eq!(world.refused(&new, "n3").reason(), "WorkloadLimitReached");
    assert_eq!(woken(&mut world, &[&new]), "");

    // An old one is deleted; its ReplicaSet replaces it at once, and that one
    // waits as well. What gets free is for the new one, and for nobody else.
    world.release(&old[0], Fate::Spare);
    let mut replacement = dp("dp", "dp-old-3", ReleasePolicy::Immutable, 2);
    assert_eq!(woken(&mut world, &[&new, &replacement]), "dp-new-1");
    assert!(wake::fits(&world.ledger, &new, &offers("n3")));
    replacement.yields_to = Some(new.name.clone());
    assert_eq!(
        world.refused(&replacement, "n3").reason(),
        "YieldsToNewerRevision"
    );
    assert_eq!(world.fit(&new, "n3"), "n3");
    // Let through, the new one has a promise: now there is no room for more.
    replacement.yields_to = None;
    assert_eq!(woken(&mut world, &[&replacement]), "");
    assert!(!wake::fits(&world.ledger, &replacement, &offers("n3")));
    world.bind(&new, "n3");
    assert_eq!(woken(&mut world, &[&replacement]), "");
}

#[test]
fn a_freed_address_wakes_one_of_two_pods_of_a_deployment() {
    let mut world = World::t();
    let runs = dp("dp", "dp-1", ReleasePolicy::Never, 1);
    world.bind(&runs, "n3");
    let waiting = [2, 3].map(|it| dp("dp", &format!("dp-{it}"), ReleasePolicy::Never, 1));
    let line = [&waiting[0], &waiting[1]];
    assert_eq!(woken(&mut world, &line), "");
    world.release(&runs, Fate::Spare);
    assert_eq!(woken(&mut world, &line), "dp-2");
    // The same when it is really free, and not only a spare.
    world.ledger.forget(ip("10.49.27.205"));
    assert_eq!(woken(&mut world, &line), "dp-2");
}

#[test]
fn scaling_up_wakes_as_many_as_there_are_places() {
    let mut world = World::t();
    world.bind(&dp("dp", "dp-1", ReleasePolicy::Immutable, 1), "n3");
    let waiting = |replicas| {
        [2, 3, 4].map(|it| {
            dp(
                "dp",
                &format!("dp-{it}"),
                ReleasePolicy::Immutable,
                replicas,
            )
        })
    };
    for (replicas, wanted) in [(1, ""), (2, "dp-2"), (3, "dp-2 dp-3")] {
        let waiting = waiting(replicas);
        let line: Vec<&Claimant> = waiting.iter().collect();
        assert_eq!(woken(&mut world, &line), wanted, "{replicas}");
    }
}

#[test]
fn a_lapsed_promise_wakes_the_next() {
    let mut world = World::t();
    let first = dp("dp", "dp-1", ReleasePolicy::Immutable, 1);
    let next = dp("dp", "dp-2", ReleasePolicy::Immutable, 1);
    world.filter(&first, "n3").unwrap();
    assert_eq!(woken(&mut world, &[&next]), "");
    let mut promises = world.ledger.promises().map(|(_, promise)| promise.until);
    let until = promises.next().unwrap();
    drop(promises);
    assert_eq!(world.ledger.lapse(until), ["uid-dp-1"]);
    assert_eq!(woken(&mut world, &[&next]), "dp-2");
}

#[test]
fn a_new_node_wakes_those_that_had_none() {
    let mut world = World::t();
    let pods = [1, 2, 3].map(|it| sts(&format!("sts-{it}"), ReleasePolicy::OnDelete));
    let line: Vec<&Claimant> = pods.iter().collect();
    assert_eq!(woken_on(&mut world, &line, "n0 n1 n2"), "");
    let three = "sts-1 sts-2 sts-3";
    assert_eq!(woken_on(&mut world, &line, "n0 n1 n2 n3"), three);
}

#[test]
fn no_more_are_woken_than_addresses_are_free() {
    let mut world = World::t();
    world.hold("10.49.27.205", "drained");
    world.hold("10.49.27.216", "drained");
    let pods = [1, 2, 3].map(|it| sts(&format!("sts-{it}"), ReleasePolicy::OnDelete));
    let line: Vec<&Claimant> = pods.iter().collect();
    assert_eq!(woken_on(&mut world, &line, "n3"), "sts-1 sts-2");
    // The third finds room on another node.
    assert_eq!(woken_on(&mut world, &line, "n3 n4"), "sts-1 sts-2 sts-3");
    // Who does not come when called keeps nothing from the others.
    let candidates: Vec<Candidate<'_>> = pods
        .iter()
        .enumerate()
        .map(|(place, claimant)| Candidate {
            claimant,
            reserves: place != 0,
        })
        .collect();
    let served = wake::round(&mut world.ledger, &candidates, &offers("n3"));
    assert_eq!(served, [0, 1, 2]);
}

#[test]
fn a_pod_whose_own_address_is_there_is_woken_although_others_of_its_kind_are_not() {
    let mut world = World::t();
    for address in ["10.49.27.205", "10.49.27.216", "10.49.27.217"] {
        world.hold(address, "drained");
    }
    world.hold("10.49.27.218", "sts_ns1_sts_sts-2");
    let pods = [1, 2, 3].map(|it| sts(&format!("sts-{it}"), ReleasePolicy::Immutable));
    let line: Vec<&Claimant> = pods.iter().collect();
    assert_eq!(woken_on(&mut world, &line, "n3"), "sts-2");
}

#[test]
fn a_promise_of_before_is_there_afterwards() {
    let mut world = World::t();
    world.hold("10.49.27.205", "dp_ns1_dp_");
    let pod = dp("dp", "dp-1", ReleasePolicy::Immutable, 1);
    world.filter(&pod, "n3").unwrap();
    assert_eq!(world.promised(&pod), "10.49.27.205");
    assert_eq!(woken(&mut world, &[&pod]), "dp-1");
    assert_eq!(world.promised(&pod), "10.49.27.205");
}
