use floe_api::extender::parse;
use floe_core::ipam::names;
use serde_json::{Value, json};

use super::*;
use crate::{
    claims::scene::{NODES, Scene, node, owner, pod, settle},
    store::Store,
};

const ALL: [&str; 4] = ["n1", "n2", "n3", "n9"];

fn question(pod: &PodRef, nodes: &[&str]) -> Vec<u8> {
    let PodRef {
        namespace,
        name,
        uid,
    } = pod;
    json!({
        "Pod": { "metadata": { "namespace": namespace, "name": name, "uid": uid } },
        "NodeNames": nodes,
    })
    .to_string()
    .into_bytes()
}

async fn filter(scene: &Scene, pod: &PodRef, nodes: &[&str]) -> Value {
    let body = question(pod, nodes);
    let offer: Offer<'_> = parse(&body).unwrap();
    let answer = scene.desk().filter(&offer).await;
    serde_json::to_value(answer).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_wants_no_address_passes_and_is_not_counted() {
    let scene = Scene::start().await;
    let mut object = pod("a");
    object["spec"] = json!({ "containers": [{}] });
    let pod = scene.add(object).await;
    let answer = filter(&scene, &pod, &ALL).await;
    assert_eq!(answer, json!({ "nodes": null, "nodenames": ALL }));
    assert_eq!(scene.figure("floe_extender_seconds_count"), None);
}

#[tokio::test(start_paused = true)]
async fn each_node_has_its_reason() {
    let scene = Scene::start().await;
    let pod = scene.bare("a").await;
    for ip in ["10.0.80.2", "10.0.80.3"] {
        scene.hold(ip, "taken", "");
    }
    let answer = filter(&scene, &pod, &ALL).await;
    assert_eq!(
        answer,
        json!({
            "nodes": null,
            "nodenames": ["n1"],
            "failedNodes": {
                "n2": "FloatingIPPlugin:NoFIPLeft: no free address for what the pod asks for",
            },
            "failedAndUnresolvableNodes": {
                "n3": "FloatingIPPlugin:NoFIPConfigNode: 10.0.3.1 is in no configured node subnet",
                "n9": "FloatingIPPlugin:UnknowNode: there is no such node",
            },
        })
    );
    assert!(scene.told().is_empty(), "one node is enough");
    // Nothing of a node that comes as an object is believed.
    let body = json!({
        "Pod": { "metadata": { "namespace": "ns", "name": "a", "uid": "uid-a" } },
        "Nodes": { "items": [node("n3", "10.0.1.9"), node("n1", "10.0.9.9")] },
    });
    let body = body.to_string().into_bytes();
    let offer: Offer<'_> = parse(&body).unwrap();
    let answer = serde_json::to_value(scene.desk().filter(&offer).await).unwrap();
    let items = answer["nodes"]["items"].as_array().unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(items[0]["metadata"]["name"], "n1");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_no_node_will_do_for_waits() {
    let scene = Scene::start().await;
    let pod = scene.bare("a").await;
    let answer = filter(&scene, &pod, &["n3", "n9"]).await;
    assert_eq!(answer["nodenames"], json!([]));
    settle().await;
    assert_eq!(scene.told(), ["a Warning NodeNotConfigured"]);
    let label = "floe_refusals_total{reason=\"NodeNotConfigured\"}";
    assert_eq!(scene.figure(label).as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_whole_pod_is_said_on_every_node() {
    let scene = Scene::start().await;
    scene.deployment(1).await;
    let first = scene.web("web-2-a", 2).await;
    let second = scene.web("web-2-b", 2).await;
    let answer = filter(&scene, &first, &["n1", "n2"]).await;
    assert_eq!(answer["nodenames"], json!(["n1", "n2"]));
    assert!(scene.promised(&first));

    let text = "deployment web has allocated 1 ips with replicas of 1, wait for releasing";
    let refused = json!({
        "nodes": null, "nodenames": [],
        "failedAndUnresolvableNodes": { "n1": text, "n2": text },
    });
    for _ in 0..2 {
        assert_eq!(filter(&scene, &second, &["n1", "n2"]).await, refused);
    }
    assert!(!scene.promised(&second));
    settle().await;
    assert_eq!(scene.told(), ["web-2-b Normal WorkloadLimitReached"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_another_replica_has_bound_counts_once() {
    let scene = Scene::start().await;
    scene.deployment(2).await;
    let first = scene.web("web-2-a", 2).await;
    let second = scene.web("web-2-b", 2).await;
    filter(&scene, &first, &["n1", "n2"]).await;
    assert!(scene.promised(&first));
    // The leader of before, or this one in the moment before its own write is answered: the
    // record comes by the watch, while a place is still set aside for its pod.
    scene.hold("10.0.70.2", "dp_ns_web_web-2-a", "uid-web-2-a");
    let answer = filter(&scene, &second, &["n1", "n2"]).await;
    assert_eq!(answer["nodenames"], json!(["n1", "n2"]), "{answer}");

    // There is no room for a third one all the same.
    let third = scene.web("web-2-c", 2).await;
    let answer = filter(&scene, &third, &["n1"]).await;
    let text = "deployment web has allocated 2 ips with replicas of 2, wait for releasing";
    assert_eq!(answer["failedAndUnresolvableNodes"]["n1"], text);
}

#[tokio::test(start_paused = true)]
async fn an_older_revision_does_not_take_what_a_newer_one_waits_for() {
    let scene = Scene::start().await;
    scene.deployment(1).await;
    scene.hold("10.0.70.2", "dp_ns_web_web-1-a", "uid-web-1-a");
    let new = scene.web("web-2-x", 2).await;
    let replacement = scene.web("web-1-b", 1).await;
    for pod in [&new, &replacement] {
        let answer = filter(&scene, pod, &["n1"]).await;
        assert_eq!(answer["nodenames"], json!([]));
    }
    // The old pod goes, and its address waits for the next one.
    scene.hold("10.0.70.2", "dp_ns_web_", "");
    let answer = filter(&scene, &replacement, &["n1"]).await;
    let text = "wait for releasing: web-2-x waits for the same addresses and goes first";
    assert_eq!(answer["failedAndUnresolvableNodes"], json!({ "n1": text }));
    let answer = filter(&scene, &new, &["n1"]).await;
    assert_eq!(answer["nodenames"], json!(["n1"]));
    let answer = filter(&scene, &replacement, &["n1"]).await;
    assert_eq!(answer["nodenames"], json!([]), "it is promised");
}

#[tokio::test(start_paused = true)]
async fn what_a_pod_no_longer_needs_is_given_back_but_not_while_it_is_bound() {
    let scene = Scene::start().await;
    scene.deployment(1).await;
    let pod = scene.web("web-2-a", 2).await;
    filter(&scene, &pod, &["n1"]).await;
    assert!(scene.promised(&pod));
    let turn = scene.turns.wait("ns", "web-2-a").await;
    filter(&scene, &pod, &["n3"]).await;
    assert!(scene.promised(&pod), "it is the promise of the bind");
    drop(turn);
    filter(&scene, &pod, &["n3"]).await;
    assert!(!scene.promised(&pod));
}

#[tokio::test(start_paused = true)]
async fn only_what_may_be_over_in_a_moment_is_an_error() {
    let scene = Scene::start().await;
    let mut object = pod("bad");
    object["metadata"]["annotations"] = json!({ names::ARGS: "{" });
    let bad = scene.add(object).await;
    let answer = filter(&scene, &bad, &["n1"]).await;
    assert_eq!(answer.get("error"), None);
    let text = answer["failedAndUnresolvableNodes"]["n1"].as_str().unwrap();
    assert!(text.starts_with("unmarshal pod cni args: "), "{text}");
    settle().await;
    assert_eq!(scene.told(), ["bad Warning InvalidArgs"]);

    let gone = PodRef {
        namespace: "ns".into(),
        name: "gone".into(),
        uid: "gone".into(),
    };
    let answer = filter(&scene, &gone, &["n1"]).await;
    assert_eq!(answer.get("error"), None);
    scene.server.state().down = true;
    let answer = filter(&scene, &gone, &["n1"]).await;
    let text = answer["error"].as_str().unwrap();
    assert!(text.starts_with("cannot read pod ns_gone: "), "{text}");
    assert_eq!(answer["nodenames"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_before_everything_is_known() {
    let scene = Scene::start().await;
    let pod = scene.bare("a").await;
    let cold = Desk {
        store: Store::default(),
        ..scene.desk()
    };
    let body = question(&pod, &["n1"]);
    let offer: Offer<'_> = parse(&body).unwrap();
    let answer = serde_json::to_value(cold.filter(&offer).await).unwrap();
    let text = answer["error"].as_str().unwrap();
    assert!(
        text.starts_with("not ready yet, waiting for: FloatingIP"),
        "{text}"
    );
    assert_eq!(cold.prioritize(&offer).await, []);
}

#[tokio::test(start_paused = true)]
async fn nodes_are_scored_in_their_order_by_how_much_they_are_better_than_the_worst() {
    let scene = Scene::start().await;
    let pod = scene.bare("a").await;
    let scores = async |nodes: &[&str]| {
        let body = question(&pod, nodes);
        let offer: Offer<'_> = parse(&body).unwrap();
        let scores = scene.desk().prioritize(&offer).await;
        let scores = scores.iter().map(|it| (it.host.to_owned(), it.score));
        scores.collect::<Vec<_>>()
    };
    let named = |all: &[(&str, i64)]| {
        let all = all.iter().map(|(host, score)| ((*host).to_owned(), *score));
        all.collect::<Vec<_>>()
    };
    let all = ["n3", "n2", "n1"];
    assert_eq!(scores(&all).await, named(&[("n2", 6), ("n1", 9)]));
    assert_eq!(scores(&["n2", "n1"]).await, named(&[("n1", 3)]));
    assert_eq!(scores(&["n1"]).await, []);
    scene.hold("10.0.80.2", "NULL_ns_NULL_a", "");
    assert_eq!(scores(&all).await, named(&[("n2", 10), ("n1", 9)]));
    assert_eq!(scores(&["n2", "n1"]).await, named(&[("n2", 1)]));
}

#[tokio::test(start_paused = true)]
async fn preemption_is_kept_from_nodes_that_would_not_help() {
    let scene = Scene::start().await;
    let mut object = pod("sts-0");
    object["metadata"]["ownerReferences"] = json!([owner("apps/v1", "StatefulSet", "sts")]);
    object["metadata"]["annotations"] = json!({ names::RELEASE_POLICY: "never" });
    scene.add(object).await;
    scene.bare("a").await;
    scene.hold("10.0.80.2", "sts_ns_sts_sts-0", "");
    let ask = async |name: &str| {
        let victims = json!({ "Pods": [{ "UID": "v" }], "NumPDBViolations": 0 });
        let body = json!({
            "Pod": { "metadata": { "namespace": "ns", "name": name, "uid": format!("uid-{name}") } },
            "NodeNameToMetaVictims": { "n1": victims, "n2": victims, "n3": victims },
        });
        let body = body.to_string().into_bytes();
        let request: PreemptRequest<'_> = parse(&body).unwrap();
        let answer = scene.desk().preempt(&request).await;
        let answer = serde_json::to_value(answer).unwrap();
        let nodes = answer["NodeNameToMetaVictims"].as_object().unwrap();
        nodes.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(ask("sts-0").await, ["n2"]);
    assert_eq!(ask("a").await, ["n1", "n2", "n3"], "it keeps no address");
    assert_eq!(ask("unknown").await, ["n1", "n2", "n3"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_node_is_known_at_the_next_question() {
    let scene = Scene::start().await;
    let pod = scene.bare("a").await;
    assert_eq!(filter(&scene, &pod, &["n9"]).await["nodenames"], json!([]));
    scene.server.put(NODES, node("n9", "10.0.1.9"));
    settle().await;
    assert_eq!(
        filter(&scene, &pod, &["n9"]).await["nodenames"],
        json!(["n9"])
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_promised_before_running_pods_were_looked_at() {
    let scene = Scene::start().await;
    let pod = scene.bare("a").await;
    scene.store.change(crate::store::Books::want_round);
    let answer = filter(&scene, &pod, &ALL).await;
    let told = answer["error"].as_str().unwrap();
    assert!(
        told.starts_with("NotReady: running pods come first"),
        "{told}"
    );
    let promised = |scene: &Scene| scene.store.read(|it| it.ledger().promises().count());
    assert_eq!(promised(&scene), 0);

    let round = scene.store.read(crate::store::Books::round);
    scene.store.change(|books| books.round_over(round));
    let answer = filter(&scene, &pod, &ALL).await;
    assert_eq!(answer["nodenames"], json!(["n1", "n2"]));
}
