use super::*;

#[tokio::test(start_paused = true)]
async fn the_last_free_address_goes_to_the_first_node_by_name() {
    let mut scene = two_nodes();
    scene.server.put(
        POOLS,
        pool_with(
            "p",
            json!({ "dnsRecordSet": { "zone": "example.com", "recordName": "ds9", "ttl": 120 } }),
        ),
    );
    scene.start();
    scene.until(|it| it.ip("p", A) == "active n2").await;
    scene.until(|it| it.ip("p", B) == "active n1").await;
    assert_eq!(scene.cloud.count("assign"), 2);
    assert_eq!(scene.status("p")["ips"][B]["providerID"], "fake://n1");
    scene
        .until(|it| it.dns.says("example.com", "ds9") == [B, A])
        .await;
    let key = ("example.com".to_owned(), "ds9".to_owned());
    let set = scene.dns.lock().names[&key].clone();
    assert_eq!((set.ttl, set.owner.as_str()), (120, "floe/c-1/pool/ns/p"));
    scene
        .until(|it| it.annotation("n1").as_deref() == Some(B))
        .await;
    scene
        .until(|it| it.annotation("n2").as_deref() == Some(A))
        .await;
    scene
        .until(|it| it.condition(&it.status("p"), "Ready") == "True Served")
        .await;
    scene
        .until(|it| it.condition(&it.status("p"), "Published") == "True Published")
        .await;
    let summary = json!({ "addresses": 2, "active": 2, "waiting": 0 });
    assert_eq!(scene.status("p")["summary"], summary);
    let told = "FloatingIPPool p Moved".to_owned();
    scene
        .until(|it| it.events().iter().filter(|it| **it == told).count() == 2)
        .await;
}

#[tokio::test(start_paused = true)]
async fn figures_have_the_names_and_labels_of_flipop() {
    let mut scene = two_nodes();
    scene.server.delete(NODES, "n2");
    scene.server.put(
        POOLS,
        pool_with(
            "p",
            json!({ "dnsRecordSet": { "zone": "example.com", "recordName": "ds9" } }),
        ),
    );
    scene.server.put(SETS, record_set("s", json!({})));
    scene.start();
    scene.until(|it| it.ip("p", B) == "active n1").await;
    scene
        .until(|it| it.set_status("s")["state"] == "active")
        .await;
    let pool = r#"namespace="ns",name="p","#;
    let of = r#"provider="fake",dns="ds9.example.com""#;
    let prefix = "flipop_floatingippoolcontroller";
    let wanted = [
        // OpenMetrics has no counter of this name; FLIPOP's dashboards have no other.
        format!("# TYPE {prefix}_ip_assignments unknown"),
        format!("# TYPE {prefix}_ip_assignment_errors unknown"),
        format!("# TYPE {prefix}_ip_state gauge"),
        format!(r#"{prefix}_node_status{{{pool}{of},status="available"}} 0.0"#),
        format!(r#"{prefix}_node_status{{{pool}{of},status="assigned"}} 1.0"#),
        format!(r#"{prefix}_ip_assignments{{{pool}ip="{B}",{of}}} 1.0"#),
        format!(r#"{prefix}_ip_assignments{{{pool}ip="{A}",{of}}} 0.0"#),
        format!(r#"{prefix}_ip_assignment_errors{{{pool}ip="{B}",{of}}} 0.0"#),
        format!(r#"{prefix}_ip_node{{{pool}ip="{B}",{of},provider_id="fake://n1",node="n1"}} 1.0"#),
        format!(r#"{prefix}_ip_state{{{pool}ip="{B}",{of},state="active"}} 1.0"#),
        format!(r#"{prefix}_ip_state{{{pool}ip="{A}",{of},state="unassigned"}} 1.0"#),
        format!("{prefix}_unfulfilled_ips{{{pool}{of}}} 0.0"),
        concat!(
            "flipop_nodednsrecordset_records{",
            r#"namespace="ns",name="s",provider="fake",dns="nodes.example.com"} 1.0"#
        )
        .to_owned(),
        concat!(
            r#"flipop_providers_calls_total{provider="fake",call="AssignIP",outcome="success","#,
            r#"kind="FloatingIPPool",namespace="ns",name="p"} 1"#
        )
        .to_owned(),
        concat!(
            r#"flipop_providers_call_duration_seconds_count{provider="fake","#,
            r#"call="EnsureDNSARecordSet",kind="NodeDNSRecordSet",namespace="ns",name="s"} 1"#
        )
        .to_owned(),
    ];
    for line in wanted {
        scene
            .until(|it| it.figures().lines().any(|it| it == line))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_pools_select_is_watched_and_a_watch_is_shared() {
    let mut scene = two_nodes();
    let rule =
        json!({ "nodeLabel": "system=bajor", "podLabel": "app=nginx", "podNamespace": "ingress" });
    for name in ["p", "q"] {
        scene
            .server
            .put(POOLS, pool_with(name, json!({ "match": rule })));
    }
    scene.server.put(PODS, pod("nginx", "n1", "True"));
    scene.start();
    scene
        .until(|it| it.ip("p", B).starts_with("active") || it.ip("q", B).starts_with("active"))
        .await;
    let watches = |path: &str| {
        let calls = scene.server.state().calls.clone();
        let calls = calls.into_iter();
        calls
            .filter(|it| it.starts_with(&format!("GET {path}?")) && it.contains("watch=true"))
            .collect::<Vec<_>>()
    };
    let nodes = watches("/api/v1/nodes");
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    assert!(
        nodes[0].contains("labelSelector=system%3Dbajor"),
        "{nodes:?}"
    );
    let pods = watches("/api/v1/namespaces/ingress/pods");
    assert_eq!(pods.len(), 1, "{pods:?}");
    assert!(pods[0].contains("labelSelector=app%3Dnginx"), "{pods:?}");
    assert!(watches("/api/v1/pods").is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_watched_without_pools() {
    let mut scene = two_nodes();
    scene.start();
    pass(60).await;
    let calls = scene.server.state().calls.clone();
    let calls = calls.iter();
    let calls: Vec<_> = calls
        .filter(|it| it.contains("/nodes") || it.contains("/pods"))
        .collect();
    // Once, for what pools have left that are gone.
    assert_eq!(calls, ["GET /api/v1/nodes?&limit=500"]);
    assert_eq!(scene.cloud.count("list"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_address_follows_pods_and_nodes_and_the_provider_shows_it() {
    let mut scene = two_nodes();
    let rule =
        json!({ "nodeLabel": "system=bajor", "podLabel": "app=nginx", "podNamespace": "ingress" });
    scene
        .server
        .put(POOLS, pool_with("p", json!({ "ips": [A], "match": rule })));
    scene.server.put(PODS, pod("a", "n1", "True"));
    scene.start();
    scene.until(|it| it.ip("p", A) == "active n1").await;
    // The pod of n1 is not ready, and nobody else is.
    scene.server.put(PODS, pod("a", "n1", "False"));
    scene.until(|it| it.ip("p", A) == "no-match").await;
    assert_eq!(scene.cloud.server_of(A).as_deref(), Some("fake://n1"));
    scene.until(|it| it.annotation("n1").is_none()).await;
    // It recovers.
    scene.server.put(PODS, pod("a", "n1", "True"));
    scene.until(|it| it.ip("p", A) == "active n1").await;
    assert_eq!(scene.cloud.count("assign"), 1);
    scene
        .until(|it| it.annotation("n1").as_deref() == Some(A))
        .await;
    // Another pod is there, and the node is drained.
    scene.server.put(PODS, pod("b", "n2", "True"));
    scene.server.put(NODES, cordoned("n1"));
    scene.until(|it| it.ip("p", A) == "active n2").await;
    assert_eq!(scene.cloud.server_of(A).as_deref(), Some("fake://n2"));
    scene
        .until(|it| it.annotation("n2").as_deref() == Some(A))
        .await;
    let moved = &scene.status("p")["moves"][A];
    assert_eq!(moved["to"], "n2");
    // n2 is removed, and n1 is back.
    scene.server.put(NODES, node("n1", "True"));
    scene.server.delete(NODES, "n2");
    scene.until(|it| it.ip("p", A) == "active n1").await;
    assert_eq!(scene.cloud.server_of(A).as_deref(), Some("fake://n1"));
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_what_is_in_place_and_asks_for_nothing() {
    let mut scene = two_nodes();
    scene.server.put(POOLS, pool("p"));
    scene.start();
    scene
        .until(|it| it.ip("p", A) == "active n2" && it.ip("p", B) == "active n1")
        .await;
    scene
        .until(|it| it.condition(&it.status("p"), "Ready") == "True Served")
        .await;
    pass(5).await;
    scene.stop();
    pass(5).await;
    let before = writes(&scene);
    scene.start();
    pass(30).await;
    assert_eq!(scene.cloud.count("assign"), 2);
    assert_eq!(writes(&scene), before, "nothing is new");
}

#[tokio::test(start_paused = true)]
async fn an_idle_cloud_is_asked_once_a_minute_for_all_pools_together() {
    let mut scene = two_nodes();
    for number in 1..=5 {
        let ip = format!("10.1.0.{number}");
        scene.cloud.has(&ip, None);
        let name = format!("p{number}");
        scene.server.put(
            POOLS,
            pool_with(
                &name,
                json!({ "ips": [ip], "match": {
            "nodeLabel": format!("pool={number}"),
        } }),
            ),
        );
        let mut own = node(&format!("m{number}"), "True");
        own["metadata"]["labels"] = json!({ "pool": number.to_string() });
        scene.server.put(NODES, own);
    }
    scene.start();
    for number in 1..=5 {
        let (name, ip) = (format!("p{number}"), format!("10.1.0.{number}"));
        scene
            .until(|it| it.ip(&name, &ip) == format!("active m{number}"))
            .await;
    }
    pass(60).await;
    let (lists, written) = (scene.cloud.count("list"), writes(&scene));
    let calls = scene.cloud.lock().calls.len();
    pass(600).await;
    let lists = scene.cloud.count("list") - lists;
    assert!((1..=10).contains(&lists), "{lists}");
    assert_eq!(
        scene.cloud.lock().calls.len() - calls,
        lists,
        "nothing else is asked"
    );
    assert_eq!(writes(&scene), written, "and nothing is written");
}

#[tokio::test(start_paused = true)]
async fn the_grace_of_a_pod_is_waited_for_and_survives_a_restart() {
    let mut scene = two_nodes();
    let rule = json!({ "nodeLabel": "system=bajor", "podNamespace": "ingress" });
    scene.server.put(PODS, pod("a", "n1", "True"));
    let spec = json!({ "ips": [A], "match": rule, "gracePeriods": { "podNotReadySeconds": 30 } });
    scene.server.put(POOLS, pool_with("p", spec));
    scene.start();
    scene.until(|it| it.ip("p", A) == "active n1").await;
    scene.server.put(PODS, pod("b", "n2", "True"));
    scene.server.put(PODS, pod("a", "n1", "False"));
    pass(10).await;
    assert_eq!(scene.cloud.server_of(A).as_deref(), Some("fake://n1"));
    assert!(scene.status("p")["unfitSince"]["fake://n1"].is_string());
    scene.stop();
    scene.start();
    pass(15).await;
    assert_eq!(scene.cloud.server_of(A).as_deref(), Some("fake://n1"));
    scene
        .until(|it| it.cloud.server_of(A).as_deref() == Some("fake://n2"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_labels_moves_at_once_and_a_node_that_is_gone_has_a_grace() {
    let mut scene = two_nodes();
    scene
        .cloud
        .lock()
        .addresses
        .remove(&B.parse::<std::net::IpAddr>().unwrap());
    let spec = json!({ "ips": [A], "gracePeriods": { "nodeGoneSeconds": 20 } });
    scene.server.put(POOLS, pool_with("p", spec));
    scene.start();
    scene.until(|it| it.ip("p", A) == "active n1").await;
    let mut other = node("n1", "True");
    other["metadata"]["labels"] = json!({ "system": "cardassia" });
    scene.server.put(NODES, other);
    scene.until(|it| it.ip("p", A) == "active n2").await;
    scene.server.put(NODES, node("n3", "True"));
    scene.server.delete(NODES, "n2");
    pass(10).await;
    assert_eq!(scene.cloud.server_of(A).as_deref(), Some("fake://n2"));
    scene.until(|it| it.ip("p", A) == "active n3").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_of_two_pools_is_annotated_with_both() {
    let mut scene = two_nodes();
    scene.server.delete(NODES, "n2");
    scene
        .server
        .put(POOLS, pool_with("p", json!({ "ips": [A] })));
    scene.cloud.has("2001:db8::1", None);
    scene
        .server
        .put(POOLS, pool_with("q", json!({ "ips": ["2001:db8::1"] })));
    scene.cloud.lock().capabilities.per_server = Some(2);
    scene.start();
    let notes = |it: &Scene| {
        let node = it.server.object(NODES, "n1").unwrap_or_default();
        node["metadata"]["annotations"].clone()
    };
    scene.until(|it| it.ip("p", A) == "active n1").await;
    let all = json!({
        "flipop.digitalocean.com/ipv4-reserved-ip": A,
        "flipop.digitalocean.com/ipv6-reserved-ip": "2001:db8::1",
        "floe.dev/node-ips": format!("{A},2001:db8::1"),
    });
    scene.until(|it| notes(it) == all).await;
    // A pool that is deleted takes its annotation with it, and leaves the address.
    scene.server.delete(POOLS, "q");
    let rest = json!({ "flipop.digitalocean.com/ipv4-reserved-ip": A, "floe.dev/node-ips": A });
    scene.until(|it| notes(it) == rest).await;
    assert_eq!(
        scene.cloud.server_of("2001:db8::1").as_deref(),
        Some("fake://n1")
    );
}

/// Starts with a pool of one address.
async fn n2_is_annotated_instead_of_n1(scene: &mut Scene) {
    scene
        .server
        .put(POOLS, pool_with("p", json!({ "ips": [A] })));
    scene.start();
    scene
        .until(|it| it.annotation("n2").as_deref() == Some(A))
        .await;
    scene.until(|it| it.annotation("n1").is_none()).await;
    let node = scene.server.object(NODES, "n1").unwrap();
    assert_eq!(node["metadata"]["annotations"], json!({ "mine": "stays" }));
}

#[tokio::test(start_paused = true)]
async fn an_annotation_of_an_earlier_process_is_mended() {
    let mut scene = two_nodes();
    scene.cloud.has(A, Some("fake://n2"));
    let mut stale = cordoned("n1");
    stale["metadata"]["annotations"] = json!({
        "flipop.digitalocean.com/ipv4-reserved-ip": A, "mine": "stays",
    });
    scene.server.put(NODES, stale);
    n2_is_annotated_instead_of_n1(&mut scene).await;
    assert_eq!(scene.cloud.count("assign"), 0);
}

/// The pool does not even see such a node.
#[tokio::test(start_paused = true)]
async fn an_annotation_of_a_node_that_lost_its_label_meanwhile_is_taken_off() {
    let mut scene = two_nodes();
    scene.cloud.has(A, Some("fake://n1"));
    let mut lost = node("n1", "True");
    lost["metadata"]["labels"] = json!({});
    lost["metadata"]["annotations"] = json!({
        "flipop.digitalocean.com/ipv4-reserved-ip": A, "floe.dev/node-ips": A, "mine": "stays",
    });
    scene.server.put(NODES, lost);
    n2_is_annotated_instead_of_n1(&mut scene).await;
}

#[tokio::test(start_paused = true)]
async fn only_a_leader_acts() {
    let mut scene = two_nodes();
    scene.standing.send_replace(Standing::Unknown);
    scene.server.put(POOLS, pool("p"));
    scene.start();
    pass(120).await;
    assert_eq!(scene.cloud.lock().calls.len(), 0);
    assert_eq!(writes(&scene), 0);
    scene.standing.send_replace(Standing::Leading);
    scene.until(|it| it.ip("p", B) == "active n1").await;
    assert!(scene.figures().contains("ip_state"));
    scene.standing.send_replace(Standing::Unknown);
    pass(1).await;
    let calls = scene.cloud.lock().calls.len();
    scene.server.put(NODES, node("n1", "False"));
    pass(300).await;
    assert_eq!(scene.cloud.lock().calls.len(), calls);
    assert!(!scene.figures().contains("ip_state{"));
}
