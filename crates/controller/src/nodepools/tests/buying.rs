use super::*;

/// A pool that wants two addresses and has none, and a shop that has some.
fn shopping() -> Scene {
    let scene = Scene::new();
    scene.cloud.lock().shop = ["10.0.1.1", "10.0.2.2", "10.0.3.3"]
        .map(|it| it.parse().unwrap())
        .into();
    scene.server.put(NODES, node("n1", "True"));
    scene
        .server
        .put(POOLS, pool_with("p", json!({ "ips": [], "desiredIPs": 2 })));
    scene
}

fn ips(scene: &Scene) -> Value {
    scene.pool("p")["spec"]["ips"].clone()
}

#[tokio::test(start_paused = true)]
async fn missing_addresses_are_bought_and_entered_in_order() {
    let mut scene = shopping();
    scene.start();
    scene
        .until(|it| ips(it) == json!(["10.0.1.1", "10.0.2.2"]))
        .await;
    scene
        .until(|it| it.ip("p", "10.0.2.2") == "active n1" || it.ip("p", "10.0.1.1") == "active n1")
        .await;
    pass(120).await;
    assert_eq!(scene.cloud.count("buy"), 2);
    assert_eq!(scene.status("p")["purchase"], json!(null));
    let cloud = scene.cloud.lock();
    for address in cloud.addresses.values() {
        let mark = address.mark.clone().unwrap();
        assert_eq!(mark.cluster, "c-1");
        assert_eq!(mark.pool, text(&scene.pool("p")["metadata"]["uid"]));
    }
}

#[tokio::test(start_paused = true)]
async fn the_intent_is_written_before_anything_is_bought() {
    let mut scene = shopping();
    scene.server.always(
        Method::PATCH,
        "floatingippools/p/status",
        ServerFault::Refuse(500),
    );
    scene.start();
    pass(60).await;
    assert_eq!(scene.cloud.count("buy"), 0);
    scene.server.heal();
    // The next try may be a minute away.
    pass(60).await;
    scene
        .until(|it| ips(it) == json!(["10.0.1.1", "10.0.2.2"]))
        .await;
    assert_eq!(scene.cloud.count("buy"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_purchase_without_an_answer_is_found_by_its_mark_also_by_the_next_process() {
    for restart in [false, true] {
        let mut scene = shopping();
        scene.cloud.fault("buy", Fault::Lose);
        scene.start();
        if restart {
            scene.until(|it| it.cloud.count("buy") == 1).await;
            scene.stop();
            pass(1).await;
            scene.start();
        }
        scene
            .until(|it| ips(it) == json!(["10.0.1.1", "10.0.2.2"]))
            .await;
        pass(300).await;
        assert_eq!(scene.cloud.count("buy"), 2, "restart: {restart}");
        assert_eq!(scene.cloud.lock().addresses.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_at_the_same_time_is_not_lost() {
    let scene = shopping();
    let edit = |state: &mut floe_shell::mock::State| {
        let mut pool = state.list_of(POOLS).remove(0);
        pool["spec"]["ips"] = json!([A]);
        state.put(POOLS, pool);
    };
    // Somebody adds an address between the read and the write.
    let before = ServerFault::Before(Box::new(edit));
    scene
        .server
        .fault(Method::PATCH, "floatingippools/p", before);
    let id = super::super::Id {
        namespace: "ns".into(),
        name: "p".into(),
    };
    let uid = text(&scene.pool("p")["metadata"]["uid"]);
    let server = super::super::server::Server::new(scene.server.client());
    let bought = ["10.0.1.1", "10.0.2.2"].map(|it| it.parse().unwrap());
    let entered = server.enter(&id, &uid, &bought).await.unwrap();
    assert_eq!(entered.spec.ips, [A, "10.0.1.1", "10.0.2.2"]);
    assert_eq!(ips(&scene), json!([A, "10.0.1.1", "10.0.2.2"]));
    // Once more changes nothing, and a pool of another uid is another one.
    let writes = scene.server.count(&Method::PATCH, "");
    server.enter(&id, &uid, &bought).await.unwrap();
    assert_eq!(scene.server.count(&Method::PATCH, ""), writes);
    let other = server.enter(&id, "other", &bought).await;
    assert_eq!(other.unwrap_err().reason(), "PoolGone");
}

#[tokio::test(start_paused = true)]
async fn a_shop_that_is_empty_is_told() {
    let mut scene = shopping();
    scene.cloud.lock().shop.clear();
    scene.start();
    let told = "creating new ip with provider: no more";
    scene.until(|it| it.error("p") == told).await;
    scene
        .until(|it| it.condition(&it.status("p"), "Ready") == "False QuotaExceeded")
        .await;
    pass(50).await;
    assert_eq!(scene.cloud.count("buy"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_wrong_for_a_moment_waits_for_what_it_is_buying() {
    let mut scene = shopping();
    let late = std::time::Duration::from_secs(40);
    scene.cloud.fault("buy", Fault::Late(late));
    scene.start();
    scene.until(|it| it.cloud.count("buy") == 1).await;
    let right = scene.pool("p");
    let mut wrong = right.clone();
    wrong["spec"]["match"]["nodeLabel"] = json!("!!");
    scene.server.put(POOLS, wrong);
    scene
        .until(|it| it.error("p").starts_with("Error parsing"))
        .await;
    let mut mended = scene.pool("p");
    mended["spec"] = right["spec"].clone();
    scene.server.put(POOLS, mended);
    pass(120).await;
    assert_eq!(ips(&scene), json!(["10.0.1.1", "10.0.2.2"]));
    assert_eq!(scene.cloud.lock().addresses.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_bought_before_the_pool_is_held_that_will_give_it_back() {
    let mut scene = shopping();
    let mut pool = scene.pool("p");
    pool["spec"]["reclaimPolicy"] = json!("Delete");
    scene.server.put(POOLS, pool);
    // The first one is to hold it.
    let fault = ServerFault::Refuse(500);
    scene
        .server
        .fault(Method::PATCH, "floatingippools/p", fault);
    scene.start();
    scene.until(|it| it.cloud.count("buy") == 2).await;
    let state = scene.server.state();
    let writes = state.calls.iter();
    let writes = writes.filter(|it| it.starts_with("PATCH ") && it.contains("floatingippools/p"));
    let about_status: Vec<bool> = writes.map(|it| it.contains("/status")).collect();
    assert_eq!(about_status[..3], [false, false, true]);
}
