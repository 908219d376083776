//! Two processes that both believe to be the leader.

use std::collections::BTreeMap;

use futures::future::join_all;

use super::*;

const PODS_COUNT: usize = 50;
const ADDRESSES: &str = "10.0.70.2~10.0.70.41";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_binders_never_give_an_address_twice() {
    let world = World::with(ADDRESSES);
    let binders = [world.binder().await, world.binder().await];
    let names: Vec<String> = (0..PODS_COUNT).map(|number| format!("p{number}")).collect();
    for name in &names {
        world.pod(name, None);
    }
    // Each process is asked for each pod, in another order and for another node.
    let mut calls = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let other = &names[PODS_COUNT - 1 - number];
        calls.push(insist(&binders[0], name, "n1"));
        calls.push(insist(
            &binders[1],
            other,
            if number % 2 == 0 { "n1" } else { "n2" },
        ));
    }
    join_all(calls).await;
    settle(&binders, &names).await;
    // A pod may have been refused while both processes had an address for another
    // one; whoever lost that has given its address back.
    let known = || binders[0].store.read(|it| it.ledger().records().count());
    world
        .until(|| known() == world.server.objects(FIPS).len())
        .await;
    join_all(names.iter().map(|name| insist(&binders[0], name, "n1"))).await;
    settle(&binders, &names).await;

    let mut holders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut bound = 0;
    for name in &names {
        let pod = world.server.object(PODS, name).unwrap();
        let uid = format!("uid-{name}");
        let (has, held) = (addresses(&pod), world.held(&uid));
        assert_eq!(has, held, "{name}: annotation and records agree");
        let node = pod["spec"]["nodeName"].as_str();
        assert_eq!(
            has.len(),
            usize::from(node.is_some()),
            "{name}: one or none"
        );
        for ip in has {
            let record = world.server.object(FIPS, &ip).unwrap();
            let attribute = record["spec"]["attribute"].as_str().unwrap();
            let attribute: Value = serde_json::from_str(attribute).unwrap();
            assert_eq!(
                attribute["NodeName"].as_str(),
                node,
                "{name}: record says where"
            );
            holders.entry(ip).or_default().push(name.clone());
        }
        bound += usize::from(node.is_some());
    }
    assert_eq!(bound, 40, "as many as there are addresses");
    assert!(holders.values().all(|pods| pods.len() == 1), "{holders:?}");
    assert_eq!(world.server.objects(FIPS).len(), 40);
}

/// What is left to do after an answer is done in the same turn.
async fn settle(binders: &[Binder], names: &[String]) {
    for binder in binders {
        for name in names {
            binder.turns.wait("ns", name).await;
        }
    }
}

/// Tries as a scheduler does, until the pod is bound or there is no address left.
async fn insist(binder: &Binder, pod: &str, node: &str) {
    for _ in 0..200 {
        match binder.bind(&request(pod, node)).await {
            Ok(()) => return,
            Err(error) if error.reason() == "PodAlreadyBound" => return,
            Err(error) if error.reason() == "NoAddressLeft" => return,
            Err(error) => assert_eq!(error.reason(), "RecordConflict", "{error}"),
        }
    }
    panic!("pod {pod} comes to no end");
}
