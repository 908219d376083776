use axum::http::Method;
use floe_shell::mock::Fault;
use serde_json::json;

use crate::{
    claims::scene::{PODS, owner},
    leader::Standing,
    reclaim::scene::{FIPS, Scene, fip, numbered, pass, running, until},
    store::Books,
};

const IP: &str = "10.0.70.2";

fn start(scene: &Scene) {
    tokio::spawn(scene.adopter().run(scene.stop.clone()));
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_without_record_gets_it() {
    let scene = Scene::start(|server| {
        server.put(PODS, running("p", "u", IP));
    })
    .await;
    start(&scene);
    scene.until_held(IP, "NULL_ns_NULL_p u").await;
    assert_eq!(scene.known(IP).unwrap().node, "n1");
    until("it is told", || !scene.told("p").is_empty()).await;
    assert_eq!(scene.told("p")[0].0, "AddressAdopted");

    // A record that somebody deletes comes back at once.
    scene.server.delete(FIPS, IP);
    scene.until_held(IP, "NULL_ns_NULL_p u").await;
    // Unless the pod is gone.
    scene.server.delete(PODS, "p");
    pass(1).await;
    scene.server.delete(FIPS, IP);
    pass(600).await;
    assert_eq!(scene.held(IP), "");
}

#[tokio::test(start_paused = true)]
async fn a_claim_alone_proves_nothing() {
    let scene = Scene::start(|server| {
        let mut pod = running("p", "u", IP);
        pod["status"] = json!({ "phase": "Running", "podIP": "172.16.0.5" });
        server.put(PODS, pod);
        let mut pending = running("q", "v", "10.0.70.3");
        pending["status"]["phase"] = json!("Pending");
        server.put(PODS, pending);
        let mut garbage = running("r", "w", "");
        garbage["metadata"]["annotations"] = json!({ "k8s.v1.cni.galaxy.io/args": "{" });
        server.put(PODS, garbage);
        server.put(PODS, running("s", "x", ""));
    })
    .await;
    start(&scene);
    until("it is told", || !scene.told("p").is_empty()).await;
    pass(1200).await;
    let told = scene.told("p");
    assert_eq!(told.len(), 1, "once: {told:?}");
    assert_eq!(told[0].0, "AddressNotShown");
    assert_eq!(scene.server.objects(FIPS), [] as [serde_json::Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_told_once_and_nothing_is_guessed() {
    let scene = Scene::start(|server| {
        server.put(PODS, running("p", "u", IP));
        server.put(FIPS, fip(IP, "NULL_ns_NULL_q", 0, "v"));
        server.put(PODS, running("r", "new", "10.0.70.3"));
        server.put(FIPS, fip("10.0.70.3", "NULL_ns_NULL_r", 0, "old"));
    })
    .await;
    start(&scene);
    until("it is told", || {
        !scene.told("p").is_empty() && !scene.told("r").is_empty()
    })
    .await;
    pass(1200).await;
    let told = scene.told("p");
    assert_eq!(told.len(), 1, "once: {told:?}");
    let (reason, note) = &told[0];
    assert_eq!(reason, "AddressConflict");
    let words = "conflict ip 10.0.70.2 found for both NULL_ns_NULL_p and NULL_ns_NULL_q, which \
                 its record places on node n1";
    assert_eq!(note, words);
    assert_eq!(scene.held(IP), "NULL_ns_NULL_q v");
    assert_eq!(scene.told("r")[0].0, "AddressConflict");
    assert_eq!(scene.held("10.0.70.3"), "NULL_ns_NULL_r old");
}

#[tokio::test(start_paused = true)]
async fn records_of_galaxy_are_completed() {
    let scene = Scene::start(|server| {
        server.put(PODS, running("p", "u", IP));
        server.put(FIPS, fip(IP, "NULL_ns_NULL_p", 1, ""));
        // Of a kind whose API group galaxy did not store.
        let mut kruise = running("a-0", "v", "10.0.70.3");
        let owners = json!([owner("apps.kruise.io/v1beta1", "StatefulSet", "a")]);
        kruise["metadata"]["ownerReferences"] = owners;
        server.put(PODS, kruise);
        server.put(FIPS, fip("10.0.70.3", "sts_ns_a_a-0", 0, "v"));
        // Nothing to do.
        let mut sts = numbered("a-1", "w");
        let like = running("a-1", "w", "10.0.70.4");
        sts["metadata"]["annotations"] = like["metadata"]["annotations"].clone();
        sts["status"] = like["status"].clone();
        server.put(PODS, sts);
        server.put(FIPS, fip("10.0.70.4", "sts_ns_a_a-1", 0, "w"));
    })
    .await;
    let before = scene.server.object(FIPS, "10.0.70.4");
    start(&scene);
    scene.until_held(IP, "NULL_ns_NULL_p u").await;
    assert_eq!(scene.known(IP).unwrap().node, "n1");
    let note = || scene.known("10.0.70.3").unwrap().workload_note;
    until("the note is there", || note().is_some()).await;
    assert_eq!(note().unwrap(), "StatefulSet.apps.kruise.io");
    pass(600).await;
    assert_eq!(scene.server.object(FIPS, "10.0.70.4"), before);
}

fn serves(scene: &Scene) -> bool {
    scene.store.read(Books::serves)
}

/// For whom an address without record is set aside.
fn aside(scene: &Scene) -> Option<String> {
    let ip = IP.parse().unwrap();
    let to = |books: &Books| books.ledger().promised_to(ip).map(str::to_owned);
    scene.store.read(to)
}

#[tokio::test(start_paused = true)]
async fn running_pods_get_their_records_before_anything_is_handed_out() {
    let scene = Scene::start(|server| {
        server.put(PODS, running("p", "u", IP));
    })
    .await;
    scene.store.change(Books::want_round);
    let serving = scene.store.read(Books::serving);
    start(&scene);
    until("it serves", || *serving.borrow()).await;
    assert_eq!(scene.held(IP), "NULL_ns_NULL_p u");
    assert_eq!(aside(&scene), None, "the record is there");

    // Whoever does not lead hands out nothing, and looks anew when it leads again.
    let nobody = Standing::Following {
        holder: None,
        extender: None,
        api: None,
    };
    scene.standing.send_replace(nobody);
    until("it serves no more", || !serves(&scene)).await;
    scene.standing.send_replace(Standing::Leading);
    until("it serves again", || serves(&scene)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_makes_trouble_holds_up_nobody_and_keeps_its_address() {
    let scene = Scene::start(|server| {
        server.put(PODS, running("p", "u", IP));
    })
    .await;
    scene.server.always(Method::POST, FIPS, Fault::Refuse(500));
    scene.store.change(Books::want_round);
    start(&scene);
    until("it serves", || serves(&scene)).await;
    assert_eq!(scene.held(IP), "");
    assert_eq!(aside(&scene).as_deref(), Some("adopt/u"));
    pass(3600).await;
    assert_eq!(
        aside(&scene).as_deref(),
        Some("adopt/u"),
        "as long as it lasts"
    );
    scene.server.heal();
    scene.until_held(IP, "NULL_ns_NULL_p u").await;
    until("nothing is set aside", || aside(&scene).is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_lost_is_not_free_for_a_moment() {
    let scene = Scene::start(|server| {
        server.put(PODS, running("p", "u", IP));
        server.put(FIPS, fip(IP, "NULL_ns_NULL_p", 0, "u"));
    })
    .await;
    start(&scene);
    pass(1).await;
    scene.server.always(Method::POST, FIPS, Fault::Refuse(500));
    scene.server.delete(FIPS, IP);
    until("it is set aside", || aside(&scene).is_some()).await;
    assert_eq!(aside(&scene).as_deref(), Some("adopt/u"));
    // The pod goes, and with it the claim.
    scene.server.delete(PODS, "p");
    until("it is free", || aside(&scene).is_none()).await;
    assert_eq!(scene.held(IP), "");
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_from_an_old_snapshot_running_pods_come_first() {
    let other = "10.0.70.3";
    let scene = Scene::start(|server| {
        server.put(PODS, running("p", "u", IP));
        server.put(FIPS, fip(other, "sts_ns_old_old-0", 2, ""));
    })
    .await;
    let old = scene.server.snapshot();
    // Later the pod gets its record, and the other one changes hands.
    start(&scene);
    scene.until_held(IP, "NULL_ns_NULL_p u").await;
    for number in 0..20 {
        let key = format!("sts_ns_new_new-{number}");
        scene.server.put(FIPS, fip(other, &key, 2, ""));
    }
    let key = |ip| scene.known(ip).map(|record| record.key.to_string());
    until("the books have it", || {
        key(other).unwrap() == "sts_ns_new_new-19"
    })
    .await;
    let mut serving = scene.store.read(Books::serving);
    serving.mark_unchanged();

    scene.server.restore(&old);
    until("all is read anew", || {
        key(other).unwrap() == "sts_ns_old_old-0"
    })
    .await;
    scene.until_held(IP, "NULL_ns_NULL_p u").await;
    until("it serves", || serves(&scene)).await;
    assert!(serving.has_changed().unwrap(), "it did not serve meanwhile");
    assert_eq!(key(IP).unwrap(), "NULL_ns_NULL_p");

    // The watches work, too.
    scene
        .server
        .put(FIPS, fip(other, "sts_ns_last_last-0", 2, ""));
    until("the watch tells", || {
        key(other).unwrap() == "sts_ns_last_last-0"
    })
    .await;
    scene.server.delete(PODS, "p");
    until("the watch tells", || scene.cluster.pod("ns", "p").is_none()).await;
}
