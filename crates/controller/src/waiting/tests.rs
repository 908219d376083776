use std::{sync::Arc, time::Duration};

use floe_api::extender::PodRef;
use floe_core::ipam::names;
use jiff::Timestamp;
use tokio::task::JoinHandle;

use super::*;
use crate::{
    claims::scene::{DEPLOYMENTS, NODES, PODS, Scene, node, settle},
    leader::Standing,
};

mod lines;

/// A waker at work, that has woken all that it found at its start.
async fn start(scene: &Scene) -> JoinHandle<()> {
    let task = tokio::spawn(scene.waker().run(scene.stop.clone()));
    settle().await;
    task
}

/// The pod asks, is refused and waits.
async fn refused(scene: &Scene, pod: &PodRef) {
    let pod = scene.claims.pod(pod).await.unwrap();
    let claim = scene.claims.of(pod).await.unwrap();
    scene.waiting.refused(&claim);
}

fn patches(scene: &Scene) -> usize {
    scene.server.count(&axum::http::Method::PATCH, "/pods/")
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_wakes_each_unbound_pod_once() {
    let scene = Scene::start().await;
    scene.bare("a").await;
    scene.bare("b").await;
    let mut bound = crate::claims::scene::pod("c");
    bound["spec"]["nodeName"] = "n1".into();
    scene.add(bound).await;
    let mut leaving = crate::claims::scene::pod("d");
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    scene.add(leaving).await;
    start(&scene).await;
    assert_eq!(scene.woken(), ["a", "b"]);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(patches(&scene), 2, "none of them waits");
    assert_eq!(scene.figure("floe_wakes_total").as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn a_follower_wakes_nobody_and_forgets_who_waits() {
    let scene = Scene::start().await;
    let follower = Standing::Following {
        holder: None,
        extender: None,
        api: None,
    };
    scene.standing.send_replace(follower.clone());
    scene.bare("a").await;
    start(&scene).await;
    scene.waiting.room(Room::Anywhere);
    settle().await;
    assert_eq!(patches(&scene), 0);
    scene.standing.send_replace(Standing::Leading);
    settle().await;
    assert_eq!(scene.woken(), ["a"]);
    let pod = scene.bare("b").await;
    refused(&scene, &pod).await;
    scene.standing.send_replace(follower);
    settle().await;
    assert!(scene.waiting.called(&anywhere(), true).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_freed_address_wakes_exactly_one_and_the_newest_revision_first() {
    let scene = Scene::start().await;
    scene.deployment(1).await;
    scene.hold("10.0.70.2", "dp_ns_web_web-1-a", "uid-web-1-a");
    start(&scene).await;
    let old = scene.web("web-1-b", 1).await;
    let new = scene.web("web-2-x", 2).await;
    refused(&scene, &old).await;
    refused(&scene, &new).await;
    settle().await;
    assert_eq!(patches(&scene), 0, "there is no room");

    scene.hold("10.0.70.2", "dp_ns_web_", "");
    settle().await;
    assert_eq!(scene.woken(), ["web-2-x"]);
    // More news does not wake the other one while the first is expected.
    scene.waiting.room(Room::Anywhere);
    settle().await;
    assert_eq!(patches(&scene), 1);
    // It comes, and is let through; there is no place for the other.
    scene.waiting.leave(&new.uid);
    scene.hold("10.0.70.2", "dp_ns_web_web-2-x", &new.uid);
    settle().await;
    assert_eq!(patches(&scene), 1);
}

#[tokio::test(start_paused = true)]
async fn who_is_called_and_does_not_come_is_in_nobodys_way() {
    let scene = Scene::start().await;
    scene.deployment(1).await;
    start(&scene).await;
    let old = scene.web("web-1-b", 1).await;
    let new = scene.web("web-2-x", 2).await;
    refused(&scene, &old).await;
    refused(&scene, &new).await;
    scene.waiting.room(Room::Anywhere);
    settle().await;
    assert_eq!(scene.woken(), ["web-2-x"]);
    let claim = async |pod| scene.claims.of(scene.claims.pod(pod).await.unwrap()).await;
    let yields = claim(&old).await.unwrap().claimant.yields_to;
    assert_eq!(yields.as_deref(), Some("web-2-x"));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(scene.woken(), ["web-1-b", "web-2-x"]);
    assert_eq!(claim(&old).await.unwrap().claimant.yields_to, None);
}

#[tokio::test(start_paused = true)]
async fn scaling_up_wakes() {
    let scene = Scene::start().await;
    scene.deployment(1).await;
    scene.hold("10.0.70.2", "dp_ns_web_web-2-a", "uid-web-2-a");
    start(&scene).await;
    for name in ["web-2-b", "web-2-c"] {
        let pod = scene.web(name, 2).await;
        refused(&scene, &pod).await;
    }
    let scaled = serde_json::json!({
        "metadata": { "name": "web", "namespace": "ns" }, "spec": { "replicas": 2 },
    });
    scene.server.put(DEPLOYMENTS, scaled);
    settle().await;
    assert_eq!(scene.woken(), ["web-2-b"]);
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_promise_wakes_the_next_and_so_does_the_end_of_its_pod() {
    let scene = Scene::start().await;
    scene.deployment(1).await;
    start(&scene).await;
    let first = scene.web("web-2-a", 2).await;
    let promise = |until| floe_core::ipam::ledger::Promise {
        group: "dp_ns_web_".into(),
        namespace: "ns".into(),
        app_prefix: "dp_ns_web_".into(),
        places: 1,
        addresses: std::iter::empty().collect(),
        until,
    };
    let set = |until| {
        let promise = promise(until);
        scene
            .store
            .change(|books| books.promise(&first.uid, Some(promise)));
    };
    // The clock of promises is the real one: this one has lapsed already.
    set(Timestamp::now());
    let next = scene.web("web-2-b", 2).await;
    refused(&scene, &next).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(scene.woken(), ["web-2-b"]);

    scene.waiting.leave(&next.uid);
    set(Timestamp::now()
        .saturating_add(Duration::from_secs(20))
        .unwrap());
    let last = scene.web("web-2-c", 2).await;
    refused(&scene, &last).await;
    settle().await;
    assert_eq!(scene.woken(), ["web-2-b"]);
    scene.server.delete(PODS, "web-2-a");
    settle().await;
    assert!(!scene.promised(&first));
    assert_eq!(scene.woken(), ["web-2-b", "web-2-c"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_node_wakes_those_that_had_none() {
    let scene = Scene::start().await;
    for ip in ["10.0.70.2", "10.0.70.3", "10.0.70.4"] {
        scene.hold(ip, "taken", "");
    }
    scene.server.delete(NODES, "n2");
    start(&scene).await;
    let pod = scene.bare("a").await;
    refused(&scene, &pod).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(patches(&scene), 0);
    scene.server.put(NODES, node("n4", "10.0.2.4"));
    settle().await;
    assert_eq!(scene.woken(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_bound_or_gone_waits_no_longer() {
    let scene = Scene::start().await;
    start(&scene).await;
    let bound = scene.bare("a").await;
    let gone = scene.bare("b").await;
    let other = scene.bare("c").await;
    for pod in [&bound, &gone, &other] {
        refused(&scene, pod).await;
    }
    let mut object = crate::claims::scene::pod("a");
    object["spec"]["nodeName"] = "n1".into();
    scene.add(object).await;
    scene.server.delete(PODS, "b");
    // Another pod of the same name: the wake is for the first and finds nobody.
    let mut object = crate::claims::scene::pod("c");
    object["metadata"]["uid"] = "another".into();
    scene.server.put(PODS, object);
    scene.waiting.room(Room::Anywhere);
    settle().await;
    assert!(scene.woken().is_empty());
    assert!(scene.waiting.called(&anywhere(), true).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_asks_differently_is_woken_once_for_each_change() {
    let scene = Scene::start().await;
    start(&scene).await;
    let with = |annotation: &str, value: &str| {
        let mut object = crate::claims::scene::pod("a");
        object["metadata"]["annotations"][annotation] = value.into();
        object
    };
    scene.add(with(names::ARGS, "{nonsense")).await;
    settle().await;
    assert_eq!(
        patches(&scene),
        0,
        "it is new: the scheduler asks by itself"
    );
    scene.add(with(names::ARGS, "{}")).await;
    settle().await;
    assert_eq!(patches(&scene), 1);
    scene.add(with(names::FAMILIES, "v4")).await;
    settle().await;
    assert_eq!(
        patches(&scene),
        2,
        "a wake is no change of what it asks for"
    );
    scene.add(with(names::FAMILIES, "v4")).await;
    settle().await;
    assert_eq!(patches(&scene), 2);
}

#[tokio::test(start_paused = true)]
async fn two_hundred_pods_are_woken_a_few_at_a_time() {
    let scene = Scene::start().await;
    for number in 0..200 {
        let object = crate::claims::scene::pod(&format!("p{number}"));
        scene.server.put(PODS, object);
    }
    settle().await;
    start(&scene).await;
    assert_eq!(scene.woken().len(), 200);
}

fn anywhere() -> Rooms {
    let mut rooms = Rooms::default();
    rooms.add(Room::Anywhere);
    rooms
}
