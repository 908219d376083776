//! Answers that are lost, and processes that end in the middle.

use futures::poll;

use super::*;

const RANGES: &str = r#"{"request_ip_range":[["10.0.70.9"],["10.0.70.4"],["10.0.70.6"]]}"#;

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_no_lost_address() {
    let table = [
        (FIPS, Fault::Lose),
        (FIPS, Fault::Swallow),
        (BINDINGS, Fault::Lose),
        (BINDINGS, Fault::Swallow),
        (BINDINGS, Fault::Break),
        (BINDINGS, Fault::Hang),
        (BINDINGS, Fault::Refuse(500)),
        (BINDINGS, Fault::Refuse(429)),
    ];
    for (path, fault) in table {
        let world = World::new();
        let binder = world.binder().await;
        world.pod("a", None);
        world.server.fault(Method::POST, path, fault);
        binder.bind(&request("a", "n1")).await.unwrap();
        assert_eq!(world.held("uid-a"), ["10.0.70.2"]);
        let pod = world.server.object(PODS, "a").unwrap();
        assert_eq!(addresses(&pod), ["10.0.70.2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_bound_keeps_what_it_got() {
    for fault in [Fault::Break, Fault::Refuse(403), Fault::Refuse(503)] {
        let world = World::new();
        let binder = world.binder().await;
        world.pod("a", None);
        world.server.always(Method::POST, BINDINGS, fault);
        let error = binder.bind(&request("a", "n1")).await.unwrap_err();
        assert_eq!(error.reason(), "BindingFailed");
        let text = error.to_string();
        assert!(text.starts_with("update pod NULL_ns_NULL_a: "), "{text}");
        assert_eq!(world.held("uid-a"), ["10.0.70.2"]);

        // The scheduler tries again, on another node.
        world.server.heal();
        binder.bind(&request("a", "n2")).await.unwrap();
        assert_eq!(world.held("uid-a"), ["10.0.70.2"]);
        let record = world.server.object(FIPS, "10.0.70.2").unwrap();
        assert_eq!(
            record["spec"]["attribute"],
            r#"{"NodeName":"n2","Uid":"uid-a"}"#
        );
    }
}

#[tokio::test]
async fn a_pod_that_goes_meanwhile_leaves_a_record_with_its_uid() {
    let world = World::new();
    let binder = world.binder().await;
    world.pod("a", None);
    let act = |state: &mut State| state.remove_named(PODS, "a");
    world
        .server
        .fault(Method::POST, BINDINGS, Fault::Before(Box::new(act)));
    let error = binder.bind(&request("a", "n1")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "update pod NULL_ns_NULL_a: the pod is gone"
    );
    assert_eq!(
        world.held("uid-a"),
        ["10.0.70.2"],
        "for the one who reclaims"
    );
}

/// The process ends after each of its writes, before it gets the answer.
#[tokio::test]
async fn the_next_process_goes_on_where_the_last_one_ended() {
    for crash in 0..=4 {
        let world = World::new();
        world.pod("a", Some(RANGES));
        let first = world.binder().await;
        for _ in 0..crash.min(3) {
            let nothing = Fault::Before(Box::new(|_: &mut State| ()));
            world.server.fault(Method::POST, FIPS, nothing);
        }
        let (path, fault) = match crash {
            0..=2 => (FIPS, Fault::Swallow),
            3 => (BINDINGS, Fault::Hang),
            _ => (BINDINGS, Fault::Swallow),
        };
        world.server.fault(Method::POST, path, fault);
        let asked = request("a", "n1");
        {
            let deadline = Instant::now() + DEADLINE;
            let work = first.work(&asked, deadline, oneshot::channel().0);
            let mut work = std::pin::pin!(work);
            while world.writes() < (crash + 1).min(4) {
                assert!(poll!(work.as_mut()).is_pending());
                tokio::task::yield_now().await;
            }
        }
        let written = world.held("uid-a").len();
        assert_eq!(written, (crash + 1).min(3), "crash {crash}");

        let second = world.binder().await;
        second.bind(&asked).await.unwrap();
        assert_eq!(world.held("uid-a"), ["10.0.70.4", "10.0.70.6", "10.0.70.9"]);
        assert_eq!(world.server.objects(FIPS).len(), 3);
        let pod = world.server.object(PODS, "a").unwrap();
        assert_eq!(addresses(&pod), ["10.0.70.9", "10.0.70.4", "10.0.70.6"]);
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_cuts_nothing_off() {
    let world = World::new();
    let binder = world.binder().await;
    world.pod("a", None);
    let asked = request("a", "n1");
    {
        let mut call = std::pin::pin!(binder.bind(&asked));
        while world.writes() == 0 {
            assert!(poll!(call.as_mut()).is_pending());
            tokio::task::yield_now().await;
        }
    }
    let bound = || world.server.object(PODS, "a").unwrap()["spec"]["nodeName"] == "n1";
    world.until(bound).await;
}

#[tokio::test]
async fn who_loses_the_pod_keeps_no_address_of_it() {
    let world = World::new();
    let (binder, cloud) = world.binder_in_cloud().await;
    world.pod("a", None);
    // Another process has bound it to another node, with another address.
    let act = |state: &mut State| {
        let mut pod = state.list_of(PODS).remove(0);
        let args =
            r#"{"common":{"ipinfos":[{"ip":"10.0.70.8/24","vlan":2,"gateway":"10.0.70.1"}]}}"#;
        pod["spec"]["nodeName"] = json!("n2");
        pod["metadata"]["annotations"][names::ARGS] = json!(args);
        state.put(PODS, pod);
    };
    world
        .server
        .fault(Method::POST, BINDINGS, Fault::Before(Box::new(act)));
    let error = binder.bind(&request("a", "n1")).await.unwrap_err();
    assert_eq!(error.reason(), "PodAlreadyBound");
    assert_eq!(world.held("uid-a"), Vec::<String>::new());
    assert_eq!(
        cloud.calls(),
        ["assign 10.0.70.2 n1", "unassign 10.0.70.2 n1"]
    );
}

#[tokio::test]
async fn who_loses_the_pod_corrects_the_node_that_it_wrote() {
    let world = World::new();
    let (binder, cloud) = world.binder_in_cloud().await;
    world.pod("a", None);
    // The same address on another node.
    let act = |state: &mut State| {
        let mut pod = state.list_of(PODS).remove(0);
        let args =
            r#"{"common":{"ipinfos":[{"ip":"10.0.70.2/24","vlan":2,"gateway":"10.0.70.1"}]}}"#;
        pod["spec"]["nodeName"] = json!("n2");
        pod["metadata"]["annotations"][names::ARGS] = json!(args);
        state.put(PODS, pod);
    };
    world
        .server
        .fault(Method::POST, BINDINGS, Fault::Before(Box::new(act)));
    binder.bind(&request("a", "n1")).await.unwrap_err();
    let record = world.server.object(FIPS, "10.0.70.2").unwrap();
    assert_eq!(
        record["spec"]["attribute"],
        r#"{"NodeName":"n2","Uid":"uid-a"}"#
    );
    assert_eq!(
        cloud.calls(),
        ["assign 10.0.70.2 n1", "assign 10.0.70.2 n2"]
    );
}

#[tokio::test(start_paused = true)]
async fn record_and_pod_tell_the_same_network_also_after_a_change_of_the_configuration() {
    let world = World::new();
    let binder = world.binder().await;
    world.pod("a", None);
    world
        .server
        .always(Method::POST, BINDINGS, Fault::Refuse(403));
    binder.bind(&request("a", "n1")).await.unwrap_err();
    world.server.heal();
    let text = json!([{ "nodeSubnets": ["10.0.0.0/16"], "ips": [world.addresses],
        "subnet": "10.0.70.0/24", "gateway": "10.0.70.1", "vlan": 9 }]);
    let Loaded { config, .. } = AddressConfig::parse(&text.to_string(), Mode::Strict).unwrap();
    binder.store.change(|books| books.configure(config));
    binder.bind(&request("a", "n1")).await.unwrap();
    let network = r#"{"ip":"10.0.70.2/24","vlan":9,"gateway":"10.0.70.1"}"#;
    let pod = world.server.object(PODS, "a").unwrap();
    let args = pod["metadata"]["annotations"][names::ARGS]
        .as_str()
        .unwrap();
    assert!(args.contains(network), "{args}");
    let record = world.server.object(FIPS, "10.0.70.2").unwrap();
    let told = record["metadata"]["annotations"]["floe.dev/network"].as_str();
    assert!(told.unwrap().starts_with(network.trim_end_matches('}')));
}
