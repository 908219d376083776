use axum::http::Method;
use floe_core::{
    config::{AddressConfig, Loaded, Mode},
    ipam::names,
};
use floe_shell::mock::{Fault, State};
use serde_json::{Value, json};
use tokio::sync::watch;

use self::world::{BINDINGS, FIPS, PODS, World, addresses, request};
use super::*;

mod errors;
mod losses;
mod nodes;
mod race;
mod world;

#[tokio::test]
async fn a_pod_gets_an_address_and_its_node() {
    let world = World::new();
    let binder = world.binder().await;
    world.pod("a", Some(r#"{"other":{"x":[1]}}"#));
    binder.bind(&request("a", "n1")).await.unwrap();

    let record = world.server.object(FIPS, "10.0.70.2").unwrap();
    assert_eq!(world.server.objects(FIPS).len(), 1);
    assert_eq!(
        record["spec"]["attribute"],
        r#"{"NodeName":"n1","Uid":"uid-a"}"#
    );
    let pod = world.server.object(PODS, "a").unwrap();
    assert_eq!(pod["spec"]["nodeName"], "n1");
    let args = r#"{"common":{"ipinfos":[{"ip":"10.0.70.2/24","vlan":2,"gateway":"10.0.70.1"}]},"other":{"x":[1]}}"#;
    assert_eq!(pod["metadata"]["annotations"][names::ARGS], args);
    // Where whoever can edit the pod cannot write.
    assert_eq!(
        record["metadata"]["annotations"]["floe.dev/network"],
        r#"{"ip":"10.0.70.2/24","vlan":2,"gateway":"10.0.70.1","uid":"uid-a"}"#
    );
    let promise = binder.store.read(|it| it.ledger().promises().count());
    assert_eq!(promise, 0, "nothing is set aside any more");

    // The same once more is done already; elsewhere it is an error.
    let calls = world.writes();
    binder.bind(&request("a", "n1")).await.unwrap();
    let error = binder.bind(&request("a", "n2")).await.unwrap_err();
    assert_eq!(error.reason(), "PodAlreadyBound");
    assert_eq!(world.writes(), calls);
}

#[tokio::test]
async fn three_ranges_are_filled_in_their_order_or_not_at_all() {
    let args = r#"{"request_ip_range":[["10.0.70.9"],["10.0.70.4"],["10.0.70.6"]]}"#;
    let world = World::new();
    let binder = world.binder().await;
    world.pod("a", Some(args));
    // Somebody else takes the last one just before it is written.
    world.meanwhile(2, "10.0.70.6");
    let error = binder.bind(&request("a", "n1")).await.unwrap_err();
    assert_eq!(error.to_string(), "no enough available ips left");
    assert_eq!(world.held("uid-a"), Vec::<String>::new());
    assert_eq!(world.server.objects(FIPS).len(), 1, "only the foreign one");
    let promise = binder.store.read(|it| it.ledger().promises().count());
    assert_eq!(promise, 0);

    world.server.delete(FIPS, "10.0.70.6");
    world
        .until(|| {
            binder
                .store
                .read(|it| it.ledger().is_free("10.0.70.6".parse().unwrap()))
        })
        .await;
    binder.bind(&request("a", "n1")).await.unwrap();
    assert_eq!(world.held("uid-a"), ["10.0.70.4", "10.0.70.6", "10.0.70.9"]);
    let pod = world.server.object(PODS, "a").unwrap();
    assert_eq!(addresses(&pod), ["10.0.70.9", "10.0.70.4", "10.0.70.6"]);
}

#[tokio::test]
async fn who_loses_an_address_gets_another_one() {
    let world = World::new();
    let binder = world.binder().await;
    world.pod("a", None);
    world.meanwhile(0, "10.0.70.2");
    binder.bind(&request("a", "n1")).await.unwrap();
    assert_eq!(world.held("uid-a"), ["10.0.70.3"]);
    let pod = world.server.object(PODS, "a").unwrap();
    assert_eq!(addresses(&pod), ["10.0.70.3"]);
}

#[tokio::test]
async fn somebody_else_takes_the_pods_own_record_away() {
    let world = World::new();
    let binder = world.binder().await;
    world.pod("a", None);
    // Kept for the pod, and freed by an administrator just before the bind writes.
    world.record("10.0.70.7", "NULL_ns_NULL_a", "", "");
    let own = || {
        binder
            .store
            .read(|it| it.ledger().record("10.0.70.7".parse().unwrap()).is_some())
    };
    world.until(own).await;
    let act = |state: &mut State| {
        state.remove_named(FIPS, "10.0.70.7");
    };
    world
        .server
        .fault(Method::PATCH, FIPS, Fault::Before(Box::new(act)));
    binder.bind(&request("a", "n1")).await.unwrap();
    assert_eq!(world.held("uid-a").len(), 1);
    let pod = world.server.object(PODS, "a").unwrap();
    assert_eq!(addresses(&pod), world.held("uid-a"));
}

#[tokio::test]
async fn what_a_pod_does_not_need_is_given_back() {
    let world = World::new();
    let (binder, cloud) = world.binder_in_cloud().await;
    world.pod("a", Some(r#"{"request_ip_range":[["10.0.70.7"]]}"#));
    world.record("10.0.70.7", "NULL_ns_NULL_a", "n2", "uid-a");
    world.record("10.0.70.8", "NULL_ns_NULL_a", "n2", "uid-a");
    world
        .until(|| binder.store.read(|it| it.ledger().records().count() == 2))
        .await;
    binder.bind(&request("a", "n1")).await.unwrap();
    world.until(|| world.server.objects(FIPS).len() == 1).await;
    assert_eq!(world.held("uid-a"), ["10.0.70.7"]);
    let record = world.server.object(FIPS, "10.0.70.7").unwrap();
    assert_eq!(
        record["spec"]["attribute"],
        r#"{"NodeName":"n1","Uid":"uid-a"}"#
    );
    let want = [
        "unassign 10.0.70.7 n2",
        "assign 10.0.70.7 n1",
        "unassign 10.0.70.8 n2",
    ];
    assert_eq!(cloud.calls(), want);
}

#[tokio::test]
async fn without_the_cloud_there_is_no_binding() {
    let world = World::new();
    let (binder, cloud) = world.binder_in_cloud().await;
    world.pod("a", None);
    cloud.refuse(true);
    let error = binder.bind(&request("a", "n1")).await.unwrap_err();
    assert_eq!(error.reason(), "ProviderRefused");
    assert_eq!(world.server.count(&Method::POST, BINDINGS), 0);
    assert_eq!(world.held("uid-a"), ["10.0.70.2"], "for the next try");
    cloud.refuse(false);
    binder.bind(&request("a", "n1")).await.unwrap();
    assert_eq!(world.held("uid-a"), ["10.0.70.2"]);
}

#[tokio::test]
async fn nothing_is_taken_before_running_pods_were_looked_at() {
    let world = World::new();
    let binder = world.binder().await;
    world.pod("a", None);
    binder.store.change(crate::store::Books::want_round);
    let error = binder.bind(&request("a", "n1")).await.unwrap_err();
    assert_eq!(error.reason(), "NotReady");
    assert_eq!(world.writes(), 0);

    let round = binder.store.read(crate::store::Books::round);
    binder.store.change(|books| books.round_over(round));
    binder.bind(&request("a", "n1")).await.unwrap();
    assert_eq!(world.held("uid-a"), ["10.0.70.2"]);
}
