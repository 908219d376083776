use super::*;

#[tokio::test(start_paused = true)]
async fn one_address_that_fails_stops_no_other_and_is_tried_again() {
    let mut scene = two_nodes();
    let refusal = Refusal::new(Class::Unavailable, "out of order");
    scene
        .cloud
        .fault(&format!("assign {B}"), Fault::Refuse(refusal));
    scene.server.put(POOLS, pool("p"));
    scene.start();
    let told = "FloatingIPPool p ProviderUnavailable".to_owned();
    scene.until(|it| it.events().contains(&told)).await;
    scene.until(|it| it.ip("p", A).starts_with("active")).await;
    scene.until(|it| it.ip("p", B).starts_with("active")).await;
    assert_eq!(scene.status("p")["ips"][B]["error"], json!(null));
    scene
        .until(|it| it.condition(&it.status("p"), "Ready") == "True Served")
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_order_without_an_answer_is_looked_up_and_not_given_twice() {
    for done in [true, false] {
        let mut scene = two_nodes();
        scene.server.delete(NODES, "n2");
        let fault = if done {
            Fault::Lose
        } else {
            Fault::Refuse(Refusal::new(Class::Unclear, "no answer"))
        };
        scene.cloud.fault("assign", fault);
        scene
            .server
            .put(POOLS, pool_with("p", json!({ "ips": [A] })));
        scene.start();
        scene.until(|it| it.ip("p", A) == "active n1").await;
        let orders = if done { 1 } else { 2 };
        assert_eq!(scene.cloud.count("assign"), orders);
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_that_takes_long_is_followed_also_by_the_next_process() {
    let mut scene = two_nodes();
    scene.cloud.lock().slow = true;
    scene.server.delete(NODES, "n2");
    scene
        .server
        .put(POOLS, pool_with("p", json!({ "ips": [A] })));
    scene.start();
    scene
        .until(|it| it.ip("p", A).starts_with("in-progress"))
        .await;
    scene
        .until(|it| it.status("p")["pending"][A]["handle"].is_string())
        .await;
    assert_eq!(scene.status("p")["pending"][A]["providerID"], "fake://n1");
    scene.stop();
    pass(1).await;
    scene.start();
    pass(5).await;
    assert_eq!(scene.cloud.count("assign"), 1, "it is not ordered again");
    scene.cloud.finish();
    scene.until(|it| it.ip("p", A) == "active n1").await;
    assert_eq!(scene.status("p")["pending"], json!(null));
    assert_eq!(scene.cloud.count("assign"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_asks_to_wait_is_left_alone_by_all_pools() {
    let mut scene = two_nodes();
    scene
        .server
        .put(POOLS, pool_with("p", json!({ "ips": [A] })));
    scene.server.put(
        POOLS,
        pool_with(
            "q",
            json!({ "ips": [B], "match": { "nodeLabel": "!none" } }),
        ),
    );
    scene.cloud.fault("assign", Fault::Refuse(too_many(30)));
    scene.start();
    scene.until(|it| it.cloud.count("assign") == 1).await;
    let calls = scene.cloud.lock().calls.len();
    pass(28).await;
    // A call that had begun before may end.
    assert!(scene.cloud.lock().calls.len() <= calls + 1);
    scene.until(|it| it.ip("p", A).starts_with("active")).await;
    scene.until(|it| it.ip("q", B).starts_with("active")).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_changes_nothing_in_dns() {
    let mut scene = two_nodes();
    scene.server.put(
        POOLS,
        pool_with(
            "p",
            json!({ "dnsRecordSet": { "zone": "example.com", "recordName": "ds9" } }),
        ),
    );
    scene.start();
    scene
        .until(|it| it.dns.says("example.com", "ds9") == [B, A])
        .await;
    let before = scene.dns.lock().writes.len();
    for _ in 0..3 {
        scene.cloud.fault("list", Fault::Refuse(unavailable()));
    }
    pass(200).await;
    assert_eq!(scene.dns.lock().writes.len(), before);
    assert_eq!(scene.dns.says("example.com", "ds9"), [B, A]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_of_one_pool_delays_no_other() {
    let mut scene = two_nodes();
    scene.cloud.fault(&format!("assign {A}"), Fault::Hang);
    scene
        .server
        .put(POOLS, pool_with("p", json!({ "ips": [A] })));
    scene.server.put(
        POOLS,
        pool_with(
            "q",
            json!({ "ips": [B], "match": { "nodeLabel": "extra" } }),
        ),
    );
    let mut extra = node("n3", "True");
    extra["metadata"]["labels"] = json!({ "extra": "" });
    scene.server.put(NODES, extra);
    scene.start();
    scene
        .until(|it| it.cloud.count(&format!("assign {A}")) == 1)
        .await;
    let start = tokio::time::Instant::now();
    scene.until(|it| it.ip("q", B) == "active n3").await;
    assert!(start.elapsed().as_secs() < 10);
    assert_eq!(scene.cloud.server_of(A), None);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_breaks_costs_only_its_own_pool_and_that_begins_anew() {
    let mut scene = two_nodes();
    scene.cloud.fault(&format!("assign {A}"), Fault::Panic);
    scene
        .server
        .put(POOLS, pool_with("p", json!({ "ips": [A] })));
    let extra = json!({ "ips": [B], "match": { "nodeLabel": "extra" } });
    scene.server.put(POOLS, pool_with("q", extra));
    let mut node = node("n3", "True");
    node["metadata"]["labels"] = json!({ "extra": "" });
    scene.server.put(NODES, node);
    scene.start();
    scene.until(|it| it.ip("q", B) == "active n3").await;
    pass(40).await;
    scene.until(|it| it.ip("p", A).starts_with("active")).await;
}

#[tokio::test(start_paused = true)]
async fn failed_and_lost_writes_of_the_status_are_made_good() {
    let mut scene = two_nodes();
    let path = "floatingippools/p/status";
    for fault in [
        ServerFault::Refuse(500),
        ServerFault::Refuse(409),
        ServerFault::Lose,
    ] {
        scene.server.fault(Method::PATCH, path, fault);
    }
    scene.server.put(POOLS, pool("p"));
    scene.start();
    scene
        .until(|it| it.ip("p", A) == "active n2" && it.ip("p", B) == "active n1")
        .await;
    scene
        .until(|it| it.condition(&it.status("p"), "Ready") == "True Served")
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_annotation_is_tried_again() {
    let mut scene = two_nodes();
    scene
        .server
        .fault(Method::PATCH, "nodes/n1", ServerFault::Refuse(403));
    scene
        .server
        .put(POOLS, pool_with("p", json!({ "ips": [A] })));
    scene.start();
    scene.until(|it| it.ip("p", A) == "active n1").await;
    scene
        .until(|it| it.annotation("n1").as_deref() == Some(A))
        .await;
}

#[tokio::test(start_paused = true)]
async fn where_addresses_push_each_other_off_pools_take_turns_at_a_server() {
    let mut scene = two_nodes();
    scene.server.delete(NODES, "n2");
    scene.cloud.lock().capabilities.displaces = true;
    scene.cloud.lock().capabilities.per_server = None;
    for (name, ip) in [("one", A), ("two", B)] {
        scene
            .server
            .put(POOLS, pool_with(name, json!({ "ips": [ip] })));
    }
    scene.start();
    let has_one = |it: &Scene| [("one", A), ("two", B)].map(|(pool, ip)| it.ip(pool, ip));
    let is_served = |it: &Scene| has_one(it).contains(&"active n1".to_owned());
    scene.until(is_served).await;
    pass(120).await;
    let calls = scene.cloud.lock().calls.clone();
    let orders: Vec<_> = calls.iter().filter(|it| it.starts_with("assign")).collect();
    assert_eq!(orders.len(), 1, "{orders:?}");
    assert!(is_served(&scene), "{:?}", has_one(&scene));
}
