use floe_core::ipam::choice::Choice;
use floe_shell::{mock::Server, stop};
use jiff::Timestamp;

use super::*;
use crate::{cluster::Phase, events};

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/ns/events";

fn pod(version: &str) -> Pod {
    Pod {
        namespace: "ns".into(),
        name: "web-1".into(),
        uid: "uid-1".into(),
        version: version.into(),
        created: Timestamp::UNIX_EPOCH,
        terminating: false,
        owners: Vec::new(),
        wants_address: true,
        release_policy: None,
        pool: None,
        args: None,
        families: None,
        node: None,
        phase: Phase::Pending,
        phase_text: "Pending",
        addresses: Vec::new(),
        gate: None,
        needs: None,
        unschedulable: false,
        assigned: None,
        ready_since: None,
    }
}

/// What people read of all that was told, by when it was told.
async fn told(tell: impl FnOnce(&Reporter)) -> Vec<String> {
    let server = Server::default();
    let (events, inbox) = events::channel();
    let (stopper, stop) = stop::channel();
    let task = tokio::spawn(inbox.write(server.client(), "pod".into(), stop));
    tell(&Reporter::new(events, Metrics::default()));
    tokio::time::sleep(std::time::Duration::from_mins(2)).await;
    stopper.stop();
    task.await.unwrap();
    let mut all = server.objects(EVENTS);
    all.sort_by_key(|event| event["eventTime"].as_str().map(ToOwned::to_owned));
    let text = |event: &serde_json::Value, name: &str| event[name].as_str().unwrap().to_owned();
    all.iter()
        .map(|event| {
            assert_eq!(event["regarding"]["uid"], "uid-1");
            let parts = ["type", "reason", "note"].map(|name| text(event, name));
            parts.join(" ")
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn waiting_is_told_once_until_it_changes() {
    let all = told(|reporter| {
        let pod = pod("7");
        reporter.waits(&pod, "WorkloadLimitReached", &"3 of 3");
        reporter.waits(&pod, "WorkloadLimitReached", &"3 of 3");
        reporter.waits(&pod, "YieldsToNewerRevision", &"b goes first");
        reporter.waits(&pod, "YieldsToNewerRevision", &"c goes first");
        // The same reason again, and the pod has not changed: visible all the same.
        reporter.waits(&pod, "WorkloadLimitReached", &"3 of 3");
        reporter.waits(&pod, "InvalidArgs", &"nonsense");
    });
    assert_eq!(
        all.await,
        [
            "Normal WorkloadLimitReached 3 of 3",
            "Normal YieldsToNewerRevision b goes first",
            "Normal YieldsToNewerRevision c goes first",
            "Normal WorkloadLimitReached 3 of 3",
            "Warning InvalidArgs nonsense",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn new_and_reused_addresses_are_told_apart() {
    let ip = |last: u8| IpAddr::from([10, 0, 0, last]);
    let all = told(|reporter| {
        let choices = [
            Choice::Own(ip(1)),
            Choice::New(ip(2)),
            Choice::Spare(ip(3)),
            Choice::New(ip(4)),
        ];
        reporter.bound(&pod("7"), "n1", &choices);
        reporter.adopted(&pod("7"), ip(5));
    });
    assert_eq!(
        all.await,
        [
            "Normal AddressAllocated allocated 10.0.0.2, 10.0.0.4 on node n1",
            "Normal AddressReused reused 10.0.0.1, 10.0.0.3 on node n1",
            "Normal AddressAdopted runs with 10.0.0.5, which is its own now",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_warning_is_told_whenever_the_caller_says() {
    let all = told(|reporter| {
        reporter.warns(&pod("7"), "NodeNotReady", &"do something");
        reporter.warns(&pod("7"), "NodeNotReady", &"do something");
    });
    assert_eq!(all.await, ["Warning NodeNotReady do something"; 2]);
}

#[tokio::test(start_paused = true)]
async fn what_is_forgotten_and_told_again_is_there_once() {
    let all = told(|reporter| {
        reporter.waits(&pod("7"), "NoAddressLeft", &"none");
        reporter.forget("uid-1");
        // As after a restart: the API server has it already.
        reporter.waits(&pod("7"), "NoAddressLeft", &"none");
        assert_eq!(reporter.told.lock().unwrap().len(), 1);
    });
    assert_eq!(all.await, ["Warning NoAddressLeft none"]);
}

#[tokio::test(start_paused = true)]
async fn two_hundred_pods_at_once_lose_no_event() {
    let server = Server::default();
    let (events, inbox) = events::channel();
    let (stopper, stop) = stop::channel();
    let task = tokio::spawn(inbox.write(server.client(), "pod".into(), stop));
    let reporter = Reporter::new(events, Metrics::default());
    for number in 0..200_u8 {
        let mut pod = pod("7");
        pod.name = format!("web-{number}");
        pod.uid = format!("uid-{number}");
        reporter.waits(&pod, "WorkloadLimitReached", &"full");
        let ip = IpAddr::from([10, 0, 0, number]);
        reporter.bound(&pod, "n1", &[Choice::New(ip)]);
    }
    tokio::time::sleep(std::time::Duration::from_mins(2)).await;
    stopper.stop();
    task.await.unwrap();
    assert_eq!(server.objects(EVENTS).len(), 400);
}
