use super::*;

#[tokio::test(start_paused = true)]
async fn an_agent_that_stops_hands_over_and_ends() {
    let server = shared_by_two();
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    let stopped = Instant::now();
    scene.stopper.stop();
    server
        .until(|_| scene.status("web")["successor"]["pod"] == "b")
        .await;
    assert_eq!(scene.status("web")["successor"]["reason"], "AgentStopping");
    assert!(scene.serves("web"), "until the other one is prepared");
    scene.write("web", |status| {
        status["successor"]["ready"] = json!(true);
        status["successor"]["term"] = json!(5);
    });
    scene.task.await.unwrap();
    assert!(
        stopped.elapsed() < Duration::from_secs(2),
        "{:?}",
        stopped.elapsed()
    );
    let status = status(&server, "web");
    assert_eq!(status["holder"]["pod"], "b");
    assert_eq!(status["holder"]["term"], 5);
    assert!(status["successor"].is_null() && status["holder"]["ready"].is_null());
    assert_eq!(status["moves"], 1);
    assert_eq!(status["lastMove"]["from"], "a");
    let role = scene.kernel.role("web");
    assert_eq!(role, Some(Role::HandedTo("10.0.0.2".parse().unwrap())));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_stops_leaves_what_nobody_else_can_have() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_vip(&server, "web", &[candidate("a", "n1")], &Value::Null);
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    scene.stopper.stop();
    let Scene { kernel, task, .. } = scene;
    task.await.unwrap();
    assert!(matches!(kernel.role("web"), Some(Role::Holder(_))));
    assert_eq!(status(&server, "web")["holder"]["pod"], "a");
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_successors_never_are_prepared_ends_after_five_seconds() {
    let server = shared_by_two();
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    let stopped = Instant::now();
    scene.stopper.stop();
    let Scene { task, .. } = scene;
    task.await.unwrap();
    let took = stopped.elapsed();
    let expected = Duration::from_secs(5)..Duration::from_secs(6);
    assert!(expected.contains(&took), "{took:?}");
    assert_eq!(status(&server, "web")["holder"]["pod"], "a");
}

#[tokio::test(start_paused = true)]
async fn a_successor_prepares_says_so_and_serves_when_it_is_given_the_address() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_lease(&server, "n2", 4, "n1");
    let candidates = [candidate("a", "n1"), candidate("b", "n2")];
    put_vip(&server, "web", &candidates, &holding("b", "n2", 4));
    let scene = Scene::start(&server);
    let away = || matches!(scene.kernel.role("web"), Some(Role::Away(_)));
    server.until(|_| away()).await;
    let mut successor = holding("a", "n1", 0);
    successor["reason"] = json!("Requested");
    scene.write("web", |status| status["successor"] = successor);
    server
        .until(|_| scene.status("web")["successor"]["ready"] == true)
        .await;
    assert!(matches!(scene.kernel.role("web"), Some(Role::Prepared(_))));
    let term = scene.status("web")["successor"]["term"].clone();
    assert_eq!(term, 1);
    scene.write("web", |status| {
        status["holder"] = holding("a", "n1", 1);
        status["moves"] = json!(1);
        status["successor"] = Value::Null;
    });
    scene.until_it_serves("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_successor_that_cannot_serve_never_says_that_it_is_prepared() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_lease(&server, "n2", 4, "n1");
    let candidates = [candidate("a", "n1"), candidate("b", "n2")];
    put_vip(&server, "web", &candidates, &holding("b", "n2", 4));
    let scene = Scene::start(&server);
    scene.kernel.0.lock().unwrap().trouble = Some(Trouble::NoRoute);
    server.until(|_| scene.kernel.role("web").is_some()).await;
    scene.write("web", |status| status["successor"] = holding("a", "n1", 0));
    let is_prepared = || matches!(scene.kernel.role("web"), Some(Role::Prepared(_)));
    let was_prepared = || scene.kernel.0.lock().unwrap().was_prepared;
    server.until(|_| was_prepared() && !is_prepared()).await;
    assert!(scene.status("web")["successor"]["ready"].is_null());
}

#[tokio::test(start_paused = true)]
async fn the_addresses_of_a_silent_node_are_taken_but_not_too_early() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_lease(&server, "n2", 4, "n1");
    let candidates = [candidate("a", "n1"), candidate("b", "n2")];
    put_vip(&server, "web", &candidates, &holding("b", "n2", 4));
    let scene = Scene::start(&server);
    // This agent may have promised something before it was started.
    for second in 0..5 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        put_lease(&server, "n2", 4, "n1");
        assert_eq!(scene.status("web")["holder"]["node"], "n2", "{second}");
    }
    tokio::time::sleep(Duration::from_millis(3200)).await;
    assert_eq!(scene.status("web")["holder"]["node"], "n2");
    scene.until_it_serves("web").await;
    let status = scene.status("web");
    assert_eq!(status["lastMove"]["reason"], "NodeSilent");
    assert_eq!(status["moves"], 1);
    assert!(server.count(&Method::GET, "leases/floe-vip-n2") > 0);
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_that_does_not_ask_is_taken_from_only_if_somebody_vouches() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_lease(&server, "n2", 4, "");
    server.put(NODES, json!({ "metadata": { "name": "n2" }, "spec": {} }));
    let candidates = [candidate("a", "n1"), candidate("b", "n2")];
    put_vip(&server, "web", &candidates, &holding("b", "n2", 4));
    let scene = Scene::start(&server);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(scene.status("web")["holder"]["node"], "n2");
    let taint = json!({ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" });
    server.put(
        NODES,
        json!({ "metadata": { "name": "n2" }, "spec": { "taints": [taint] } }),
    );
    scene.until_it_serves("web").await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_node_change_in_one_write() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_pod(&server, "b", true);
    put_vip(
        &server,
        "web",
        &[candidate("a", "n1"), candidate("b", "n1")],
        &Value::Null,
    );
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    assert_eq!(scene.status("web")["holder"]["pod"], "a");
    tokio::time::sleep(Duration::from_secs(4)).await;
    server.state().calls.clear();
    put_pod(&server, "a", false);
    server
        .until(|_| scene.status("web")["holder"]["pod"] == "b")
        .await;
    assert_eq!(server.count(&Method::PATCH, REGISTER), 1);
    assert_eq!(scene.status("web")["lastMove"]["reason"], "PodNotReady");
    let is_b = |role| matches!(role, Some(Role::Holder(pod)) if pod.pod == "b");
    server.until(|_| is_b(scene.kernel.role("web"))).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_doubt_everything_is_listed_anew_and_what_is_served_goes_on() {
    let server = Server::default();
    put_pod(&server, "a", true);
    for vip in ["web", "old"] {
        put_vip(&server, vip, &[candidate("a", "n1")], &Value::Null);
    }
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    scene.until_it_serves("old").await;
    // The watch hears nothing of it.
    server.compact();
    server.delete(VIPS, "old");
    scene.doubts.send_modify(|count| *count += 1);
    server.until(|_| scene.kernel.role("old").is_none()).await;
    assert!(scene.serves("web"));
    let listed = |call: &&String| call.starts_with("GET") && !call.contains("watch=true");
    let calls = server.state().calls.clone();
    let lists = calls
        .iter()
        .filter(listed)
        .filter(|it| it.contains("/virtualips?"));
    assert_eq!(lists.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_late_watch_does_not_undo_what_was_written() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_vip(&server, "web", &[candidate("a", "n1")], &Value::Null);
    // The answer to the first write is lost, though it was done.
    server.fault(Method::PATCH, REGISTER, Fault::Lose);
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    assert_eq!(scene.status("web")["moves"], 0);
}

#[tokio::test(start_paused = true)]
async fn when_the_lease_can_be_written_again_everything_is_listed_anew() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_vip(&server, "web", &[candidate("a", "n1")], &Value::Null);
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    let lists = || {
        let calls = server.state().calls.clone();
        let listed = calls.iter().filter(|call| call.starts_with("GET"));
        let listed = listed.filter(|call| !call.contains("watch=true"));
        listed.filter(|call| call.contains("/virtualips?")).count()
    };
    assert_eq!(lists(), 1);
    // A watch that was cut off meanwhile would not notice.
    server.fault(Method::PUT, "leases/floe-vip-n1", Fault::Break);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(lists(), 2);
    assert!(scene.serves("web"));
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_is_dropped_is_told() {
    let server = shared_by_two();
    let mut scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    // No candidate any more.
    let mut successor = holding("gone", "n2", 0);
    successor["reason"] = json!("Requested");
    scene.write("web", |status| status["successor"] = successor);
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(
        scene.status("web")["successor"]["pod"],
        "gone",
        "it may come"
    );
    server
        .until(|_| scene.status("web")["successor"].is_null())
        .await;
    let told = || scene.inbox.so_far();
    let news = settled(told).await;
    let [news] = &news[..] else {
        panic!("{news:?}")
    };
    assert_eq!((news.reason, news.warning), ("MoveNotPrepared", true));
    assert_eq!(news.about.name.as_deref(), Some("web"));
    assert!(news.note.contains("pod gone"), "{}", news.note);
    assert_eq!(scene.status("web")["holder"]["pod"], "a");
}

/// The first news that come.
async fn settled(mut told: impl FnMut() -> Vec<events::News>) -> Vec<events::News> {
    loop {
        let news = told();
        if !news.is_empty() {
            return news;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
