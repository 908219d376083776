use floe_core::vip::elect::MoveReason;

use super::*;

async fn held(spec: Value) -> Scene {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        server.put(PODS, pod("b", "n2", "True"));
        server.put(VIPS, vip("web", &spec));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a", "b"]).await;
    scene.set_status("web", |status| {
        status["holder"] = holding("a", "n1", 4);
        status["moves"] = json!(1);
        status["lastMove"] =
            json!({ "at": "2026-01-01T00:00:00Z", "reason": "FirstHolder", "to": "a" });
    });
    pass(1).await;
    scene
}

fn wish(scene: &Scene, pod: &str) {
    let mut object = scene.vip("web");
    object["metadata"]["annotations"] = json!({ "floe.dev/move-to": pod, "mine": "stays" });
    scene.server.put(VIPS, object);
}

fn is_answered(scene: &Scene) -> bool {
    scene.vip("web")["metadata"]["annotations"] == json!({ "mine": "stays" })
}

#[tokio::test(start_paused = true)]
async fn a_wish_for_a_move_becomes_the_successor_and_is_taken_off() {
    let scene = held(web()).await;
    wish(&scene, "b");
    scene.until(is_answered).await;
    let successor = &scene.vip("web")["status"]["successor"];
    assert_eq!(successor["pod"], "b");
    assert_eq!(successor["uid"], "uid-b");
    assert_eq!(successor["node"], "n2");
    assert_eq!(successor["reason"], "Requested");
    assert_eq!(successor["ready"], json!(null), "its node says when it is");
    assert_eq!(
        scene.vip("web")["status"]["holder"]["pod"],
        "a",
        "the holder hands over"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wish_waits_for_a_move_that_is_on_its_way() {
    let scene = held(web()).await;
    scene.set_status("web", |status| {
        let mut successor = holding("b", "n2", 1);
        successor["reason"] = json!("PodNotReady");
        status["successor"] = successor;
    });
    wish(&scene, "b");
    pass(5).await;
    assert!(!is_answered(&scene));
    scene.set_status("web", |status| {
        status["successor"] = json!(null);
        status["holder"] = holding("b", "n2", 1);
    });
    scene.until(is_answered).await;
    assert_eq!(
        scene.vip("web")["status"]["successor"],
        json!(null),
        "it is there already"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wished_pod_may_be_no_candidate_for_a_moment() {
    let scene = held(web()).await;
    scene.server.put(PODS, agent("n2", "False"));
    scene.until(|it| it.candidates("web") == ["a"]).await;
    wish(&scene, "b");
    pass(25).await;
    assert!(!is_answered(&scene));
    scene.server.put(PODS, agent("n2", "True"));
    scene
        .until(|it| it.vip("web")["status"]["successor"]["pod"] == "b")
        .await;

    let scene = held(web()).await;
    scene.server.put(PODS, agent("n2", "False"));
    scene.until(|it| it.candidates("web") == ["a"]).await;
    wish(&scene, "b");
    pass(25).await;
    let told = "VirtualIP web MoveToNoCandidate".to_owned();
    scene.until(|it| it.events().contains(&told)).await;
    assert!(is_answered(&scene));
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_cannot_be_is_told_and_taken_off() {
    let scene = held(web()).await;
    wish(&scene, "nobody");
    scene.until(is_answered).await;
    let told = "VirtualIP web MoveToNoCandidate".to_owned();
    scene.until(|it| it.events().contains(&told)).await;
    scene.set_status("web", |status| status["holder"] = json!(null));
    wish(&scene, "b");
    let told = "VirtualIP web MoveWithoutHolder".to_owned();
    scene.until(|it| it.events().contains(&told)).await;
    assert_eq!(scene.vip("web")["status"]["successor"], json!(null));
}

#[tokio::test(start_paused = true)]
async fn a_preferred_pod_gets_the_address_back_only_if_that_is_wished() {
    let mut spec = web();
    spec["failover"] = json!({ "preferredPods": ["b"], "failback": false });
    let scene = held(spec).await;
    pass(60).await;
    assert_eq!(scene.vip("web")["status"]["successor"], json!(null));
    let mut object = scene.vip("web");
    object["spec"]["failover"]["failback"] = json!(true);
    scene.server.put(VIPS, object);
    scene
        .until(|it| it.vip("web")["status"]["successor"]["pod"] == "b")
        .await;
    assert_eq!(
        scene.vip("web")["status"]["successor"]["reason"],
        "Failback"
    );
    // The holder's agent finds it impossible: it is planned again, but not at once.
    scene.set_status("web", |status| status["successor"] = json!(null));
    pass(5).await;
    assert_eq!(scene.vip("web")["status"]["successor"], json!(null));
    scene
        .until(|it| it.vip("web")["status"]["successor"]["pod"] == "b")
        .await;
}

#[tokio::test(start_paused = true)]
async fn each_move_is_told_once_on_the_object_and_on_both_pods() {
    let scene = held(web()).await;
    let moved = |reason: &str, count: i64, from: &str, to: &str, node: &str| {
        let last = json!({ "at": jiff::Timestamp::now().to_string(), "reason": reason, "from": from, "to": to });
        scene.set_status("web", |status| {
            status["holder"] = holding(to, node, 4);
            status["moves"] = json!(count);
            status["lastMove"] = last;
        });
    };
    moved("PodNotReady", 2, "a", "b", "n2");
    let all = [
        "Pod a PodNotReady",
        "Pod b PodNotReady",
        "VirtualIP web PodNotReady",
    ];
    scene.until(|it| it.events() == all).await;
    // The old pod is gone by now, and the same reason comes again.
    moved("PodNotReady", 3, "b", "a", "n1");
    scene.until(|it| it.events().len() == 6).await;
    pass(60).await;
    assert_eq!(scene.events().len(), 6);
    let event = &scene.server.objects(EVENTS)[0];
    assert!(
        text(&event["note"]).starts_with("10.0.70.20: moved from pod "),
        "{event}"
    );
    let mut registry = prometheus_client::registry::Registry::default();
    scene.metrics.vips().register(&mut registry);
    let mut figures = String::new();
    prometheus_client::encoding::text::encode(&mut figures, &registry).unwrap();
    let reason = MoveReason::PodNotReady.reason();
    assert!(
        figures.contains(&format!("floe_vip_moves_total{{reason=\"{reason}\"}} 2")),
        "{figures}"
    );
    assert!(figures.contains("floe_vips{state=\"Held\"} 1"), "{figures}");
}

#[tokio::test(start_paused = true)]
async fn pods_that_lose_and_get_many_addresses_at_once_are_told_once() {
    let scene = held(web()).await;
    let names = ["web", "web-2", "web-3"];
    for (name, ip) in names.iter().zip(["", "10.0.70.21", "10.0.70.22"]).skip(1) {
        let mut spec = web();
        spec["addresses"] = json!([ip]);
        scene.server.put(VIPS, vip(name, &spec));
        scene.until(|it| it.candidates(name) == ["a", "b"]).await;
        scene.set_status(name, |status| {
            status["holder"] = holding("a", "n1", 4);
            status["moves"] = json!(1);
        });
    }
    pass(1).await;
    for name in names {
        let at = jiff::Timestamp::now().to_string();
        scene.set_status(name, |status| {
            status["holder"] = holding("b", "n2", 4);
            status["moves"] = json!(2);
            status["lastMove"] =
                json!({ "at": at, "reason": "NodeSilent", "from": "a", "to": "b" });
        });
    }
    let all = [
        "Pod a NodeSilent",
        "Pod b NodeSilent",
        "VirtualIP web NodeSilent",
        "VirtualIP web-2 NodeSilent",
        "VirtualIP web-3 NodeSilent",
    ];
    scene.until(|it| it.events() == all).await;
    pass(60).await;
    assert_eq!(scene.events(), all);
    let events = scene.server.objects(EVENTS);
    let of_pods = events.iter().filter(|it| it["regarding"]["kind"] == "Pod");
    for event in of_pods {
        let note = text(&event["note"]);
        assert!(note.ends_with("; so did 2 others"), "{note}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_tells_a_recent_move_and_no_old_one() {
    let with = |name: &str, ip: &str, at: String| {
        let mut object = vip(name, &json!({ "addresses": [ip], "selector": {} }));
        object["status"] = json!({
            "addresses": [ip], "holder": holding("a", "n1", 4), "moves": 7,
            "lastMove": { "at": at, "reason": "NodeSilent", "from": "gone", "to": "a" },
        });
        object
    };
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        let now = jiff::Timestamp::now().to_string();
        server.put(VIPS, with("recent", IP, now));
        server.put(
            VIPS,
            with("old", "10.0.70.21", "2026-01-01T00:00:00Z".into()),
        );
    })
    .await;
    let all = ["Pod a NodeSilent", "VirtualIP recent NodeSilent"];
    scene.until(|it| it.events() == all).await;
    pass(60).await;
    assert_eq!(scene.events(), all);
}

#[tokio::test(start_paused = true)]
async fn a_first_holder_is_told_though_it_is_no_move() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a"]).await;
    for (holder, reason) in [
        ("a", "FirstHolder"),
        ("", "PodDeleted"),
        ("a", "FirstHolder"),
    ] {
        let is_held = !holder.is_empty();
        scene.set_status("web", |status| {
            status["holder"] = if is_held {
                holding(holder, "n1", 4)
            } else {
                json!(null)
            };
            let moves = status["moves"].as_i64().unwrap_or_default();
            status["moves"] = json!(moves + i64::from(!is_held));
            status["lastMove"] =
                json!({ "at": jiff::Timestamp::now(), "reason": reason, "to": holder });
        });
        pass(1).await;
    }
    let told = |scene: &Scene, reason: &str| {
        let event = format!("VirtualIP web {reason}");
        scene.events().iter().filter(|it| **it == event).count()
    };
    let all = (2, 1);
    scene
        .until(|it| (told(it, "FirstHolder"), told(it, "PodDeleted")) == all)
        .await;
}
