//! What a scheduler would have checked before it chose a node.

use super::*;
use crate::{
    binder::tests::world::NODES,
    cluster::{self, Feeds},
};

/// Binders over two kinds of caches: one that knows every node, and one that knows none.
async fn binders(world: &World) -> [Binder; 2] {
    let (fed, cold) = (world.binder().await, world.binder().await);
    let feeds = Feeds {
        client: fed.client.clone(),
        cluster: fed.cluster.clone(),
        store: fed.store.clone(),
    };
    tokio::spawn(cluster::feed(feeds, world.stop()));
    let mut warmth = fed.store.warmth();
    warmth.wait_for(|it| it.nodes && it.pods).await.unwrap();
    [fed, cold]
}

#[tokio::test]
async fn a_node_that_no_scheduler_would_choose_is_refused() {
    let node = |extra: Value| {
        let mut node = json!({
            "metadata": { "name": "n1" },
            "status": { "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }] },
        });
        for (member, value) in extra.as_object().unwrap() {
            for (name, value) in value.as_object().unwrap() {
                node[member][name] = value.clone();
            }
        }
        node
    };
    let tainted = json!({ "spec": { "taints": [{ "key": "dedicated", "effect": "NoSchedule" }] } });
    let tolerates = json!({ "tolerations": [{ "key": "dedicated", "operator": "Exists" }] });
    let selects = json!({ "nodeSelector": { "disk": "ssd" } });
    let requires = json!({ "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["ssd"] }] },
        ] } } } });
    let ssd = json!({ "metadata": { "labels": { "disk": "ssd" } } });
    let cordoned = json!({ "spec": { "unschedulable": true } });
    let prefers = json!({ "spec": { "taints": [{ "key": "k", "effect": "PreferNoSchedule" }] } });
    let plain = json!({});
    for (node_parts, pod_parts, is_accepted) in [
        (&plain, &plain, true),
        (&tainted, &plain, false),
        (&tainted, &tolerates, true),
        (&prefers, &plain, true),
        (&cordoned, &plain, false),
        (&plain, &selects, false),
        (&ssd, &selects, true),
        (&plain, &requires, false),
        (&ssd, &requires, true),
    ] {
        let world = World::new();
        world.server.put(NODES, node(node_parts.clone()));
        let mut pod = world.pod("a", None);
        for (name, value) in pod_parts.as_object().unwrap() {
            pod["spec"][name] = value.clone();
        }
        world.server.put(PODS, pod);
        for binder in binders(&world).await {
            let case = format!("{node_parts} {pod_parts}");
            let bound = binder.bind(&request("a", "n1")).await;
            if is_accepted {
                bound.expect(&case);
                continue;
            }
            assert_eq!(bound.unwrap_err().reason(), "NodeNotAccepted", "{case}");
            assert_eq!(world.writes(), 0, "{case}");
        }
    }
}

#[tokio::test]
async fn a_node_that_changed_a_moment_ago_is_seen_as_it_is() {
    let world = World::new();
    let mut node = world.server.object(NODES, "n1").unwrap();
    node["spec"] = json!({ "unschedulable": true });
    world.server.put(NODES, node.clone());
    world.pod("a", None);
    let [binder, _] = binders(&world).await;
    // Its watch ends, so that its cache stays behind; that of the scheduler does not.
    world.end_watches();
    node["spec"] = json!({});
    world.server.put(NODES, node);
    binder.bind(&request("a", "n1")).await.unwrap();
    assert_eq!(world.held("uid-a"), ["10.0.70.2"]);
}
