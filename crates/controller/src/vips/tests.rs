use axum::http::Method;
use floe_shell::mock::Fault;
use serde_json::{Value, json};

use super::scene::*;

mod claims;
mod ends;
mod moves;
mod nodes;
mod old_crds;
mod peers;
mod registers;
mod remains;

fn web() -> Value {
    json!({ "addresses": [IP], "selector": { "matchLabels": { "app": "web" } } })
}

#[tokio::test(start_paused = true)]
async fn an_object_gets_its_address_and_its_candidates_by_name() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("b", "n2", "True"));
        server.put(PODS, pod("a", "n1", "True"));
        server.put(PODS, pod("unready", "n1", "False"));
        let mut other = pod("other", "n1", "True");
        other["metadata"]["labels"] = json!({ "app": "db" });
        server.put(PODS, other);
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a", "b"]).await;
    let object = scene.vip("web");
    assert_eq!(object["status"]["addresses"], json!([IP]));
    assert_eq!(object["metadata"]["finalizers"], json!(["floe.dev/vip"]));
    assert_eq!(scene.accepted("shop", "web"), "True Granted");
    assert_eq!(scene.key(IP), "vip__shop_web_");
    let first = &object["status"]["candidates"][0];
    assert_eq!(first["node"], "n1");
    assert_eq!(first["nodeAddress"], "10.0.1.1");
    let summary = json!({ "addresses": IP, "candidates": 2 });
    assert_eq!(object["status"]["summary"], summary);
    assert_eq!(first["mode"], "nat");
    assert_eq!(first["readySince"], "2026-01-01T00:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_nothing_changes() {
    let scene = Scene::start(|server| {
        server.put(PODS, asking("a", "n1", &["10.0.70.21", "10.9.9.9"]));
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a"]).await;
    scene
        .until(|it| it.accepted("shop", "10.9.9.9") == "False AddressNotShared")
        .await;
    // `kubectl get vip` shows what was refused.
    let summary = json!({ "addresses": "10.9.9.9", "candidates": 0 });
    assert_eq!(scene.vip("10.9.9.9")["status"]["summary"], summary);
    pass(5).await;
    let writes = || {
        let calls = scene.server.state().calls.clone();
        calls
            .iter()
            .filter(|call| !call.starts_with("GET "))
            .count()
    };
    let before = writes();
    // The pod is written again without a change that matters.
    scene
        .server
        .put(PODS, asking("a", "n1", &["10.0.70.21", "10.9.9.9"]));
    pass(300).await;
    assert_eq!(writes(), before);
}

#[tokio::test(start_paused = true)]
async fn candidates_follow_pods_nodes_and_agents_within_a_moment() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        server.put(PODS, pod("b", "n2", "True"));
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    let both = ["a", "b"];
    scene.until(|it| it.candidates("web") == both).await;
    let start = tokio::time::Instant::now();
    scene.server.put(PODS, pod("b", "n2", "False"));
    scene.until(|it| it.candidates("web") == ["a"]).await;
    assert!(start.elapsed().as_millis() <= 50);
    scene.server.put(PODS, pod("b", "n2", "True"));
    scene.until(|it| it.candidates("web") == both).await;
    scene.server.put(NODES, node("n1", 1, "Unknown"));
    scene.until(|it| it.candidates("web") == ["b"]).await;
    scene.server.put(NODES, node("n1", 1, "True"));
    scene.until(|it| it.candidates("web") == both).await;
    scene.server.put(PODS, agent("n2", "False"));
    scene.until(|it| it.candidates("web") == ["a"]).await;
    let mut leaving = pod("a", "n1", "True");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    scene.server.put(PODS, leaving);
    scene.until(|it| it.candidates("web").is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_outlasts_the_moment_in_which_no_kubelet_is_heard() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        server.put(PODS, pod("b", "n2", "True"));
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a", "b"]).await;
    scene.set_status("web", |status| status["holder"] = holding("a", "n1", 1));
    // As Kubernetes marks pods of a node that it does not hear.
    let marked = |name: &str, node: &str| {
        let mut pod = pod(name, node, "False");
        let containers = json!({ "type": "ContainersReady", "status": "True" });
        let conditions = pod["status"]["conditions"].as_array_mut();
        conditions.unwrap().push(containers);
        pod
    };
    let silent = |name: &str, number: u8, ago: i64| {
        let mut node = node(name, number, "Unknown");
        let since = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(ago);
        node["status"]["conditions"][0]["lastTransitionTime"] = json!(since.to_string());
        node
    };
    scene.server.put(NODES, silent("n1", 1, 0));
    scene.server.put(PODS, marked("a", "n1"));
    scene.server.put(NODES, silent("n2", 2, 0));
    scene.server.put(PODS, marked("b", "n2"));
    scene.until(|it| it.candidates("web") == ["a"]).await;
    // Heard again before its pods are.
    scene.server.put(NODES, node("n2", 2, "True"));
    scene.until(|it| it.candidates("web") == ["a", "b"]).await;
    // Not heard for too long.
    scene.server.put(NODES, silent("n1", 1, 16));
    scene.until(|it| it.candidates("web") == ["b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_an_address_of_floe_is_served_directly_and_never_by_nat() {
    let scene = Scene::start(|server| {
        let mut underlay = pod("a", "n1", "True");
        underlay["status"]["podIP"] = json!("10.0.70.2");
        underlay["status"]["podIPs"] = json!([{ "ip": "10.0.70.2" }]);
        server.put(PODS, underlay);
        let place = json!({ "NodeName": "n1", "Uid": "uid-a" }).to_string();
        server.put(
            FIPS,
            json!({
                "metadata": { "name": "10.0.70.2" },
                "spec": { "key": "sts_shop_a_a", "policy": 0, "attribute": place,
                          "updateTime": "2026-01-01T00:00:00Z" },
            }),
        );
        server.put(VIPS, vip("web", &web()));
        let mut spec = web();
        spec["addresses"] = json!(["10.0.70.21"]);
        spec["announcement"] = json!({ "mode": "nat" });
        server.put(VIPS, vip("forced", &spec));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a"]).await;
    let mode = &scene.vip("web")["status"]["candidates"][0]["mode"];
    assert_eq!(mode, "direct");
    let told = "Pod a NatNotPossible".to_owned();
    scene.until(|it| it.events().contains(&told)).await;
    assert!(scene.candidates("forced").is_empty());
    assert_eq!(scene.accepted("shop", "forced"), "True Granted");
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_no_network_of_floe_is_never_served_directly() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        let mut spec = web();
        spec["announcement"] = json!({ "mode": "direct" });
        server.put(VIPS, vip("web", &spec));
    })
    .await;
    let told = "Pod a DirectNotPossible".to_owned();
    scene.until(|it| it.events().contains(&told)).await;
    assert!(scene.candidates("web").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_an_address_of_the_family_is_no_candidate_and_is_told() {
    let mut spec = web();
    spec["addresses"] = json!([IP, "fd00::20"]);
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        let mut both = pod("b", "n1", "True");
        both["status"]["podIPs"] = json!([{ "ip": "10.244.0.6" }, { "ip": "fd01::6" }]);
        server.put(PODS, both);
        server.put(VIPS, vip("web", &spec));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["b"]).await;
    let told = "Pod a FamilyMissing".to_owned();
    scene.until(|it| it.events().contains(&told)).await;
    assert_eq!(
        scene.vip("web")["status"]["addresses"],
        json!([IP, "fd00::20"])
    );
}

#[tokio::test(start_paused = true)]
async fn an_address_is_picked_out_of_ranges_and_stays() {
    let ranges = json!({ "ranges": ["10.0.70.1~10.0.70.21"], "selector": {} });
    let scene = Scene::start(|server| {
        server.put(VIPS, vip("one", &ranges));
    })
    .await;
    scene
        .until(|it| it.accepted("shop", "one") == "True Granted")
        .await;
    assert_eq!(scene.vip("one")["status"]["addresses"], json!([IP]));
    scene.server.put(VIPS, vip("two", &ranges));
    scene
        .until(|it| it.accepted("shop", "two") == "True Granted")
        .await;
    assert_eq!(
        scene.vip("two")["status"]["addresses"],
        json!(["10.0.70.21"])
    );
    scene.server.put(VIPS, vip("three", &ranges));
    scene
        .until(|it| it.accepted("shop", "three") == "False RangeExhausted")
        .await;
    // Room is found as soon as there is some.
    let mut leaving = scene.vip("two");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    scene.server.put(VIPS, leaving);
    scene
        .until(|it| it.accepted("shop", "three") == "True Granted")
        .await;
    assert_eq!(scene.key("10.0.70.21"), "vip__shop_three_");
    scene.configure("[]");
    pass(120).await;
    assert_eq!(
        scene.vip("one")["status"]["addresses"],
        json!([IP]),
        "nothing configured says nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn refusals_have_a_reason_each_and_leave_others_alone() {
    let spec = |addresses: &[&str]| json!({ "addresses": addresses, "selector": {} });
    let scene =
        Scene::start(|server| {
            server.put(PODS, pod("a", "n1", "True"));
            server.put(VIPS, vip("foreign", &spec(&["10.0.70.2"])));
            server.put(VIPS, vip("bank-only", &spec(&["10.0.70.30"])));
            server.put(VIPS, vip("broken", &spec(&["ten", "127.0.0.1"])));
            server.put(VIPS, vip("empty", &json!({})));
            server.put(VIPS, vip("half", &spec(&["10.0.70.22", "10.99.0.1"])));
            server.put(
                VIPS,
                vip(
                    "odd",
                    &json!({ "addresses": ["10.0.70.21"], "selector": {
            "matchExpressions": [{ "key": "a", "operator": "Near", "values": [] }],
        } }),
                ),
            );
            server.put(VIPS, json!({
            "metadata": { "name": "mine", "namespace": "bank" }, "spec": spec(&["10.0.70.30"]),
        }));
        })
        .await;
    let expected = [
        ("shop", "foreign", "False AddressNotShared"),
        ("shop", "bank-only", "False NamespaceNotAllowed"),
        ("shop", "broken", "False InvalidAddress"),
        ("shop", "empty", "False InvalidAddress"),
        ("shop", "half", "False AddressNotShared"),
        ("shop", "odd", "False InvalidSelector"),
        ("bank", "mine", "True Granted"),
    ];
    for (namespace, name, accepted) in expected {
        scene
            .until(|it| it.accepted(namespace, name) == accepted)
            .await;
    }
    assert_eq!(scene.key("10.0.70.30"), "vip__bank_mine_");
    assert_eq!(scene.key("10.0.70.2"), "");
    assert_eq!(
        scene.vip("half")["status"]["addresses"],
        json!(["10.0.70.22"])
    );
    assert_eq!(scene.candidates("half"), ["a"]);
    assert_eq!(scene.vip("foreign")["metadata"]["finalizers"], json!(null));
    let told = "VirtualIP bank-only NamespaceNotAllowed".to_owned();
    scene.until(|it| it.events().contains(&told)).await;
}

#[tokio::test(start_paused = true)]
async fn two_objects_never_get_one_address_whoever_writes_between() {
    let scene = Scene::start(|server| {
        // The record is there before the books can know it.
        let act = |state: &mut floe_shell::mock::State| {
            state.put(FIPS, json!({
                "metadata": { "name": IP },
                "spec": { "key": "vip__bank_first_", "policy": 2, "updateTime": "2026-01-01T00:00:00Z" },
            }));
        };
        server.fault(Method::POST, "floatingips", Fault::Before(Box::new(act)));
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene
        .until(|it| it.accepted("shop", "web") == "False AddressTaken")
        .await;
    assert_eq!(scene.key(IP), "vip__bank_first_");
    assert_eq!(scene.vip("web")["status"]["addresses"], json!(null));
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_tried_again_and_a_lost_race_looks_again() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        server.fault(Method::PATCH, "virtualips/web/status", Fault::Refuse(500));
        server.fault(Method::PATCH, "virtualips/web/status", Fault::Refuse(409));
        server.fault(Method::POST, "floatingips", Fault::Lose);
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a"]).await;
    assert_eq!(scene.key(IP), "vip__shop_web_");
}

#[tokio::test(start_paused = true)]
async fn only_a_leader_acts() {
    let scene = Scene::start(|_| ()).await;
    scene
        .standing
        .send_replace(crate::leader::Standing::Unknown);
    pass(1).await;
    scene.server.put(VIPS, vip("web", &web()));
    pass(120).await;
    assert_eq!(scene.vip("web")["status"], json!(null));
    scene
        .standing
        .send_replace(crate::leader::Standing::Leading);
    scene
        .until(|it| it.accepted("shop", "web") == "True Granted")
        .await;
    scene.stop();
}
