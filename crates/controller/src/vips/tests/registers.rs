use super::*;

#[tokio::test(start_paused = true)]
async fn an_object_is_entered_before_its_status_shows_the_address() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        server.put(VIPS, vip("web", &web()));
        server.put(VIPS, vip("none", &json!({})));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a"]).await;
    assert_eq!(
        scene.entry("web"),
        json!({ "vip": "shop/web", "addresses": [IP], "moves": 0 })
    );
    assert_eq!(
        scene.entry("none"),
        json!(null),
        "of nothing there is no entry"
    );
    let calls = scene.server.state().calls.clone();
    let first = |part: &str| calls.iter().position(|it| it.contains(part)).unwrap();
    assert!(first("PATCH /apis/floe.dev/v1alpha1/virtualipregisters/") < first("web/status"));
}

#[tokio::test(start_paused = true)]
async fn many_objects_of_one_register_are_entered_in_few_writes() {
    let scene = Scene::start(|server| {
        for (name, ip) in [("one", IP), ("two", "10.0.70.21"), ("three", "10.0.70.22")] {
            let mut spec = web();
            spec["addresses"] = json!([ip]);
            server.put(VIPS, vip(name, &spec));
        }
    })
    .await;
    for name in ["one", "two", "three"] {
        scene
            .until(|it| it.accepted("shop", name) == "True Granted")
            .await;
    }
    let writes = scene.server.count(&Method::PATCH, "virtualipregisters");
    assert!(writes <= 2, "{writes}");
}

#[tokio::test(start_paused = true)]
async fn what_an_agent_does_not_show_is_shown_after_a_while() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a"]).await;
    let mut held = scene.vip("web");
    held["status"]["holder"] = holding("a", "n1", 4);
    held["status"]["moves"] = json!(1);
    set_entry(&scene.server, &held);
    pass(2).await;
    assert_eq!(
        scene.vip("web")["status"]["holder"],
        json!(null),
        "its agent will"
    );
    scene
        .until(|it| it.vip("web")["status"]["holder"]["pod"] == "a")
        .await;
    assert_eq!(scene.vip("web")["status"]["moves"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_somebody_wrote_decides_nothing_and_is_put_right() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a"]).await;
    let mut forged = scene.vip("web");
    forged["status"]["addresses"] = json!(["10.0.70.30"]);
    forged["status"]["holder"] = holding("evil", "n2", 1);
    scene.server.put(VIPS, forged);
    scene
        .until(|it| it.vip("web")["status"]["addresses"] == json!([IP]))
        .await;
    assert_eq!(scene.vip("web")["status"]["holder"], json!(null));
    assert_eq!(scene.entry("web")["addresses"], json!([IP]));
}

#[tokio::test(start_paused = true)]
async fn an_entry_goes_with_its_object_and_one_without_object_after_long() {
    let scene = Scene::start(|server| {
        let mut gone = vip("gone", &web());
        gone["metadata"]["uid"] = json!("f-gone");
        gone["status"] = json!({ "addresses": ["10.0.70.22"], "moves": 3 });
        set_entry(server, &gone);
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene
        .until(|it| it.accepted("shop", "web") == "True Granted")
        .await;
    let mut leaving = scene.vip("web");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    scene.server.put(VIPS, leaving);
    scene.until(|it| it.vip("web").is_null()).await;
    let entries = |name: &str| {
        let register = scene.server.object(REGISTERS, name).unwrap();
        register["entries"]
            .as_object()
            .map_or(0, serde_json::Map::len)
    };
    assert_eq!(entries("floe-vips-0"), 0);
    pass(300).await;
    assert_eq!(entries("floe-vips-f"), 1);
    pass(120).await;
    assert_eq!(entries("floe-vips-f"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_was_judged_on_something_else_is_not_written() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        server.put(PODS, pod("b", "n2", "True"));
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a", "b"]).await;
    scene.set_status("web", |status| status["holder"] = holding("a", "n1", 4));
    pass(1).await;
    // Just before the successor is written, the holder gives the address to b.
    let uid = text(&scene.vip("web")["metadata"]["uid"]);
    let act = move |state: &mut floe_shell::mock::State| {
        let mut register = state.list_of(REGISTERS).remove(0);
        edit(&mut register, &uid, |entry| {
            entry["holder"] = holding("b", "n2", 7);
            entry["moves"] = json!(1);
        });
        state.put(REGISTERS, register);
    };
    let fault = Fault::Before(Box::new(act));
    scene
        .server
        .fault(Method::PATCH, "virtualipregisters", fault);
    let mut object = scene.vip("web");
    object["metadata"]["annotations"] = json!({ "floe.dev/move-to": "b" });
    scene.server.put(VIPS, object);
    scene
        .until(|it| it.vip("web")["metadata"]["annotations"]["floe.dev/move-to"].is_null())
        .await;
    assert_eq!(scene.entry("web")["holder"]["pod"], "b");
    assert_eq!(
        scene.entry("web")["successor"],
        json!(null),
        "it is there already"
    );
}

#[tokio::test(start_paused = true)]
async fn a_register_that_somebody_deletes_stays_until_it_has_no_entries() {
    let scene = Scene::start(|server| {
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene
        .until(|it| it.accepted("shop", "web") == "True Granted")
        .await;
    let mut register = scene.server.object(REGISTERS, "floe-vips-0").unwrap();
    assert_eq!(
        register["metadata"]["finalizers"],
        json!(["floe.dev/register"])
    );
    register["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    scene.server.put(REGISTERS, register);
    pass(120).await;
    assert_eq!(scene.entry("web")["addresses"], json!([IP]));
    let mut leaving = scene.vip("web");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    scene.server.put(VIPS, leaving);
    scene.until(|it| it.vip("web").is_null()).await;
    pass(60).await;
    assert_eq!(scene.server.object(REGISTERS, "floe-vips-0"), None);
}

#[tokio::test(start_paused = true)]
async fn while_a_register_makes_no_sense_nothing_is_done_about_shared_addresses() {
    let with = |address: &str| {
        let state = json!({ "addresses": [address] }).to_string();
        json!({
            "metadata": { "name": "floe-vips-7" },
            "entries": { "7-a": { "vip": "shop/a", "state": state } },
        })
    };
    let scene = Scene::start(|server| {
        server.put(REGISTERS, with("no address"));
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    pass(60).await;
    assert_eq!(scene.vip("web")["status"], json!(null));
    scene.server.put(REGISTERS, with("10.0.70.22"));
    scene
        .until(|it| it.accepted("shop", "web") == "True Granted")
        .await;
}
