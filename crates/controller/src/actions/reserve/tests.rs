use axum::http::Method;
use floe_core::ipam::reservation;
use floe_shell::mock::{Fault, State};
use serde_json::json;

use super::*;
use crate::reclaim::scene::{FIPS, Scene, fip};

const IP: &str = "10.0.70.2";

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|ip| ip.parse().unwrap()).collect()
}

async fn reserve(scene: &Scene, texts: &[&str], dry_run: bool) -> Vec<&'static str> {
    let key = reservation::key(Some("node")).unwrap();
    let results = scene.actions().reserve(&ips(texts), &key, dry_run).await;
    let reason = |it: &Result<Reserved, ReserveError>| match it {
        Ok(done) => done.reason(),
        Err(error) => error.reason(),
    };
    results.iter().map(reason).collect()
}

async fn unreserve(scene: &Scene, texts: &[&str], dry_run: bool) -> Vec<&'static str> {
    let results = scene.actions().unreserve(&ips(texts), dry_run).await;
    let reason = |it: &Result<Unreserved, UnreserveError>| match it {
        Ok(done) => done.reason(),
        Err(error) => error.reason(),
    };
    results.iter().map(reason).collect()
}

#[tokio::test(start_paused = true)]
async fn free_addresses_are_reserved_as_galaxy_documents_it_and_given_back() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip("10.0.70.3", "sts_ns_a_a-0", 2, ""));
    })
    .await;
    let asked = [IP, "10.0.70.3", "192.0.2.1"];
    let wanted = ["Reserved", "HeldByAnother", "NotConfigured"];
    assert_eq!(reserve(&scene, &asked, true).await, wanted);
    assert!(scene.server.object(FIPS, IP).is_none(), "a dry run");
    assert_eq!(reserve(&scene, &asked, false).await, wanted);

    let object = scene.server.object(FIPS, IP).unwrap();
    assert!(object["metadata"]["labels"]["reserved"].is_string());
    assert_eq!(
        object["metadata"]["annotations"]["floe.dev/state"],
        "Reserved"
    );
    assert_eq!(object["spec"]["key"], "pool__reserved-for-node_");
    assert_eq!(object["spec"]["policy"], 2);
    assert_eq!(object["spec"]["attribute"], r#"{"NodeName":"","Uid":""}"#);
    assert!(scene.known(IP).unwrap().reserved);
    assert_eq!(reserve(&scene, &[IP], false).await, ["AlreadyReserved"]);

    let asked = [IP, "10.0.70.3", "10.0.70.4"];
    let wanted = ["Unreserved", "NotReserved", "AlreadyFree"];
    assert_eq!(unreserve(&scene, &asked, true).await, wanted);
    assert!(scene.server.object(FIPS, IP).is_some(), "a dry run");
    assert_eq!(unreserve(&scene, &asked, false).await, wanted);
    assert!(scene.server.object(FIPS, IP).is_none());
    assert_eq!(scene.held("10.0.70.3"), "sts_ns_a_a-0");
}

#[tokio::test(start_paused = true)]
async fn records_of_pods_and_unreadable_ones_are_no_reservations() {
    let scene = Scene::start(|server| {
        let labels = json!({ "reserved": "" });
        let mut of_pod = fip(IP, "sts_ns_a_a-0", 2, "");
        of_pod["metadata"]["labels"] = labels.clone();
        let mut bound = fip("10.0.70.3", "pool__p_", 2, "u");
        bound["metadata"]["labels"] = labels.clone();
        let mut unreadable = fip("10.0.70.4", "pool__p_", 2, "");
        unreadable["metadata"]["labels"] = labels;
        unreadable["spec"]["key"] = json!([]);
        for object in [of_pod, bound, unreadable] {
            server.put(FIPS, object);
        }
    })
    .await;
    let asked = [IP, "10.0.70.3", "10.0.70.4"];
    let wanted = ["HeldByPod", "HeldByPod", "UnreadableRecord"];
    assert_eq!(unreserve(&scene, &asked, false).await, wanted);
    assert_eq!(scene.server.objects(FIPS).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn who_is_faster_has_the_address() {
    let scene = Scene::start(|_| ()).await;
    let faster = |state: &mut State| {
        state.put(FIPS, fip(IP, "NULL_ns_NULL_p", 0, "u"));
    };
    let fault = Fault::Before(Box::new(faster));
    scene.server.fault(Method::POST, "floatingips", fault);
    assert_eq!(reserve(&scene, &[IP], false).await, ["RecordConflict"]);
    assert_eq!(scene.held(IP), "NULL_ns_NULL_p u");
    // A lost answer does not make it fail, nor does it hide what was written.
    scene.server.fault(Method::POST, "floatingips", Fault::Lose);
    assert_eq!(reserve(&scene, &["10.0.70.3"], false).await, ["Reserved"]);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_a_pod_runs_with_is_not_reserved_although_it_has_no_record() {
    let scene = Scene::start(|_| ()).await;
    let running = ips(&[IP]);
    scene.store.change(|books| books.runs_with("u", &running));
    assert_eq!(reserve(&scene, &[IP], true).await, ["PodRuns"]);
    assert_eq!(reserve(&scene, &[IP], false).await, ["PodRuns"]);
    assert!(scene.server.objects(FIPS).is_empty());
}
