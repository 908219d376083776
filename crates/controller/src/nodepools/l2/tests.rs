use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{super::scene::*, *};

const VIPS: &str = "/apis/floe.dev/v1alpha1/namespaces/ns/virtualips";
const OBJECT: &str = "l2-192.168.1.1";

/// Nodes n1, which has no server, and n2, and a pool with one address.
fn scene() -> Scene {
    let scene = Scene::new();
    let mut bare = node("n1", "True");
    bare["spec"]["providerID"] = "".into();
    scene.server.put(NODES, bare);
    scene.server.put(NODES, node("n2", "True"));
    scene.server.put(POOLS, pool(&[A]));
    scene
}

fn pool(ips: &[&str]) -> Value {
    let mut pool = pool_with(
        "p",
        json!({ "provider": "l2", "ips": ips, "desiredIPs": 0 }),
    );
    pool["metadata"]["uid"] = "p-1".into();
    pool
}

fn nodes(scene: &Scene) -> Value {
    let object = scene.server.object(VIPS, OBJECT).unwrap_or_default();
    object["spec"]["nodes"].clone()
}

/// What agents and the steward of shared addresses would write.
fn tell(scene: &Scene, status: &Value) {
    let mut object = scene.server.object(VIPS, OBJECT).unwrap();
    object["status"] = status.clone();
    scene.server.put(VIPS, object);
}

fn held_by(node: &str) -> Value {
    json!({ "holder": {
        "pod": format!("node/{node}"), "uid": format!("node/{node}"), "node": node,
        "nodeAddress": "10.0.0.1", "addresses": ["10.0.0.1"], "mode": "node", "term": 1,
    } })
}

#[tokio::test(start_paused = true)]
async fn an_address_is_an_object_that_names_the_node_first_and_then_the_others() {
    let mut scene = scene();
    scene.start();
    scene.until(|it| nodes(it) == json!(["n1", "n2"])).await;
    let object = scene.server.object(VIPS, OBJECT).unwrap();
    assert_eq!(object["spec"]["addresses"], json!([A]));
    assert_eq!(object["metadata"]["labels"]["floe.dev/pool"], "p");
    let owner = &object["metadata"]["ownerReferences"][0];
    assert_eq!(
        (text(&owner["kind"]), text(&owner["uid"])),
        ("FloatingIPPool".to_owned(), "p-1".to_owned())
    );
    // It is not there before its agent says so.
    pass(10).await;
    assert_eq!(scene.ip("p", A), "in-progress n1");
    tell(&scene, &held_by("n1"));
    scene.until(|it| it.ip("p", A) == "active n1").await;

    scene.server.put(NODES, node("n1", "False"));
    scene.until(|it| nodes(it) == json!(["n2", "n1"])).await;
    tell(&scene, &held_by("n2"));
    scene.until(|it| it.ip("p", A) == "active n2").await;

    // A new node may be named next.
    scene.server.put(NODES, node("n3", "True"));
    scene
        .until(|it| nodes(it) == json!(["n2", "n1", "n3"]))
        .await;
    // One that is gone may not; nobody looks sooner than after a minute.
    scene.server.delete(NODES, "n1");
    pass(60).await;
    scene.until(|it| nodes(it) == json!(["n2", "n3"])).await;
    // What the pool lists no more ends.
    scene.server.put(POOLS, pool(&[B]));
    scene
        .until(|it| it.server.object(VIPS, OBJECT).is_none())
        .await;
}

#[tokio::test(start_paused = true)]
async fn why_an_address_is_not_granted_is_told_by_the_pool() {
    let mut scene = scene();
    scene.start();
    scene.until(|it| nodes(it) == json!(["n1", "n2"])).await;
    let words = "192.168.1.1 is in no range";
    tell(
        &scene,
        &json!({ "conditions": [{
            "type": "Accepted", "status": "False", "reason": "AddressNotShared",
            "message": words, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }] }),
    );
    scene
        .until(|it| text(&it.status("p")["ips"][A]["error"]).contains(words))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_wants_too_much_keeps_what_it_has() {
    let mut scene = scene();
    scene.start();
    scene.until(|it| nodes(it) == json!(["n1", "n2"])).await;
    tell(&scene, &held_by("n1"));
    scene.until(|it| it.ip("p", A) == "active n1").await;
    let rule = json!({ "provider": "l2", "ips": [B], "desiredIPs": 0 });
    let mut other = pool_with("q", rule);
    other["metadata"]["uid"] = "q-1".into();
    other["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
    scene.server.put(POOLS, other);
    scene.until(|it| it.server.objects(VIPS).len() == 2).await;
    scene.server.put(POOLS, pool(&[A, B]));
    scene.until(|it| !it.error("p").is_empty()).await;
    // The other pool looks at all objects once a minute.
    pass(300).await;
    assert_eq!(nodes(&scene), json!(["n1", "n2"]));
}

#[tokio::test(start_paused = true)]
async fn what_others_have_made_is_neither_changed_nor_ended() {
    let mut scene = scene();
    let made = |name: &str| {
        json!({
            "metadata": { "name": name, "namespace": "ns", "labels": { "floe.dev/pool": "p" } },
            "spec": { "addresses": [A], "selector": { "matchLabels": { "app": "web" } } },
        })
    };
    scene.server.put(VIPS, made(OBJECT));
    scene.server.put(VIPS, made("l2-172.16.2.2"));
    scene.start();
    let words = "VirtualIP ns/l2-192.168.1.1 is not of this pool";
    scene
        .until(|it| text(&it.status("p")["ips"][A]["error"]).contains(words))
        .await;
    pass(300).await;
    assert_eq!(scene.server.objects(VIPS).len(), 2);
    assert_eq!(nodes(&scene), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn an_address_whose_agent_is_silent_moves_though_its_node_is_well() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let lease = |renewed: Timestamp| {
        json!({
            "metadata": {
                "name": "floe-vip-n1", "namespace": "kube-system",
                "labels": { "floe.dev/vip-lease": "true" },
            },
            "spec": { "renewTime": renewed.to_string() },
        })
    };
    let mut scene = scene();
    // The clock of that node is wrong, which is nobody's business.
    let mut renewed = Timestamp::now() - SignedDuration::from_hours(1);
    scene.server.put(LEASES, lease(renewed));
    scene.start();
    scene.until(|it| nodes(it) == json!(["n1", "n2"])).await;
    tell(&scene, &held_by("n1"));
    scene.until(|it| it.ip("p", A) == "active n1").await;
    for _ in 0..30 {
        pass(10).await;
        renewed += SignedDuration::from_secs(10);
        scene.server.put(LEASES, lease(renewed));
    }
    assert_eq!(nodes(&scene), json!(["n1", "n2"]));
    // Its agent is stopped, which the second look of the pool finds.
    for _ in 0..13 {
        if nodes(&scene) == json!(["n1", "n2"]) {
            pass(10).await;
        }
    }
    scene.until(|it| nodes(it) == json!(["n2", "n1"])).await;
    tell(&scene, &held_by("n2"));
    scene.until(|it| it.ip("p", A) == "active n2").await;
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|&it| it.to_owned()).collect()
}

#[test]
fn an_order_is_done_when_its_node_has_the_address_and_fails_when_it_takes_too_long() {
    let begun = Timestamp::from_second(1_000).unwrap();
    let later = |seconds| begun + SignedDuration::from_secs(seconds);
    let order = Order::parse(&Order::to("b", begun).text()).unwrap();
    let named = names(&["b", "a"]);
    let look = |holder, after| order.progress(&named, holder, None, later(after));
    assert_eq!(look(Some("a"), 29), Progress::Pending);
    assert_eq!(look(Some("b"), 99), Progress::Done);
    assert!(matches!(look(Some("a"), 30), Progress::Failed(why) if why.contains("node b")));
    assert!(matches!(look(None, 30), Progress::Failed(_)));
    let other = order.progress(&names(&["a"]), Some("b"), None, begun);
    assert!(matches!(other, Progress::Failed(why) if why.contains("another order")));
    let refused = order.progress(&named, None, Some("not granted"), begun);
    assert_eq!(refused, Progress::Failed("not granted".into()));

    let away = Order::parse(&Order::away(begun).text()).unwrap();
    let look = |holder, after| away.progress(&[], holder, None, later(after));
    assert_eq!(look(None, 0), Progress::Done);
    assert_eq!(look(Some("a"), 29), Progress::Pending);
    assert!(matches!(look(Some("a"), 30), Progress::Failed(why) if why.contains("node a")));
    assert_eq!(Order::parse("nonsense"), None);
}
