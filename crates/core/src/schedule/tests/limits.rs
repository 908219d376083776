use super::*;
use crate::schedule::limit::PoolSizes;

use ReleasePolicy::{Immutable, Never, OnDelete};

fn sized(pod: &mut Claimant, everywhere: Option<usize>, in_namespace: Option<usize>) {
    let pool = PoolName::new(pod.key.parts().unwrap().pool.unwrap()).unwrap();
    let sizes = PoolSizes {
        everywhere,
        in_namespace,
    };
    let namespace = pod.namespace.clone();
    pod.limits = Limit::list(&namespace, "app", 1, pod.wishes.len(), Some((&pool, sizes)));
}

#[test]
fn limits_follow_pool_and_replicas() {
    let pool = PoolName::new("p").unwrap();
    let list = |everywhere, in_namespace| {
        let sizes = PoolSizes {
            everywhere,
            in_namespace,
        };
        Limit::list("ns1", "app", 3, 2, Some((&pool, sizes)))
    };
    let replicas = Limit::Workload {
        app: "app".into(),
        replicas: 3,
        at_most: 6,
    };
    let total = Limit::Pool {
        pool: "p".into(),
        at_most: 4,
    };
    let part = Limit::PoolInNamespace {
        pool: "p".into(),
        namespace: "ns1".into(),
        at_most: 2,
    };
    assert_eq!(list(None, None), Limit::list("ns1", "app", 3, 2, None));
    assert_eq!(list(None, None), [replicas]);
    let both = [total, part];
    assert_eq!(list(Some(4), None), both[..1]);
    assert_eq!(list(None, Some(2)), both[1..]);
    assert_eq!(list(Some(4), Some(2)), both);
}

#[test]
fn promises_to_others_count() {
    let mut world = World::t();
    let pods = ["dp-1", "dp-2", "dp-3"].map(|name| dp("dp", name, Immutable, 2));
    assert_eq!(world.fit(&pods[0], "n3 n4"), "n3 n4");
    assert_eq!(world.fit(&pods[1], "n3 n4"), "n3 n4");
    let refusal = world.refused(&pods[2], "n3 n4");
    let wanted = Refusal::WorkloadLimit {
        app: "dp".into(),
        used: 2,
        replicas: 2,
    };
    assert_eq!(refusal, wanted);
    // Bound or not, and asked twice, it makes no difference.
    world.bind(&pods[0], "n3");
    assert_eq!(world.fit(&pods[1], "n3 n4"), "n3 n4");
    assert_eq!(world.refused(&pods[2], "n3 n4"), wanted);
    // A promise lapses.
    world.ledger.lapse(at(100_000));
    assert_eq!(world.fit(&pods[2], "n3 n4"), "n3 n4");
    assert_eq!(world.try_bind(&pods[1], "n3").unwrap_err(), wanted);
}

#[test]
fn the_size_of_a_pool_counts_for_all_who_share_it() {
    let mut world = World::t();
    let mut blue = pooled("pool1", "ns1", "blue", "blue-1", 9);
    let mut green = pooled("pool1", "ns2", "green", "green-1", 9);
    sized(&mut blue, Some(1), None);
    sized(&mut green, Some(1), None);
    world.filter(&blue, "n3").unwrap();
    let address = world.bind(&blue, "n3")[0].ip();
    let refusal = world.refused(&green, "n3");
    assert_eq!(refusal.to_string(), "reached pool pool1 size limit of 1");
    assert_eq!(refusal.reason(), "PoolLimitReached");
    // Blue gives its address to green.
    world.release(&blue, Fate::Spare);
    assert_eq!(world.fit(&green, "n3 n4"), "n3");
    assert_eq!(world.bind(&green, "n3"), [Choice::Spare(address)]);
    // Pods of a StatefulSet are not limited, but count.
    let app = workload(AppKind::StatefulSet, "ns1", "db", 3);
    let pool = PoolName::new("pool1").unwrap();
    let db = Claimant::new(&app, Some(pool), "db-0", "uid-db-0", Never, one_v4()).unwrap();
    world.release(&green, Fate::Free);
    world.bind(&db, "n4");
    assert_eq!(world.refused(&blue, "n3").reason(), "PoolLimitReached");
}

#[test]
fn a_pool_object_in_a_namespace_limits_only_that_namespace() {
    let mut world = World::t();
    let pod = |namespace, name, everywhere, in_namespace| {
        let mut pod = pooled("pool1", namespace, "app", name, 9);
        sized(&mut pod, everywhere, in_namespace);
        pod
    };
    world.bind(&pod("ns1", "a", Some(3), Some(1)), "n3");
    let refusal = world.refused(&pod("ns1", "b", Some(3), Some(1)), "n3");
    assert_eq!(
        refusal.to_string(),
        "reached pool pool1 size limit of 1 for namespace ns1"
    );
    assert_eq!(refusal.reason(), "NamespacePoolLimitReached");
    world.bind(&pod("ns2", "c", Some(3), None), "n3");
    world.bind(&pod("ns2", "d", Some(3), None), "n3");
    let refusal = world.refused(&pod("ns2", "e", Some(3), None), "n3");
    assert_eq!(refusal.reason(), "PoolLimitReached");
    // Both apply, and each can be the one that is reached.
    let refusal = world.refused(&pod("ns1", "f", Some(3), Some(2)), "n3");
    assert_eq!(refusal.reason(), "PoolLimitReached");
    assert_eq!(
        world.fit(&pod("ns1", "f", Some(4), Some(2)), "n3 n4"),
        "n3 n4"
    );
}

#[test]
fn a_pool_without_size_counts_each_workload_for_itself() {
    let mut world = World::t();
    world.bind(&pooled("pool1", "ns1", "a", "a-1", 1), "n3");
    world.bind(&pooled("pool1", "ns1", "b", "b-1", 1), "n3");
    let next = pooled("pool1", "ns1", "a", "a-2", 1);
    assert_eq!(world.refused(&next, "n3").reason(), "WorkloadLimitReached");
    let more = pooled("pool1", "ns1", "a", "a-2", 2);
    assert_eq!(world.fit(&more, "n3 n4"), "n3 n4");
}

#[test]
fn pods_with_several_addresses_use_as_many_places() {
    let mut world = World::t();
    let two = |name: &str, replicas| {
        let app = workload(AppKind::Deployment, "ns1", "dp", replicas);
        let mut pod = pod_of(&app, name, Immutable);
        pod.wishes = ranges("10.49.27.205 10.49.27.216|10.49.27.217~10.49.27.218");
        pod.limits = Limit::list("ns1", "dp", replicas, 2, None);
        pod
    };
    world.filter(&two("dp-1", 1), "n3").unwrap();
    let refusal = world.refused(&two("dp-2", 1), "n3");
    assert_eq!(refusal.reason(), "WorkloadLimitReached");
    world.filter(&two("dp-2", 2), "n3").unwrap();
    assert_eq!(world.bind(&two("dp-1", 2), "n3").len(), 2);
    assert_eq!(world.bind(&two("dp-2", 2), "n3").len(), 2);
}

#[test]
fn who_keeps_nothing_has_no_limit() {
    let mut world = World::t();
    world.bind(&dp("dp", "dp-1", OnDelete, 1), "n3");
    assert_eq!(world.fit(&dp("dp", "dp-2", OnDelete, 1), "n3 n4"), "n3 n4");
}

#[test]
fn an_older_revision_lets_the_newer_go_first() {
    let mut world = World::t();
    world.hold("10.49.27.205", "dp_ns1_dp_");
    let mut old = dp("dp", "dp-old", Never, 2);
    old.yields_to = Some("dp-new".into());
    let refusal = world.refused(&old, "n3");
    assert_eq!(refusal.reason(), "YieldsToNewerRevision");
    assert!(refusal.to_string().contains("dp-new"));
    // One that has its address takes nothing from anybody.
    world.hold("10.49.27.216", old.key.as_str());
    assert_eq!(world.fit(&old, "n3"), "n3");
}
