use super::*;

fn bought() -> Scene {
    let scene = Scene::new();
    scene.cloud.lock().shop = ["10.0.1.1", "10.0.2.2"]
        .map(|it| it.parse().unwrap())
        .into();
    scene.cloud.has(A, None);
    for name in ["n1", "n2", "n3"] {
        scene.server.put(NODES, node(name, "True"));
    }
    scene
}

async fn served(scene: &Scene) {
    let ips = json!([A, "10.0.1.1", "10.0.2.2"]);
    scene.until(|it| it.pool("p")["spec"]["ips"] == ips).await;
    scene
        .until(|it| {
            it.status("p")["summary"]["active"] == 3 && it.status("p")["purchase"].is_null()
        })
        .await;
}

/// As `kubectl delete` does it.
fn delete(scene: &Scene) {
    let mut pool = scene.pool("p");
    if pool["metadata"]["finalizers"]
        .as_array()
        .is_none_or(Vec::is_empty)
    {
        return scene.server.delete(POOLS, "p");
    }
    pool["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    scene.server.put(POOLS, pool);
}

#[tokio::test(start_paused = true)]
async fn everything_stays_unless_somebody_says_otherwise() {
    let mut scene = bought();
    scene.server.put(
        POOLS,
        pool_with("p", json!({ "ips": [A], "desiredIPs": 3 })),
    );
    scene.start();
    served(&scene).await;
    assert_eq!(scene.pool("p")["metadata"]["finalizers"], json!(null));
    let calls = scene.cloud.count("assign");
    delete(&scene);
    pass(300).await;
    assert_eq!(scene.cloud.count("assign"), calls);
    assert_eq!(
        scene.cloud.count("detach") + scene.cloud.count("release"),
        0
    );
    assert!(
        scene.annotation("n1").is_none(),
        "nobody keeps it there any more"
    );
}

/// A node with these annotations.
fn annotated(name: &str, annotations: &Value) -> Value {
    let mut node = node(name, "True");
    node["metadata"]["annotations"] = annotations.clone();
    node
}

#[tokio::test(start_paused = true)]
async fn what_a_pool_has_annotated_that_is_gone_is_taken_off_and_nothing_else() {
    let (v4, v6) = (
        "flipop.digitalocean.com/ipv4-reserved-ip",
        "flipop.digitalocean.com/ipv6-reserved-ip",
    );
    let all = "floe.dev/node-ips";
    let (gone, other) = ("10.0.9.9", "10.0.8.8");
    let mut scene = Scene::new();
    scene.cloud.has(A, None);
    // It cannot be followed, so it says nothing.
    let silent = json!({ "ips": [A], "provider": "nobody" });
    scene.server.put(POOLS, pool_with("p", silent));
    let before_and_after = [
        (
            json!({ v4: gone, all: gone, "mine": "stays" }),
            json!({ "mine": "stays" }),
        ),
        // Nobody but floe writes what is only there.
        (json!({ v4: gone }), json!({ v4: gone })),
        (json!({ v4: other, all: gone }), json!({ v4: other })),
        (
            json!({ v4: gone, v6: "2001:db8::1", all: format!("{gone},{A},2001:db8::1") }),
            json!({ v4: A, all: A }),
        ),
    ];
    for (number, (before, _)) in before_and_after.iter().enumerate() {
        scene
            .server
            .put(NODES, annotated(&format!("n{number}"), before));
    }
    let path = format!("{NODES}/n0");
    scene
        .server
        .fault(Method::PATCH, &path, ServerFault::Refuse(500));
    scene.start();
    for (number, (_, after)) in before_and_after.iter().enumerate() {
        let name = format!("n{number}");
        scene
            .until(|it| {
                let node = it.server.object(NODES, &name).unwrap_or_default();
                node["metadata"]["annotations"] == *after
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_any_pool_that_is_left_it_is_taken_off_too() {
    let mut scene = Scene::new();
    scene.cloud.has(A, None);
    scene.server.put(NODES, node("n1", "True"));
    scene
        .server
        .put(POOLS, pool_with("p", json!({ "ips": [A] })));
    scene.start();
    scene
        .until(|it| it.annotation("n1").as_deref() == Some(A))
        .await;
    scene.stop();
    pass(1).await;
    scene.server.delete(POOLS, "p");
    pass(60).await;
    assert_eq!(scene.annotation("n1").as_deref(), Some(A), "nobody runs");
    scene.start();
    scene.until(|it| it.annotation("n1").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_bought_is_given_back_and_what_was_given_stays() {
    let mut scene = bought();
    let spec = json!({ "ips": [A], "desiredIPs": 3, "reclaimPolicy": "Delete" });
    scene.server.put(POOLS, pool_with("p", spec));
    scene.start();
    served(&scene).await;
    scene
        .until(|it| it.pool("p")["metadata"]["finalizers"] == json!(["floe.dev/release-addresses"]))
        .await;
    delete(&scene);
    scene.until(|it| it.pool("p").is_null()).await;
    let left: Vec<String> = scene
        .cloud
        .lock()
        .addresses
        .keys()
        .map(ToString::to_string)
        .collect();
    assert_eq!(left, [A]);
    assert_eq!(scene.cloud.count("release"), 2);
    assert_eq!(scene.cloud.count(&format!("release {A}")), 0);
}

/// Somebody else may be sold an address at once: no name of ours may say it then.
#[tokio::test(start_paused = true)]
async fn a_name_goes_before_the_addresses_are_given_back() {
    let mut scene = bought();
    let name = json!({ "zone": "example.com", "recordName": "www" });
    let mut spec = json!({ "ips": [A], "desiredIPs": 3, "reclaimPolicy": "Delete" });
    spec["dnsRecordSet"] = name;
    scene.server.put(POOLS, pool_with("p", spec));
    scene.start();
    served(&scene).await;
    let says = |it: &Scene| it.dns.says("example.com", "www");
    scene.until(|it| says(it).len() == 3).await;
    scene
        .until(|it| it.pool("p")["metadata"]["finalizers"].is_array())
        .await;
    scene.dns.lock().faults.push_back(unavailable());
    delete(&scene);
    scene
        .until(|it| it.condition(&it.status("p"), "Published") == "False ProviderUnavailable")
        .await;
    assert_eq!(says(&scene).len(), 3);
    let given = ["detach", "release"].map(|call| scene.cloud.count(call));
    assert_eq!(given, [0; 2], "the name still says them");
    scene.until(|it| it.pool("p").is_null()).await;
    assert!(says(&scene).is_empty());
    assert!(scene.dns.lock().names.is_empty(), "something is left of it");
    assert_eq!(scene.cloud.count("release"), 2);
}

#[tokio::test(start_paused = true)]
async fn an_address_of_another_cluster_is_never_given_back() {
    let mut scene = bought();
    let spec = json!({ "ips": [A], "reclaimPolicy": "Delete" });
    scene.server.put(POOLS, pool_with("p", spec));
    let foreign = floe_core::nodepool::cloud::Mark {
        cluster: "c-2".into(),
        pool: "u".into(),
        purchase: "1".into(),
    };
    let ip = A.parse::<std::net::IpAddr>().unwrap();
    scene.cloud.lock().addresses.get_mut(&ip).unwrap().mark = Some(foreign);
    scene.start();
    scene.until(|it| it.ip("p", A) == "error").await;
    let error = text(&scene.status("p")["ips"][A]["error"]);
    assert!(error.ends_with("another cluster has bought it"), "{error}");
    scene
        .until(|it| it.pool("p")["metadata"]["finalizers"].is_array())
        .await;
    delete(&scene);
    scene.until(|it| it.pool("p").is_null()).await;
    let touched = ["assign", "detach", "release"].map(|call| scene.cloud.count(call));
    assert_eq!(touched, [0; 3]);
}

#[tokio::test(start_paused = true)]
async fn whoever_changes_his_mind_is_free_at_once() {
    let mut scene = bought();
    let spec = json!({ "ips": [A], "reclaimPolicy": "Delete" });
    scene.server.put(POOLS, pool_with("p", spec));
    scene.start();
    scene
        .until(|it| it.pool("p")["metadata"]["finalizers"].is_array())
        .await;
    let mut pool = scene.pool("p");
    pool["spec"]["reclaimPolicy"] = json!("Retain");
    scene.server.put(POOLS, pool);
    scene
        .until(|it| {
            it.pool("p")["metadata"]["finalizers"]
                .as_array()
                .is_none_or(Vec::is_empty)
        })
        .await;
}
