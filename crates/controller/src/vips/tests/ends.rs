use super::*;
use crate::leader::Standing;

/// An object with a holder, of which somebody has asked the deletion.
async fn deleting(scene: &Scene, term: i64) {
    scene.until(|it| it.candidates("web") == ["a"]).await;
    scene.set_status("web", |status| status["holder"] = holding("a", "n1", term));
    let mut object = scene.vip("web");
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    scene.server.put(VIPS, object);
    scene
        .until(|it| it.vip("web")["status"]["candidates"].is_null())
        .await;
    assert_eq!(
        scene.vip("web")["status"]["addresses"],
        json!(null),
        "nobody can take it"
    );
}

/// It goes without floe's leave, and is made anew, which gets it nothing.
async fn remade(scene: &Scene) {
    scene.server.delete(VIPS, "web");
    let mut again = vip("web", &web());
    again["metadata"]["uid"] = json!("f-again");
    scene.server.put(VIPS, again);
    scene
        .until(|it| it.accepted("shop", "web") == "False AddressStillHeld")
        .await;
}

async fn scene(prepare: impl FnOnce(&floe_shell::mock::Server)) -> Scene {
    Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        server.put(VIPS, vip("web", &web()));
        prepare(server);
    })
    .await
}

/// The agent of n1 renews its lease for so many seconds.
async fn renew(scene: &Scene, term: i64, seconds: u64) {
    for second in 0..seconds {
        let mut renewed = lease("n1", term);
        renewed["spec"]["renewTime"] = json!(format!(
            "2026-01-01T00:{:02}:{:02}.000000Z",
            second / 60,
            second % 60
        ));
        scene.server.put(LEASES, renewed);
        pass(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_is_free_only_when_its_holder_has_let_go() {
    let scene = scene(|_| ()).await;
    deleting(&scene, 4).await;
    renew(&scene, 4, 400).await;
    assert_eq!(
        scene.key(IP),
        "vip__shop_web_",
        "its node lives and has not let go"
    );
    scene.set_status("web", |status| status["holder"] = json!(null));
    scene.until(|it| it.vip("web").is_null()).await;
    assert_eq!(scene.key(IP), "");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_silent_for_as_long_as_it_may_be_alone_holds_no_more() {
    let scene = scene(|server| {
        server.put(LEASES, lease("n1", 4));
    })
    .await;
    deleting(&scene, 4).await;
    pass(320).await;
    assert_eq!(scene.key(IP), "vip__shop_web_", "it may go on by promises");
    pass(20).await;
    assert_eq!(scene.key(IP), "");
    assert!(scene.vip("web").is_null());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_out_of_service_needs_to_be_silent_for_a_lease_only() {
    let scene = scene(|server| {
        server.put(LEASES, lease("n1", 4));
    })
    .await;
    deleting(&scene, 4).await;
    pass(10).await;
    assert_eq!(scene.key(IP), "vip__shop_web_");
    scene.server.delete(NODES, "n1");
    pass(5).await;
    assert_eq!(scene.key(IP), "");
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_an_older_term_holds_no_more_once_its_kernel_must_be_silent() {
    let scene = scene(|server| {
        server.put(LEASES, lease("n1", 5));
    })
    .await;
    deleting(&scene, 4).await;
    renew(&scene, 5, 3).await;
    assert_eq!(scene.key(IP), "vip__shop_web_");
    scene.until(|it| it.vip("web").is_null()).await;
    assert_eq!(scene.key(IP), "");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_lives_and_does_not_let_go_keeps_the_address_and_is_told_of_once() {
    let scene = scene(|_| ()).await;
    deleting(&scene, 4).await;
    let told = || {
        let events = scene.events();
        let told = events
            .iter()
            .filter(|it| *it == "VirtualIP web ReleaseOverdue");
        told.count()
    };
    renew(&scene, 4, 590).await;
    assert_eq!(told(), 0);
    renew(&scene, 4, 30).await;
    assert_eq!((scene.key(IP).as_str(), told()), ("vip__shop_web_", 1));
    // Another process of its agent cannot speak by what the last one had.
    renew(&scene, 5, 10).await;
    scene.until(|it| it.vip("web").is_null()).await;
    assert_eq!((scene.key(IP).as_str(), told()), ("", 1));
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_somebody_took_off_is_put_back() {
    let scene = scene(|_| ()).await;
    scene.until(|it| it.candidates("web") == ["a"]).await;
    let mut object = scene.vip("web");
    object["metadata"]["finalizers"] = json!([]);
    scene.server.put(VIPS, object);
    scene
        .until(|it| it.vip("web")["metadata"]["finalizers"] == json!(["floe.dev/vip"]))
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_made_anew_gets_nothing_that_its_predecessors_holder_may_speak_for() {
    let scene = scene(|_| ()).await;
    scene.until(|it| it.candidates("web") == ["a"]).await;
    scene.set_status("web", |status| status["holder"] = holding("a", "n1", 4));
    remade(&scene).await;
    pass(300).await;
    assert_eq!(scene.entry("web"), json!(null), "it may go on by promises");
    pass(100).await;
    scene
        .until(|it| it.accepted("shop", "web") == "True Granted")
        .await;
    assert_eq!(scene.entry("web")["holder"], json!(null));
}

#[tokio::test(start_paused = true)]
async fn addresses_of_an_object_that_is_gone_are_withdrawn_and_its_holder_is_kept() {
    for is_remade in [true, false] {
        let scene = scene(|_| ()).await;
        scene.until(|it| it.candidates("web") == ["a"]).await;
        scene.set_status("web", |status| status["holder"] = holding("a", "n1", 4));
        let uid = scene.vip("web")["metadata"]["uid"].clone();
        let uid = uid.as_str().unwrap();
        assert_eq!(scene.entry_of_uid(uid)["addresses"], json!([IP]));
        if is_remade {
            remade(&scene).await;
        } else {
            scene.server.delete(VIPS, "web");
        }
        scene
            .until(|it| it.entry_of_uid(uid)["addresses"].is_null())
            .await;
        assert_eq!(scene.entry_of_uid(uid)["holder"]["node"], "n1");
        assert_eq!(scene.key(IP), "vip__shop_web_", "its node may still answer");
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_of_an_object_that_went_while_no_process_led_are_withdrawn() {
    let scene = scene(|_| ()).await;
    scene.until(|it| it.candidates("web") == ["a"]).await;
    scene.set_status("web", |status| status["holder"] = holding("a", "n1", 4));
    let uid = scene.vip("web")["metadata"]["uid"].clone();
    let uid = uid.as_str().unwrap();
    scene.standing.send_replace(Standing::Unknown);
    pass(1).await;
    // The last one of its namespace.
    scene.server.delete(VIPS, "web");
    pass(10).await;
    assert_eq!(scene.entry_of_uid(uid)["addresses"], json!([IP]));
    scene.standing.send_replace(Standing::Leading);
    pass(5).await;
    assert_eq!(scene.entry_of_uid(uid)["addresses"], json!(null));
}

#[tokio::test(start_paused = true)]
async fn the_same_when_its_predecessor_was_to_go_and_lost_its_finalizer() {
    let scene = scene(|_| ()).await;
    deleting(&scene, 4).await;
    remade(&scene).await;
    pass(300).await;
    assert_eq!(scene.entry("web"), json!(null), "it may go on by promises");
    // An address that nobody has had is no matter of that.
    let mut other = vip("other", &web());
    other["spec"]["addresses"] = json!(["10.0.70.21"]);
    scene.server.put(VIPS, other);
    scene
        .until(|it| it.accepted("shop", "other") == "True Granted")
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_made_anew_frees_nothing_that_its_predecessors_holder_may_speak_for() {
    // It goes again, or wants another address: either way it is not its own to give.
    for goes in [true, false] {
        let scene = scene(|_| ()).await;
        deleting(&scene, 4).await;
        remade(&scene).await;
        let mut again = scene.vip("web");
        if goes {
            again["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        } else {
            again["spec"]["addresses"] = json!(["10.0.70.21"]);
        }
        scene.server.put(VIPS, again);
        pass(300).await;
        assert_eq!(scene.key(IP), "vip__shop_web_", "it may go on by promises");
        pass(100).await;
        scene.until(|it| it.key(IP).is_empty()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_an_object_loses_is_free_once_the_rest_has_moved() {
    let mut spec = web();
    spec["addresses"] = json!([IP, "10.0.70.21"]);
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        server.put(PODS, pod("b", "n2", "True"));
        server.put(VIPS, vip("web", &spec));
        server.put(LEASES, lease("n1", 4));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a", "b"]).await;
    scene.set_status("web", |status| status["holder"] = holding("a", "n1", 4));
    let mut object = scene.vip("web");
    object["spec"]["addresses"] = json!([IP]);
    scene.server.put(VIPS, object);
    scene
        .until(|it| it.vip("web")["status"]["addresses"] == json!([IP]))
        .await;
    pass(60).await;
    assert_eq!(
        scene.key("10.0.70.21"),
        "vip__shop_web_",
        "the holder may not know yet"
    );
    scene.set_status("web", |status| status["holder"] = holding("b", "n2", 1));
    scene.until(|it| it.key("10.0.70.21").is_empty()).await;
    assert_eq!(scene.key(IP), "vip__shop_web_");
}

#[tokio::test(start_paused = true)]
async fn a_record_without_object_is_freed_only_after_long() {
    let scene = Scene::start(|server| {
        server.put(FIPS, json!({
            "metadata": { "name": IP },
            "spec": { "key": "vip__shop_lost_", "policy": 2, "updateTime": "2026-01-01T00:00:00Z" },
        }));
    })
    .await;
    pass(300).await;
    assert_eq!(scene.key(IP), "vip__shop_lost_");
    pass(120).await;
    assert_eq!(scene.key(IP), "");
}
