//! What is refused, and in which words.

use super::*;

#[tokio::test]
async fn pods_that_are_not_to_be_bound() {
    let world = World::new();
    let binder = world.binder().await;
    let mut plain = world.pod("plain", None);
    plain["spec"]["containers"][0]["resources"] = json!({});
    world.server.put(PODS, plain);
    let mut going = world.pod("going", None);
    going["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
    world.server.put(PODS, going);
    let mut done = world.pod("done", None);
    done["status"]["phase"] = json!("Succeeded");
    world.server.put(PODS, done);
    let mut bound = world.pod("bound", None);
    bound["spec"]["nodeName"] = json!("n1");
    world.server.put(PODS, bound);
    world.pod("bad", Some(r#"{"request_ip_range":[["nowhere"]]}"#));
    world.pod("late", None);

    let table = [
        (
            "plain",
            "n1",
            "AddressNotWanted",
            "pod which doesn't want floatingip have been sent to plugin",
        ),
        ("going", "n1", "PodEnding", "pod ns_going is being deleted"),
        ("done", "n1", "PodEnding", "pod ns_done has finished"),
        (
            "bound",
            "n1",
            "PodAlreadyBound",
            "pod ns_bound is already bound to node n1",
        ),
        ("nobody", "n1", "NoSuchPod", "failed to find pod ns_nobody"),
        (
            "bad",
            "n1",
            "InvalidRange",
            "unmarshal pod cni args: invalid ip range",
        ),
        (
            "late",
            "far",
            "NodeNotConfigured",
            "FloatingIPPlugin:NoFIPConfigNode",
        ),
        ("late", "bare", "UnknownNode", "FloatingIPPlugin:UnknowNode"),
        ("late", "gone", "NoSuchNode", "FloatingIPPlugin:UnknowNode"),
        (
            "late",
            "../nodes/n1",
            "NoSuchNode",
            "FloatingIPPlugin:UnknowNode",
        ),
    ];
    for (pod, node, reason, text) in table {
        let error = binder.bind(&request(pod, node)).await.unwrap_err();
        assert!(error.to_string().starts_with(text), "{pod}: {error}");
        assert_eq!(error.reason(), reason, "{pod}");
    }
    let calls = world.server.state().calls.join("\n");
    assert!(!calls.contains(".."), "{calls}");
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn another_pod_of_the_name_is_not_bound() {
    let world = World::new();
    let binder = world.binder().await;
    let mut pod = world.pod("a", None);
    pod["metadata"]["uid"] = json!("uid-new");
    world.server.put(PODS, pod);
    let error = binder.bind(&request("a", "n1")).await.unwrap_err();
    assert!(
        error.to_string().starts_with("failed to find pod ns_a"),
        "{error}"
    );
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn the_old_pod_must_be_gone_first() {
    let world = World::new();
    let binder = world.binder().await;
    world.pod("a", None);
    world.record("10.0.70.7", "NULL_ns_NULL_a", "n1", "uid-old");
    world
        .until(|| binder.store.read(|it| it.ledger().records().count() == 1))
        .await;
    let error = binder.bind(&request("a", "n1")).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("waiting for delete event of NULL_ns_NULL_a"),
        "{error}"
    );
    assert_eq!(error.reason(), "OldPodNotGone");
    assert_eq!(world.writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_too_long_does_nothing_later() {
    let world = World::new();
    let binder = world.binder().await;
    world.pod("a", None);
    let turn = binder.turns.wait("ns", "a").await;
    let error = binder.bind(&request("a", "n1")).await.unwrap_err();
    assert_eq!(error.reason(), "BindTimeout");
    drop(turn);
    let _turn = binder.turns.wait("ns", "a").await;
    assert_eq!(world.writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_records_costs_nothing() {
    let world = World::new();
    let binder = world.binder().await;
    world.pod("a", None);
    world.server.always(Method::POST, FIPS, Fault::Refuse(403));
    let error = binder.bind(&request("a", "n1")).await.unwrap_err();
    assert_eq!(error.reason(), "RecordWriteRefused");
    assert_eq!(binder.store.read(|it| it.ledger().promises().count()), 0);
    world.server.heal();
    binder.bind(&request("a", "n1")).await.unwrap();
}

#[tokio::test]
async fn what_was_promised_to_a_pod_that_is_refused_is_there_for_others() {
    let world = World::new();
    let binder = world.binder().await;
    world.pod("a", None);
    let promise = floe_core::ipam::ledger::Promise {
        group: "dp_ns_web_".into(),
        namespace: "ns".into(),
        app_prefix: "dp_ns_web_".into(),
        places: 1,
        addresses: ["10.0.70.2".parse().unwrap()].into(),
        until: jiff::Timestamp::MAX,
    };
    binder
        .store
        .change(|books| books.promise("uid-a", Some(promise)));
    binder.bind(&request("a", "far")).await.unwrap_err();
    let promised = |books: &crate::store::Books| books.ledger().promise_to("uid-a").is_some();
    assert!(!binder.store.read(promised));
    assert!(binder.waiting.had_room());
    binder.bind(&request("a", "far")).await.unwrap_err();
    assert!(!binder.waiting.had_room(), "nothing was promised");
}
