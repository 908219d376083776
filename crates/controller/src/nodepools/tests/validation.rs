use super::*;

#[tokio::test(start_paused = true)]
async fn what_cannot_be_followed_is_told_in_the_words_of_flipop() {
    let cases = [
        (
            "unknown",
            json!({ "provider": "mars" }),
            r#"unknown provider "mars""#,
        ),
        (
            "no-ips",
            json!({ "provider": "only-dns" }),
            r#"provider "only-dns" does not provide floating IPs"#,
        ),
        (
            "nothing",
            json!({ "ips": [] }),
            "ips or desiredIPs must be provided",
        ),
        (
            "no-dns",
            json!({ "provider": "only-ips", "dnsRecordSet": { "zone": "z", "recordName": "n" } }),
            "FloatingIPPool dns referenced provider without dns capability",
        ),
        (
            "unknown-dns",
            json!({ "dnsRecordSet": { "provider": "mars", "zone": "z", "recordName": "n" } }),
            "FloatingIPPool dns referenced provider without dns capability",
        ),
        // Of several faults the first one is told.
        (
            "order",
            json!({ "provider": "mars", "ips": [], "match": { "nodeLabel": "!" } }),
            r#"unknown provider "mars""#,
        ),
        (
            "order-2",
            json!({ "ips": [], "match": { "nodeLabel": "!" } }),
            "ips or desiredIPs must be provided",
        ),
    ];
    let mut scene = two_nodes();
    for (name, spec, _) in &cases {
        scene.server.put(POOLS, pool_with(name, spec.clone()));
    }
    let selectors = [
        (
            "bad-node",
            json!({ "nodeLabel": "a in", "podLabel": "b in" }),
            "node",
        ),
        ("bad-pod", json!({ "podLabel": "b in" }), "pod"),
    ];
    for (name, rule, _) in &selectors {
        scene
            .server
            .put(POOLS, pool_with(name, json!({ "match": rule })));
    }
    scene.server.put(POOLS, pool("good"));
    scene.start();
    for (name, _, message) in cases {
        scene.until(|it| it.error(name) == message).await;
        let status = scene.status(name);
        assert!(scene.condition(&status, "Accepted").starts_with("False "));
        assert_eq!(status["ips"], json!(null), "nothing else is shown");
    }
    for (name, _, which) in selectors {
        let start = format!("Error parsing {which} selector: ");
        scene.until(|it| it.error(name).starts_with(&start)).await;
    }
    // None of them stands in the way of another.
    scene.until(|it| it.ip("good", B) == "active n1").await;
    let told = "FloatingIPPool unknown UnknownProvider".to_owned();
    scene.until(|it| it.events().contains(&told)).await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_change_stops_a_pool_and_undoes_nothing_and_a_good_one_begins_again() {
    let mut scene = two_nodes();
    scene.server.put(POOLS, pool("p"));
    scene.start();
    scene.until(|it| it.ip("p", A) == "active n2").await;
    let mut broken = scene.pool("p");
    broken["spec"]["provider"] = json!("mars");
    scene.server.put(POOLS, broken);
    scene
        .until(|it| it.error("p") == r#"unknown provider "mars""#)
        .await;
    assert_eq!(scene.status("p")["ips"], json!(null));
    assert!(
        scene.status("p")["moves"][A].is_object(),
        "its memory stays"
    );
    assert_eq!(scene.cloud.server_of(A).as_deref(), Some("fake://n2"));
    let before = scene.cloud.count("assign");
    let mut mended = scene.pool("p");
    mended["spec"]["provider"] = json!("fake");
    scene.server.put(POOLS, mended);
    scene.until(|it| it.ip("p", A) == "active n2").await;
    assert_eq!(scene.error("p"), "");
    assert_eq!(scene.cloud.count("assign"), before);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_an_order_from_before_an_invalid_change_is_not_heard() {
    let mut scene = two_nodes();
    scene.cloud.fault("assign", Fault::Hang);
    scene.server.put(POOLS, pool("p"));
    scene.start();
    scene.until(|it| it.cloud.count("assign") > 0).await;
    for provider in ["mars", "fake"] {
        let mut changed = scene.pool("p");
        changed["spec"]["provider"] = json!(provider);
        scene.server.put(POOLS, changed);
        scene
            .until(|it| it.error("p").is_empty() == (provider == "fake"))
            .await;
    }
    // By then nobody waits for the first answer any more.
    pass(180).await;
    scene.until(|it| it.ip("p", A) == "active n2").await;
    let events = scene.events();
    assert!(
        !events.iter().any(|it| it.contains("PoolTaskBroken")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn record_sets_are_refused_in_the_words_of_flipop() {
    let mut scene = two_nodes();
    let with = |members: Value| {
        let mut dns = json!({ "provider": "fake", "zone": "z", "recordName": "n" });
        for (name, value) in members.as_object().unwrap() {
            dns[name] = value.clone();
        }
        json!({ "dnsRecordSet": dns })
    };
    let cases = [
        (
            "unknown",
            with(json!({ "provider": "mars" })),
            r#"unknown provider "mars""#,
        ),
        (
            "no-dns",
            with(json!({ "provider": "only-ips" })),
            r#"provider "only-ips" does not provide DNS"#,
        ),
        (
            "no-zone",
            with(json!({ "zone": "" })),
            "invalid dnsRecordSet specification",
        ),
        (
            "no-name",
            with(json!({ "recordName": "" })),
            "invalid dnsRecordSet specification",
        ),
    ];
    for (name, members, _) in &cases {
        scene.server.put(SETS, record_set(name, members.clone()));
    }
    scene.server.put(
        SETS,
        record_set("bad", json!({ "match": { "nodeLabel": "a in" } })),
    );
    scene.start();
    for (name, _, message) in cases {
        scene
            .until(|it| text(&it.set_status(name)["error"]) == message)
            .await;
        assert_eq!(scene.set_status(name)["state"], "error");
    }
    let start = "Error parsing node selector: ";
    scene
        .until(|it| text(&it.set_status("bad")["error"]).starts_with(start))
        .await;
    assert!(scene.dns.lock().writes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_two_pools_with_one_address_the_later_one_is_not_followed() {
    let mut scene = two_nodes();
    let created = |pool: Value, at: &str| {
        let mut pool = pool;
        pool["metadata"]["creationTimestamp"] = json!(at);
        pool
    };
    let first = pool_with("zz-first", json!({ "ips": [A] }));
    let first = created(first, "2026-01-01T00:00:00Z");
    // The same address in other words.
    let later = pool_with("later", json!({ "ips": [B, "192.168.1.001"] }));
    let later = created(later, "2026-01-02T00:00:00Z");
    scene.server.put(POOLS, first.clone());
    scene.server.put(POOLS, later.clone());
    scene.start();
    scene.until(|it| it.ip("zz-first", A) == "active n1").await;
    let words = format!("ips: {A} belongs to FloatingIPPool ns/zz-first");
    scene.until(|it| it.error("later") == words).await;
    let accepted = scene.condition(&scene.status("later"), "Accepted");
    assert_eq!(accepted, "False AddressInOtherPool");
    let told = "FloatingIPPool later AddressInOtherPool".to_owned();
    scene.until(|it| it.events().contains(&told)).await;
    let calls = |scene: &Scene| scene.cloud.lock().calls.clone();
    let other = format!("assign {B}");
    assert!(!calls(&scene).iter().any(|it| it.starts_with(&other)));

    // An older pool that writes down what another one has does not get it either.
    scene.server.delete(POOLS, "zz-first");
    scene
        .until(|it| it.ip("later", B).starts_with("active"))
        .await;
    scene
        .until(|it| it.ip("later", A).starts_with("active"))
        .await;
    scene.server.put(POOLS, first);
    let words = format!("ips: {A} belongs to FloatingIPPool ns/later");
    scene.until(|it| it.error("zz-first") == words).await;
    assert_eq!(scene.error("later"), "");
}
