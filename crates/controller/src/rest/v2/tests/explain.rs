use floe_core::ipam::names;
use floe_shell::mock::Fault;

use super::*;
use crate::{
    claims::scene::{DEPLOYMENTS, REPLICA_SETS, owner, pod},
    reclaim::scene::{finish, running, until},
    waiting::HeldUp,
};

async fn explain(api: &Api, question: &str) -> Value {
    let (status, body) = api.get(&format!("/v2/explain?{question}")).await;
    assert_eq!(status, 200, "{body}");
    body
}

#[tokio::test(start_paused = true)]
async fn an_address_is_explained_by_holder_policy_and_workload() {
    let scene = world().await;
    let api = Api::of(&scene);
    let table = [
        (
            "10.0.70.2",
            "PodHolds",
            Some("fewer replicas of StatefulSet ns/a or its end, once its pod is gone"),
        ),
        (
            "10.0.70.3",
            "StillWanted",
            Some("fewer replicas of StatefulSet ns/a or its end"),
        ),
        ("10.0.70.4", "SpareOfPool", Some("a release by hand")),
        ("10.0.70.5", "PodLeft", Some("a release by hand")),
        ("10.0.70.6", "Reserved", Some("taking the reservation back")),
        ("10.0.70.9", "Free", None),
        ("10.0.80.2", "ForeignKey", Some("a release by hand")),
        ("192.0.2.8", "NotConfigured", None),
    ];
    for (ip, reason, released_by) in table {
        let body = explain(&api, &format!("ip={ip}")).await;
        assert_eq!(body["ip"]["reason"], reason, "{ip}: {body}");
        assert_eq!(body["ip"]["releasedBy"].as_str(), released_by, "{ip}");
        assert_eq!(body["ip"]["address"]["ip"], ip);
        assert_eq!(body.get("pod"), None);
    }
    let body = explain(&api, "ip=10.0.70.2").await;
    assert_eq!(
        body["summary"],
        json!([
            "It is held by pod ns/a-0.",
            "So since 2026-01-01T00:00:00Z.",
            "What would release it: fewer replicas of StatefulSet ns/a or its end, once its pod is gone.",
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_nobody_can_look_for_is_not_called_gone() {
    let scene = world().await;
    let api = Api::of(&scene);
    scene
        .server
        .always(Method::GET, "/pods/a-1", Fault::Refuse(500));
    let body = explain(&api, "ip=10.0.70.3").await;
    assert_eq!(body["ip"]["reason"], "PodUnreadable");
    scene
        .server
        .always(Method::GET, "/pods/a-9", Fault::Refuse(500));
    let refused = api.get("/v2/explain?pod=ns/a-9").await;
    assert_eq!(refusal(&refused), (503, "PodUnreadable", ""));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_explained_by_what_it_has() {
    let scene = world().await;
    let api = Api::of(&scene);
    let body = explain(&api, "pod=ns/a-0").await;
    assert_eq!(body["summary"], json!(["Pod ns/a-0 has 10.0.70.2."]));
    let pod = &body["pod"];
    assert_eq!(pod["addresses"][0]["ip"], "10.0.70.2");
    assert_eq!(
        (&pod["node"], &pod["wantsAddress"]),
        (&json!("n1"), &json!(true))
    );
    assert_eq!(pod.get("refusal"), None);

    for path in ["ns/a-9", "ns/NO", "other/a-0"] {
        let missing = api.get(&format!("/v2/explain?pod={path}")).await;
        assert_eq!(refusal(&missing), (404, "NoSuchPod", ""), "{path}");
    }
    // It is not among those that want an address, so the API server is asked.
    let mut plain = running("plain", "up", "");
    plain["spec"]["containers"] = json!([{}]);
    scene.server.put(PODS, plain);
    let body = explain(&api, "pod=ns/plain").await;
    assert_eq!(body["pod"]["wantsAddress"], false);
    assert!(
        body["summary"][0]
            .as_str()
            .unwrap()
            .contains(names::RESOURCE)
    );

    scene.server.put(PODS, running("late", "ul", ""));
    let late = || scene.cluster.pod("ns", "late");
    until("it is known", || late().is_some()).await;
    let body = explain(&api, "pod=ns/late").await;
    assert_eq!(body["pod"]["refusal"]["reason"], "BoundWithoutAddress");
    finish(&scene.server, "late");
    until("it is over", || {
        late().is_some_and(|pod| pod.phase_text == "Failed")
    })
    .await;
    let body = explain(&api, "pod=ns/late").await;
    assert_eq!(body["pod"].get("refusal"), None);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_is_told_what_the_scheduler_is_told() {
    let scene = world().await;
    let api = Api::of(&scene);
    let waits = pod("waits");
    scene.server.put(PODS, waits.clone());
    until("it is known", || scene.cluster.pod("ns", "waits").is_some()).await;
    let body = explain(&api, "pod=ns/waits").await;
    assert_eq!(body["pod"]["fittingNodes"], json!(["n1", "n2"]));
    assert_eq!(body["pod"].get("refusal"), None);
    let promises = |scene: &Scene| scene.store.read(|books| books.ledger().promises().count());
    assert_eq!(promises(&scene), 0);

    // All of both entries are taken.
    let all = json!({ "ips": ["10.0.70.2~10.0.70.9", "10.0.80.2~10.0.80.5"] });
    assert_eq!(api.post("/v2/ips/reserve", all).await.0, 200);
    let body = explain(&api, "pod=ns/waits").await;
    let text = "FloatingIPPlugin:NoFIPLeft: no free address for what the pod asks for";
    let refusal = json!({ "reason": "NoAddressLeft", "message": text });
    assert_eq!(body["pod"]["refusal"], refusal);
    assert_eq!(
        body["pod"]["unfitNodes"],
        json!([{ "reason": "NoAddressLeft", "message": text, "nodes": 2 }])
    );
    assert_eq!(
        body["summary"],
        json!([format!("Pod ns/waits has no address yet: {text}.")])
    );

    // Its own address waits for it, on a node of one subnet.
    let mut next = pod("a-1");
    next["metadata"]["ownerReferences"] = json!([owner("apps/v1", "StatefulSet", "a")]);
    next["metadata"]["annotations"] = json!({ names::RELEASE_POLICY: "immutable" });
    scene.server.put(PODS, next);
    until("it is known", || scene.cluster.pod("ns", "a-1").is_some()).await;
    let body = explain(&api, "pod=ns/a-1").await;
    assert_eq!(body["pod"]["fittingNodes"], json!(["n1"]));
    assert_eq!(
        body["pod"]["unfitNodes"][0]["reason"],
        "KeptAddressElsewhere"
    );
    assert_eq!(body["pod"]["addresses"][0]["state"], "Kept");
    assert_eq!(body["summary"][1], "10.0.70.3 waits for a pod of its name.");
    let body = explain(&api, "ip=10.0.70.3").await;
    assert_eq!(body["ip"]["reason"], "PodExpected");
}

#[tokio::test(start_paused = true)]
async fn a_pod_above_the_limit_is_refused_and_nothing_is_promised() {
    let scene = world().await;
    let api = Api::of(&scene);
    let deployment = json!({
        "metadata": { "name": "web", "namespace": "ns" }, "spec": { "replicas": 0 },
    });
    scene.server.put(DEPLOYMENTS, deployment);
    let set = json!({
        "metadata": {
            "name": "web-1", "namespace": "ns",
            "ownerReferences": [owner("apps/v1", "Deployment", "web")],
        },
        "spec": { "replicas": 0 },
    });
    scene.server.put(REPLICA_SETS, set);
    let mut web = pod("web-1-x");
    web["metadata"]["ownerReferences"] = json!([owner("apps/v1", "ReplicaSet", "web-1")]);
    web["metadata"]["annotations"] = json!({ names::RELEASE_POLICY: "immutable" });
    scene.server.put(PODS, web.clone());
    until("it is known", || {
        scene.cluster.pod("ns", "web-1-x").is_some()
    })
    .await;
    let body = explain(&api, "pod=ns/web-1-x").await;
    assert_eq!(body["pod"]["refusal"]["reason"], "WorkloadLimitReached");
    assert_eq!(body["pod"].get("fittingNodes"), None);

    web["metadata"]["annotations"] = json!({ names::ARGS: "{" });
    scene.server.put(PODS, web);
    let args = || {
        scene
            .cluster
            .pod("ns", "web-1-x")
            .and_then(|pod| pod.args.clone())
    };
    until("it is known", || args().is_some()).await;
    let body = explain(&api, "pod=ns/web-1-x").await;
    assert_eq!(body["pod"]["refusal"]["reason"], "InvalidArgs");
}

#[tokio::test(start_paused = true)]
async fn the_explanation_of_a_pod_says_why_its_update_is_held_up() {
    let scene = world().await;
    let api = Api::of(&scene);
    scene.server.put(PODS, pod("waits"));
    until("it is known", || scene.cluster.pod("ns", "waits").is_some()).await;
    let uid = scene.cluster.pod("ns", "waits").unwrap().uid.clone();
    let message = "the address of pod web-1 cannot be handed over: a disruption budget protects it";
    let why = HeldUp {
        reason: "DisruptionBudget",
        message: message.into(),
    };
    scene.waiting.hold_up(&uid, Some(why));
    let body = explain(&api, "pod=ns/waits").await;
    assert_eq!(
        body["pod"]["rollout"],
        json!({ "reason": "DisruptionBudget", "message": message })
    );
    let told = body["summary"].as_array().unwrap().last().unwrap();
    assert_eq!(*told, format!("Its rolling update waits: {message}."));
    // It is let through.
    scene.waiting.leave(&uid);
    let body = explain(&api, "pod=ns/waits").await;
    assert_eq!(body["pod"].get("rollout"), None);
}

#[tokio::test(start_paused = true)]
async fn gateways_and_nodes_are_not_called_free() {
    let scene = world().await;
    let api = Api::of(&scene);
    let mut nodes = scene.cluster.all_nodes();
    nodes.sort();
    let (node, Some(address)) = nodes[0].clone() else {
        panic!("{nodes:?}");
    };
    for (ip, reason, told) in [
        (
            "10.0.70.1".to_owned(),
            "Gateway",
            "It is the gateway of 10.0.70.0/24: no pod gets it.".to_owned(),
        ),
        (
            address.to_string(),
            "NodeAddress",
            format!("It is the address of node {node}."),
        ),
        (
            "192.0.2.8".to_owned(),
            "NotConfigured",
            "It has no record, and is in no range of the configuration.".to_owned(),
        ),
    ] {
        let body = explain(&api, &format!("ip={ip}")).await;
        assert_eq!(body["ip"]["reason"], reason, "{body}");
        assert_eq!(body["ip"]["address"]["state"], "NotForPods", "{body}");
        assert_eq!(body["summary"][0], told);
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_its_pod_lacks_is_named_with_the_reason_of_check() {
    const NODES: &str = "/apis/floe.dev/v1alpha1/nodenetworks";
    let scene = world().await;
    let api = Api::of(&scene);
    let report = |pod: &str| {
        let missing = json!([{ "ip": "10.0.70.2", "pod": pod, "since": "2026-01-01T00:00:00Z" }]);
        json!({ "metadata": { "name": "n1" }, "status": { "missing": missing } })
    };
    scene.server.put(NODES, report("ns/a-0"));
    let why = "its record gives it 10.0.70.2, but the agent of node n1 does not find it in the pod";
    let body = explain(&api, "pod=ns/a-0").await;
    let told = format!("Pod ns/a-0 lacks 10.0.70.2: {why}.");
    assert_eq!(body["summary"], json!([told]));
    let refusal = json!({ "reason": "AddressMissing", "message": why });
    assert_eq!(body["pod"]["refusal"], refusal);
    let body = explain(&api, "ip=10.0.70.2").await;
    assert_eq!(body["ip"]["reason"], "AddressMissing");
    let told = format!("The pod lacks it: {why}.");
    let end = "fewer replicas of StatefulSet ns/a or its end, once its pod is gone";
    let whole = [
        "It is held by pod ns/a-0.",
        "So since 2026-01-01T00:00:00Z.",
        &told,
        &format!("What would release it: {end}."),
    ];
    assert_eq!(body["summary"], json!(whole));

    // Neither another pod's report nor one that cannot be read says anything about this pod.
    scene.server.put(NODES, report("ns/a-7"));
    let body = explain(&api, "pod=ns/a-0").await;
    assert_eq!(body["summary"], json!(["Pod ns/a-0 has 10.0.70.2."]));
    scene.server.put(NODES, report("ns/a-0"));
    scene
        .server
        .always(Method::GET, "nodenetworks", Fault::Refuse(403));
    let body = explain(&api, "ip=10.0.70.2").await;
    assert_eq!(body["ip"]["reason"], "PodHolds");
}
