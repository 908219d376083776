use super::*;

const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/replicasets";
const DAEMON_SETS: &str = "/apis/apps/v1/daemonsets";

fn owned(mut pod: Value, kind: &str, name: &str) -> Value {
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true,
    }]);
    pod
}

fn workload(name: &str, addresses: Option<&str>) -> Value {
    let annotations = addresses.map(|it| json!({ "floe.dev/floating-ips": it }));
    json!({ "metadata": {
        "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "annotations": annotations,
    } })
}

#[tokio::test(start_paused = true)]
async fn pods_that_name_one_address_share_one_object_that_is_named_by_it() {
    let scene = Scene::start(|server| {
        for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "n1")] {
            server.put(PODS, asking(name, node, &[IP]));
        }
        let mut six = asking("six", "n1", &["fd00::20"]);
        six["status"]["podIPs"] = json!([{ "ip": "fd01::6" }]);
        server.put(PODS, six);
    })
    .await;
    scene.until(|it| it.candidates(IP) == ["a", "b", "c"]).await;
    let object = scene.vip(IP);
    assert_eq!(
        object["metadata"]["labels"],
        json!({ "floe.dev/claimed-by": "annotation" })
    );
    assert_eq!(object["spec"]["addresses"], json!([IP]));
    assert_eq!(scene.key(IP), "vip__shop_10.0.70.20_");
    let six = "fd00-0000-0000-0000-0000-0000-0000-0020";
    scene.until(|it| it.candidates(six) == ["six"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_annotation_works_on_workloads_themselves() {
    let scene = Scene::start(|server| {
        server.put(DEPLOYMENTS, workload("web", Some(r#"["10.0.70.20"]"#)));
        server.put(
            REPLICA_SETS,
            owned(workload("web-1", None), "Deployment", "web"),
        );
        server.put(
            PODS,
            owned(pod("web-1-x", "n1", "True"), "ReplicaSet", "web-1"),
        );
        server.put(DAEMON_SETS, workload("edge", Some(r#"["10.0.70.21"]"#)));
        server.put(
            PODS,
            owned(pod("edge-y", "n2", "True"), "DaemonSet", "edge"),
        );
        server.put(PODS, pod("alone", "n1", "True"));
    })
    .await;
    scene.until(|it| it.candidates(IP) == ["web-1-x"]).await;
    scene
        .until(|it| it.candidates("10.0.70.21") == ["edge-y"])
        .await;
    // Later is as good, and no pod has to be made anew.
    scene.server.put(
        DAEMON_SETS,
        workload("edge", Some(r#"["10.0.70.21", "10.0.70.22"]"#)),
    );
    scene
        .until(|it| it.candidates("10.0.70.22") == ["edge-y"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_address_that_nobody_asks_for_is_free_after_a_minute_and_not_before() {
    let scene = Scene::start(|server| {
        server.put(PODS, asking("a", "n1", &[IP]));
    })
    .await;
    scene.until(|it| it.candidates(IP) == ["a"]).await;
    scene.server.delete(PODS, "a");
    scene.until(|it| it.candidates(IP).is_empty()).await;
    pass(50).await;
    assert_eq!(scene.vip(IP)["metadata"]["deletionTimestamp"], json!(null));
    // Somebody asks again, so the minute begins anew.
    scene.server.put(PODS, asking("b", "n1", &[IP]));
    scene.until(|it| it.candidates(IP) == ["b"]).await;
    scene.server.delete(PODS, "b");
    pass(50).await;
    assert_eq!(scene.key(IP), "vip__shop_10.0.70.20_");
    scene.until(|it| it.vip(IP).is_null()).await;
    assert_eq!(scene.key(IP), "", "the record goes with it");
}

#[tokio::test(start_paused = true)]
async fn an_address_whose_pods_run_on_without_asking_for_it_is_free_soon() {
    let scene = Scene::start(|server| {
        server.put(PODS, asking("a", "n1", &[IP]));
        server.put(PODS, asking("b", "n2", &[IP]));
    })
    .await;
    scene.until(|it| it.candidates(IP) == ["a", "b"]).await;
    // One of them does: the other is waited for as before.
    scene.server.put(PODS, pod("a", "n1", "True"));
    scene.until(|it| it.candidates(IP) == ["b"]).await;
    scene.server.delete(PODS, "b");
    scene.until(|it| it.candidates(IP).is_empty()).await;
    pass(40).await;
    assert_eq!(scene.vip(IP)["metadata"]["deletionTimestamp"], json!(null));

    scene.server.put(PODS, asking("a", "n1", &[IP]));
    scene.until(|it| it.candidates(IP) == ["a"]).await;
    scene.server.put(PODS, pod("a", "n1", "True"));
    scene.until(|it| it.candidates(IP).is_empty()).await;
    pass(5).await;
    assert_eq!(
        scene.key(IP),
        "vip__shop_10.0.70.20_",
        "it may be a mistake"
    );
    pass(10).await;
    assert!(scene.vip(IP).is_null());
    assert_eq!(scene.key(IP), "");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_person_made_is_never_overwritten_or_deleted() {
    let selecting = json!({
        "addresses": ["10.0.70.22"], "selector": { "matchLabels": { "app": "db" } },
    });
    // Without a selector only the label tells it from one that floe made.
    let bare = json!({ "addresses": ["10.0.70.21"] });
    let scene = Scene::start(|server| {
        server.put(VIPS, vip(IP, &selecting));
        server.put(VIPS, vip("10.0.70.21", &bare));
        server.put(PODS, asking("a", "n1", &[IP]));
    })
    .await;
    let told = "Pod a AddressTaken".to_owned();
    scene.until(|it| it.events().contains(&told)).await;
    pass(120).await;
    for (name, spec) in [(IP, selecting), ("10.0.70.21", bare)] {
        let object = scene.vip(name);
        assert_eq!(object["spec"], spec);
        assert_eq!(object["metadata"]["labels"], json!(null));
        assert_eq!(object["metadata"]["deletionTimestamp"], json!(null));
        assert!(scene.candidates(name).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_an_annotation_is_told_once_and_hides_nothing() {
    let scene = Scene::start(|server| {
        server.put(
            PODS,
            asking("a", "n1", &["ten", "10.0.70.0/24", IP, "10.99.0.1"]),
        );
        let mut bare = pod("bare", "n1", "True");
        bare["metadata"]["annotations"] = json!({ "floe.dev/floating-ips": "10.0.70.20" });
        server.put(PODS, bare);
    })
    .await;
    scene.until(|it| it.candidates(IP) == ["a"]).await;
    scene
        .until(|it| it.accepted("shop", "10.99.0.1") == "False AddressNotShared")
        .await;
    pass(90).await;
    let of_pods: Vec<String> = scene
        .events()
        .into_iter()
        .filter(|it| it.starts_with("Pod"))
        .collect();
    assert_eq!(
        of_pods,
        [
            "Pod a AddressNotShared",
            "Pod a InvalidAddress",
            "Pod a InvalidAddress",
            "Pod bare InvalidAnnotation",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn of_two_namespaces_that_ask_for_one_address_one_gets_it() {
    let scene = Scene::start(|server| {
        server.put(PODS, asking("a", "n1", &[IP]));
    })
    .await;
    scene.until(|it| it.candidates(IP) == ["a"]).await;
    let mut other = asking("b", "n1", &[IP]);
    other["metadata"]["namespace"] = json!("bank");
    scene.server.put(PODS, other);
    scene
        .until(|it| it.accepted("bank", IP) == "False AddressTaken")
        .await;
    let told = "Pod b AddressTaken".to_owned();
    scene.until(|it| it.events().contains(&told)).await;
    assert_eq!(scene.key(IP), "vip__shop_10.0.70.20_");
    // When the first one lets go, the other has it.
    scene.server.delete(PODS, "a");
    pass(50).await;
    scene.until(|it| it.vip(IP).is_null()).await;
    scene
        .until(|it| it.accepted("bank", IP) == "True Granted")
        .await;
    assert_eq!(scene.key(IP), "vip__bank_10.0.70.20_");
}
