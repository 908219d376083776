use super::*;

const POOLS: &str = "/apis/flipop.digitalocean.com/v1alpha1/namespaces/shop/floatingippools";

fn on(nodes: &[&str]) -> Value {
    let mut object = vip("edge", &json!({ "addresses": [IP], "nodes": nodes }));
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool",
        "name": "edges", "uid": "pool-1",
    }]);
    object
}

/// The pool that vouches for it.
fn pool(provider: &str, ips: &[&str], uid: &str) -> Value {
    json!({
        "metadata": { "name": "edges", "namespace": "shop", "uid": uid },
        "spec": { "provider": provider, "ips": ips, "desiredIPs": 0 },
    })
}

/// Nodes and modes of the candidates.
fn modes(scene: &Scene) -> Vec<String> {
    let all = scene.vip("edge")["status"]["candidates"].clone();
    let all = all.as_array().cloned().unwrap_or_default().into_iter();
    let mode = |it: Value| format!("{} {}", text(&it["node"]), text(&it["mode"]));
    all.map(mode).collect()
}

fn name(scene: &Scene, nodes: &[&str]) {
    let mut object = scene.vip("edge");
    object["spec"]["nodes"] = json!(nodes);
    scene.server.put(VIPS, object);
}

#[tokio::test(start_paused = true)]
async fn the_first_node_is_a_candidate_and_the_others_stand_by() {
    let scene = Scene::start(|server| {
        server.put(POOLS, pool("l2", &[IP], "pool-1"));
        server.put(VIPS, on(&["n2", "n1", "unknown"]));
    })
    .await;
    scene
        .until(|it| modes(it) == ["n1 standby", "n2 node"])
        .await;
    let object = scene.vip("edge");
    assert_eq!(scene.key(IP), "vip__shop_edge_");
    let second = &object["status"]["candidates"][1];
    assert_eq!(
        (text(&second["pod"]), text(&second["uid"])),
        ("node/n2".into(), "node/n2".into())
    );
    assert_eq!(object["status"]["summary"]["candidates"], 1);
    name(&scene, &["n1", "n2"]);
    scene
        .until(|it| modes(it) == ["n1 node", "n2 standby"])
        .await;
    // A node that is not ready is the pool's matter, and nobody else's.
    scene.server.put(NODES, node("n1", 1, "False"));
    pass(60).await;
    assert_eq!(modes(&scene), ["n1 node", "n2 standby"]);
}

#[tokio::test(start_paused = true)]
async fn the_holder_stays_while_the_agent_of_the_named_node_does_not_live() {
    let scene = Scene::start(|server| {
        server.put(POOLS, pool("l2", &[IP], "pool-1"));
        let mut object = on(&["n1", "n2"]);
        let mut holder = holding("node/n1", "n1", 3);
        holder["uid"] = "node/n1".into();
        holder["mode"] = "node".into();
        object["status"] = json!({ "addresses": [IP], "holder": holder });
        let object = server.put(VIPS, object);
        set_entry(server, &object);
    })
    .await;
    scene
        .until(|it| modes(it) == ["n1 node", "n2 standby"])
        .await;
    scene.server.put(PODS, agent("n2", "False"));
    scene.until(|it| modes(it) == ["n1 node"]).await;
    name(&scene, &["n2", "n1"]);
    pass(10).await;
    assert_eq!(modes(&scene), ["n1 node"]);
    // An agent that is not ready for a moment holds what it has.
    scene.server.put(PODS, agent("n1", "False"));
    pass(10).await;
    assert_eq!(modes(&scene), ["n1 node"]);
    scene.server.put(PODS, agent("n2", "True"));
    scene
        .until(|it| modes(it) == ["n1 standby", "n2 node"])
        .await;
    name(&scene, &[]);
    scene.until(|it| modes(it).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn nobody_but_a_pool_that_lists_the_address_names_nodes() {
    let others = [
        None,
        Some(pool("digitalocean", &[IP], "pool-1")),
        Some(pool("l2", &["10.0.70.99"], "pool-1")),
        Some(pool("l2", &[IP], "pool-0")),
    ];
    for other in others {
        let scene = Scene::start(|server| {
            if let Some(pool) = other {
                server.put(POOLS, pool);
            }
            server.put(VIPS, on(&["n1"]));
        })
        .await;
        scene
            .until(|it| it.accepted("shop", "edge") == "False NodesNotAllowed")
            .await;
        assert_eq!(modes(&scene), Vec::<String>::new());
        scene.stop();
    }
    let scene = Scene::start(|server| {
        server.put(POOLS, pool("l2", &[IP], "pool-1"));
        let mut object = on(&["n1"]);
        object["metadata"]["ownerReferences"] = json!([]);
        server.put(VIPS, object);
    })
    .await;
    scene
        .until(|it| it.accepted("shop", "edge") == "False NodesNotAllowed")
        .await;
}
