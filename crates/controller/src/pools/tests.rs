use floe_core::ipam::policy::ReleasePolicy;
use serde_json::{Value, json};

use super::*;
use crate::reclaim::scene::{FIPS, POOLS, Scene, fip, pass, record_of, until};

fn pool(namespace: &str, size: i64, ahead: bool) -> Value {
    json!({
        "metadata": { "name": "p", "namespace": namespace }, "size": size, "preAllocateIP": ahead,
    })
}

fn spares(scene: &Scene) -> usize {
    let objects = scene.server.objects(FIPS);
    let spares = objects.iter().map(record_of);
    spares.filter(|it| it.key.as_str() == "pool__p_").count()
}

async fn until_spares(scene: &Scene, count: usize) {
    until(&format!("{count} spares"), || spares(scene) == count).await;
    pass(120).await;
    assert_eq!(spares(scene), count);
}

#[tokio::test(start_paused = true)]
async fn pools_are_filled_up_to_their_sizes() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip("10.0.70.2", "pool__p_dp_ns_a_a-1", 2, "u"));
    })
    .await;
    tokio::spawn(scene.preallocator().run(scene.stop.clone()));
    pass(60).await;
    assert_eq!(spares(&scene), 0);
    scene.server.put(POOLS, pool("kube-system", 3, false));
    pass(60).await;
    assert_eq!(spares(&scene), 0);
    scene.server.put(POOLS, pool("kube-system", 3, true));
    until_spares(&scene, 2).await;
    let record = scene
        .server
        .objects(FIPS)
        .iter()
        .map(record_of)
        .find(|it| it.uid.is_empty());
    assert_eq!(record.unwrap().policy, ReleasePolicy::Never);

    scene.server.put(POOLS, pool("kube-system", 5, true));
    until_spares(&scene, 4).await;
    // Both entries have some.
    for start in ["10.0.70.", "10.0.80."] {
        let objects = scene.server.objects(FIPS);
        let names = objects
            .iter()
            .map(|it| it["metadata"]["name"].as_str().unwrap());
        assert!(names.filter(|name| name.starts_with(start)).count() >= 2);
    }
    // A lower size frees nothing.
    scene.server.put(POOLS, pool("kube-system", 1, true));
    pass(120).await;
    assert_eq!(spares(&scene), 4);
    // The Pool for everybody bounds that of a namespace.
    scene.server.put(POOLS, pool("kube-system", 6, false));
    scene.server.put(POOLS, pool("ns2", 9, true));
    until_spares(&scene, 5).await;
    // What somebody frees is made up for.
    let freed = scene.store.read(|books| {
        let key = "pool__p_".into();
        let ip = books.ledger().held_by(&key).next().map(|it| it.ip);
        ip.unwrap().to_string()
    });
    scene.server.delete(FIPS, &freed);
    until_spares(&scene, 5).await;
    assert_eq!(
        scene.store.read(|books| books.ledger().promises().count()),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_shortage_is_told_once_and_ends_with_a_free_address() {
    let scene = Scene::start(|server| {
        server.put(POOLS, pool("kube-system", 13, true));
    })
    .await;
    tokio::spawn(scene.preallocator().run(scene.stop.clone()));
    until_spares(&scene, 12).await;
    pass(600).await;
    let told = scene.told("p");
    assert_eq!(told.len(), 1, "once: {told:?}");
    assert_eq!(told[0].0, POOL_SHORT);
    scene.configure(
        r#"[{"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.2~10.0.70.9"],
             "subnet": "10.0.70.0/24", "gateway": "10.0.70.1"},
            {"nodeSubnets": ["10.0.2.0/24"], "ips": ["10.0.80.2~10.0.80.6"],
             "subnet": "10.0.80.0/24", "gateway": "10.0.80.1"}]"#,
    );
    until_spares(&scene, 13).await;
}

#[tokio::test(start_paused = true)]
async fn another_address_is_tried_when_somebody_is_faster() {
    let scene = Scene::start(|server| {
        server.put(POOLS, pool("kube-system", 1, true));
        let faster = |state: &mut floe_shell::mock::State| {
            state.put(FIPS, fip("10.0.70.2", "NULL_ns_NULL_x", 0, "u"));
        };
        let fault = floe_shell::mock::Fault::Before(Box::new(faster));
        server.fault(axum::http::Method::POST, "floatingips", fault);
    })
    .await;
    tokio::spawn(scene.preallocator().run(scene.stop.clone()));
    until_spares(&scene, 1).await;
    assert_eq!(scene.held("10.0.70.2"), "NULL_ns_NULL_x u");
}
