use axum::http::Method;
use serde_json::json;

use super::PACE;
use crate::reclaim::scene::{FIPS, Scene, fip, pass, until};

const OUTSIDE: &str = "floe.dev/outside-configuration";
const NODE: &str = "floe.dev/node";

fn is_marked(scene: &Scene, ip: &str) -> bool {
    let object = scene.server.object(FIPS, ip).unwrap();
    object["metadata"]["labels"].get(OUTSIDE).is_some()
}

#[tokio::test(start_paused = true)]
async fn marks_follow_the_configuration() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip("10.0.70.2", "sts_ns_a_a-0", 2, "u"));
        server.put(FIPS, fip("10.0.70.3", "sts_ns_a_a-1", 2, "v"));
        server.put(FIPS, fip("10.99.0.1", "sts_ns_b_b-0", 2, "w"));
        let mut wrong = fip("10.0.80.2", "sts_ns_a_a-2", 2, "x");
        wrong["metadata"]["labels"] = json!({ OUTSIDE: "", "mine": "stays" });
        server.put(FIPS, wrong);
    })
    .await;
    tokio::spawn(scene.marker().run(scene.stop.clone()));
    let marks =
        || ["10.0.70.2", "10.0.70.3", "10.99.0.1", "10.0.80.2"].map(|ip| is_marked(&scene, ip));
    until("the marks are true", || {
        marks() == [false, false, true, false]
    })
    .await;
    let labels = &scene.server.object(FIPS, "10.0.80.2").unwrap()["metadata"]["labels"];
    assert_eq!(*labels, json!({ "mine": "stays", NODE: "n1" }));
    assert_eq!(scene.held("10.99.0.1"), "sts_ns_b_b-0 w");

    let entry = |ips: &str| {
        format!(
            r#"[{{"nodeSubnets": ["10.0.1.0/24"], "ips": ["{ips}"], "subnet": "10.0.70.0/24",
                 "gateway": "10.0.70.1"}}]"#
        )
    };
    let start = tokio::time::Instant::now();
    scene.configure(&entry("10.0.70.3"));
    until("others are outside", || {
        marks() == [true, false, true, true]
    })
    .await;
    scene.configure(&entry("10.0.70.2~10.0.70.9"));
    until("one is inside again", || {
        marks() == [false, false, true, true]
    })
    .await;
    assert!(
        start.elapsed() < PACE,
        "by the change, not by the next look"
    );

    // A new record, and one that lost its mark.
    scene
        .server
        .put(FIPS, fip("10.99.0.2", "sts_ns_b_b-1", 2, "y"));
    scene
        .server
        .put(FIPS, fip("10.99.0.1", "sts_ns_b_b-0", 2, "w"));
    until("both are marked", || {
        is_marked(&scene, "10.99.0.2") && is_marked(&scene, "10.99.0.1")
    })
    .await;

    // Nothing configured says nothing.
    let writes = || scene.server.count(&Method::PATCH, FIPS);
    let before = writes();
    scene.configure("[]");
    pass(120).await;
    assert_eq!(writes(), before);
}

#[tokio::test(start_paused = true)]
async fn a_record_names_its_node_in_a_label() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip("10.0.70.2", "sts_ns_a_a-0", 2, "u"));
        let mut moved = fip("10.0.70.3", "sts_ns_a_a-1", 2, "v");
        moved["metadata"]["labels"] = json!({ NODE: "n9" });
        server.put(FIPS, moved);
        let mut kept = fip("10.0.70.4", "sts_ns_a_a-2", 2, "");
        kept["metadata"]["labels"] = json!({ NODE: "n1" });
        server.put(FIPS, kept);
    })
    .await;
    tokio::spawn(scene.marker().run(scene.stop.clone()));
    let node = |ip: &str| {
        let object = scene.server.object(FIPS, ip).unwrap();
        object["metadata"]["labels"][NODE].clone()
    };
    until("the labels are true", || {
        ["10.0.70.2", "10.0.70.3", "10.0.70.4"].map(node) == [json!("n1"), json!("n1"), json!(null)]
    })
    .await;
}
