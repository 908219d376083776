use super::*;

fn says(scene: &Scene) -> Vec<String> {
    scene.dns.says("example.com", "nodes")
}

#[tokio::test(start_paused = true)]
async fn a_name_says_the_addresses_of_nodes_that_fit_and_follows() {
    let mut scene = two_nodes();
    scene.server.put(NODES, node("n3", "False"));
    scene.server.put(SETS, record_set("s", json!({})));
    scene.start();
    scene
        .until(|it| says(it) == ["203.0.113.1", "203.0.113.2"])
        .await;
    scene
        .until(|it| it.set_status("s")["state"] == "active")
        .await;
    let status = scene.set_status("s");
    assert_eq!(status["addresses"], json!(["203.0.113.1", "203.0.113.2"]));
    assert_eq!(status["records"], 2);
    assert_eq!(scene.dns.lock().writes.len(), 1);
    scene.server.put(NODES, node("n3", "True"));
    scene.until(|it| says(it).len() == 3).await;
    scene.server.delete(NODES, "n1");
    scene
        .until(|it| says(it) == ["203.0.113.2", "203.0.113.3"])
        .await;
    // An address that changes is noticed, which FLIPOP does not do.
    let mut other = node("n2", "True");
    other["status"]["addresses"][0]["address"] = json!("198.51.100.2");
    scene.server.put(NODES, other);
    scene
        .until(|it| says(it) == ["198.51.100.2", "203.0.113.3"])
        .await;
    // So is another kind of address, without any other event.
    let mut set = scene.server.object(SETS, "s").unwrap();
    set["spec"]["addressType"] = json!("InternalIP");
    scene.server.put(SETS, set);
    scene.until(|it| says(it) == ["10.0.0.2", "10.0.0.3"]).await;
}

#[tokio::test(start_paused = true)]
async fn events_that_come_together_are_one_write() {
    let mut scene = two_nodes();
    scene.server.put(SETS, record_set("s", json!({})));
    scene.start();
    scene.until(|it| says(it).len() == 2).await;
    for number in 3..=9 {
        scene.server.put(NODES, node(&format!("n{number}"), "True"));
    }
    scene.until(|it| says(it).len() == 9).await;
    assert_eq!(scene.dns.lock().writes.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_emptied_only_if_somebody_asks_for_it() {
    for allow in [false, true] {
        let mut scene = two_nodes();
        let mut set = record_set("s", json!({}));
        set["spec"]["dnsRecordSet"]["allowEmpty"] = json!(allow);
        scene.server.put(SETS, set);
        scene.start();
        scene.until(|it| says(it).len() == 2).await;
        for name in ["n1", "n2"] {
            scene.server.put(NODES, node(name, "False"));
        }
        pass(60).await;
        let expected: &[&str] = if allow {
            &[]
        } else {
            &["203.0.113.1", "203.0.113.2"]
        };
        assert_eq!(says(&scene), expected);
        let published = if allow {
            "True Published"
        } else {
            "False NameKept"
        };
        let condition = |it: &Scene| it.condition(&it.set_status("s"), "Published");
        assert_eq!(condition(&scene), published);
        // A restart does not change that.
        scene.stop();
        pass(1).await;
        scene.start();
        pass(60).await;
        assert_eq!(says(&scene), expected);
        assert_eq!(condition(&scene), published);
        let never_empty = scene.dns.lock().writes.iter().all(|it| !it.is_empty());
        assert_eq!(never_empty, !allow);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_and_tried_again_with_growing_pauses() {
    let mut scene = two_nodes();
    for _ in 0..4 {
        scene.dns.lock().faults.push_back(unavailable());
    }
    scene.server.put(SETS, record_set("s", json!({})));
    scene.start();
    let error = "Failed to update DNS: out of order";
    scene.until(|it| it.set_status("s")["error"] == error).await;
    assert_eq!(scene.set_status("s")["state"], "in-progress");
    let start = tokio::time::Instant::now();
    scene
        .until(|it| it.set_status("s")["state"] == "active")
        .await;
    // 1, 1, 5 and 5 seconds.
    assert_eq!(start.elapsed().as_secs(), 12);
    assert_eq!(scene.set_status("s")["error"], json!(null));
    let told = "NodeDNSRecordSet s ProviderUnavailable".to_owned();
    assert!(scene.events().contains(&told));
}

#[tokio::test(start_paused = true)]
async fn addresses_that_pools_have_given_can_be_named() {
    let mut scene = two_nodes();
    scene.server.put(POOLS, pool("p"));
    let given = json!({ "addressType": "flipop.digitalocean.com/ipv4-reserved-ip" });
    scene.server.put(SETS, record_set("s", given));
    scene.start();
    scene.until(|it| says(it) == [B, A]).await;
}

#[tokio::test(start_paused = true)]
async fn a_record_set_that_changes_its_name_leaves_the_old_one() {
    let mut scene = two_nodes();
    scene.server.put(SETS, record_set("s", json!({})));
    scene.start();
    scene.until(|it| says(it).len() == 2).await;
    let mut set = scene.server.object(SETS, "s").unwrap();
    set["spec"]["dnsRecordSet"]["recordName"] = json!("others");
    scene.server.put(SETS, set);
    scene
        .until(|it| it.dns.says("example.com", "others").len() == 2)
        .await;
    assert_eq!(says(&scene).len(), 2);
    scene.server.delete(SETS, "s");
    pass(60).await;
    assert_eq!(scene.dns.says("example.com", "others").len(), 2);
    assert!(!scene.figures().contains("flipop_nodednsrecordset_records{"));
}

#[tokio::test(start_paused = true)]
async fn a_name_at_another_provider_is_written_there_whatever_the_first_one_answers_late() {
    let mut scene = two_nodes();
    scene.dns.lock().pause = std::time::Duration::from_secs(5);
    scene.server.put(SETS, record_set("s", json!({})));
    let set = json!({ "zone": "example.com", "recordName": "pool", "ttl": 30 });
    scene
        .server
        .put(POOLS, pool_with("p", json!({ "dnsRecordSet": set })));
    scene.start();
    scene.until(|it| it.dns.lock().writes.len() == 2).await;
    for (path, name) in [(SETS, "s"), (POOLS, "p")] {
        let mut object = scene.server.object(path, name).unwrap();
        object["spec"]["dnsRecordSet"]["provider"] = json!("only-dns");
        scene.server.put(path, object);
    }
    pass(60).await;
    assert_eq!(scene.dns.lock().writes.len(), 4);
}
