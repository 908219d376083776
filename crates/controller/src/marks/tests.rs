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

#[tokio::test(start_paused = true)]
async fn a_record_of_a_pod_gets_the_network_that_it_lacks() {
    let network = "floe.dev/network";
    let given = |ip: &str, uid: &str| {
        format!(r#"{{"ip":"{ip}/24","vlan":99,"gateway":"10.0.70.9","uid":"{uid}"}}"#)
    };
    let scene = Scene::start(|server| {
        server.put(FIPS, fip("10.0.70.2", "sts_ns_a_a-0", 2, "u"));
        let mut told = fip("10.0.70.3", "sts_ns_a_a-1", 2, "v");
        told["metadata"]["annotations"] = json!({ network: given("10.0.70.3", "v") });
        server.put(FIPS, told);
        // What galaxy has handed on, and what somebody has spoilt.
        let mut old = fip("10.0.70.5", "sts_ns_a_a-3", 2, "new");
        old["metadata"]["annotations"] = json!({ network: given("10.0.70.5", "old") });
        server.put(FIPS, old);
        let mut spoilt = fip("10.0.70.6", "sts_ns_a_a-4", 2, "x");
        spoilt["metadata"]["annotations"] = json!({ network: "mine" });
        server.put(FIPS, spoilt);
        // What a configuration said that was corrected since.
        let mut bad = fip("10.0.70.7", "sts_ns_a_a-5", 2, "y");
        let zero = given("10.0.70.7", "y").replace("/24", "/0");
        bad["metadata"]["annotations"] = json!({ network: zero });
        server.put(FIPS, bad);
        server.put(FIPS, fip("10.0.70.4", "sts_ns_a_a-2", 2, ""));
        server.put(FIPS, fip("10.99.0.1", "sts_ns_b_b-0", 2, "w"));
    })
    .await;
    tokio::spawn(scene.marker().run(scene.stop.clone()));
    let told = |ip: &str| {
        let object = scene.server.object(FIPS, ip).unwrap();
        object["metadata"]["annotations"][network].clone()
    };
    let follows = |ip: &str| {
        let text = told(ip).as_str().unwrap_or_default().to_owned();
        text.starts_with(&format!(r#"{{"ip":"{ip}/24","#)) && !text.contains("99")
    };
    until("the networks are told", || {
        ["10.0.70.2", "10.0.70.5", "10.0.70.6", "10.0.70.7"]
            .into_iter()
            .all(follows)
    })
    .await;
    until("the last one is marked", || is_marked(&scene, "10.99.0.1")).await;
    assert_eq!(told("10.0.70.3"), given("10.0.70.3", "v"));
    assert_eq!(told("10.0.70.4"), json!(null), "nobody has it");
    assert_eq!(told("10.99.0.1"), json!(null), "nobody knows it");

    // What cannot be told is not tried again and again.
    let writes = || scene.server.count(&Method::PATCH, FIPS);
    let before = writes();
    pass(120).await;
    assert_eq!(writes(), before);
}

/// `kubectl get fip` shows address and state from annotations, which neither an administrator
/// nor galaxy writes.
#[tokio::test(start_paused = true)]
async fn a_reservation_made_with_kubectl_gets_its_columns() {
    let scene = Scene::start(|_| ()).await;
    tokio::spawn(scene.marker().run(scene.stop.clone()));
    let mut applied = fip("10.0.70.5", "pool__reserved-for-node_", 2, "");
    applied["metadata"]["labels"] = json!({ "reserved": "this-is-not-for-pods" });
    applied["spec"]["attribute"] = json!("");
    scene.server.put(FIPS, applied);
    let notes =
        |ip: &str| scene.server.object(FIPS, ip).unwrap()["metadata"]["annotations"].clone();
    let wanted = json!({ "floe.dev/address": "10.0.70.5", "floe.dev/state": "Reserved" });
    until("the columns are filled", || notes("10.0.70.5") == wanted).await;

    // It is no longer a reservation.
    let mut object = scene.server.object(FIPS, "10.0.70.5").unwrap();
    object["metadata"]["labels"] = json!({});
    scene.server.put(FIPS, object);
    until("the state follows", || {
        notes("10.0.70.5")["floe.dev/state"] == "Spare"
    })
    .await;
    let writes = || scene.server.count(&Method::PATCH, FIPS);
    let before = writes();
    pass(2 * PACE.as_secs()).await;
    assert_eq!(writes(), before, "what is true is not written again");
}
