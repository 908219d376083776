//! Replicas that share a Secret of the API server in memory.

use std::cell::Cell;

use axum::http::Method;
use floe_shell::{
    mock::{Fault, Server},
    stop,
};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;

const SECRETS: &str = "/api/v1/namespaces/ns/secrets";
const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

thread_local! {
    /// The days that have passed, of each test its own.
    static DAYS: Cell<i64> = const { Cell::new(0) };
}

fn clock() -> Timestamp {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_hours(24 * DAYS.get())
}

fn keeper_for(server: &Server, names: &[&str]) -> Keeper {
    let mut names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    names.insert("floe".to_owned());
    let settings = Settings {
        namespace: "ns".into(),
        secret: "tls".into(),
        shown: Some("ca".into()),
        names,
        peer: ServerName::try_from("floe").unwrap(),
    };
    let mut keeper = Keeper::new(server.client(), settings);
    keeper.clock = clock;
    keeper
}

fn keeper(server: &Server) -> Keeper {
    keeper_for(server, &["127.0.0.1", "::1"])
}

fn held(keeper: &Keeper) -> floe_core::certificates::Held {
    keeper.held.as_ref().unwrap().held().unwrap()
}

fn authorities(keeper: &Keeper) -> usize {
    keeper.held.as_ref().unwrap().authorities().unwrap().len()
}

fn failed(keeper: &Keeper) -> String {
    keeper.failure.clone().unwrap_or_default()
}

fn secret(server: &Server) -> Value {
    server.object(SECRETS, "tls").unwrap()
}

#[tokio::test]
async fn the_first_replica_makes_them_and_the_others_take_them() {
    let server = Server::default();
    let (mut first, mut second) = (keeper(&server), keeper(&server));
    assert!(first.secrets().borrow().server().is_none());
    assert_eq!(first.look().await, PERIOD);
    assert_eq!(second.look().await, PERIOD);
    assert!(first.held == second.held);
    assert!(second.secrets().borrow().server().is_some());
    let object = secret(&server);
    assert_eq!(object["type"], "kubernetes.io/tls");
    assert_eq!(
        object["metadata"]["labels"]["floe.dev/made-by"],
        "floe-controller"
    );
    let names: Vec<_> = held(&first).names.into_iter().collect();
    assert_eq!(names, ["127.0.0.1", "::1", "floe"]);
    // Clients see whom to trust, and no key.
    let shown = server.object(MAPS, "ca").unwrap();
    let data = shown["data"].as_object().unwrap();
    assert_eq!(data.len(), 1);
    let pem = data["ca.crt"].as_str().unwrap();
    assert_eq!(pem.matches("BEGIN").count(), 1);
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"), "{pem}");
    // Nothing is written without need.
    let writes = |server: &Server| {
        let state = server.state();
        state
            .calls
            .iter()
            .filter(|call| !call.starts_with("GET"))
            .count()
    };
    let before = writes(&server);
    first.look().await;
    second.look().await;
    assert_eq!((before, writes(&server)), (2, 2));
}

#[tokio::test]
async fn two_that_come_at_once_end_with_the_same() {
    let server = Server::default();
    let mut other = keeper(&Server::default());
    other.look().await;
    // Between the read and the write of one, another one has written.
    let theirs = object::new_secret("tls", other.held.as_ref().unwrap());
    let theirs = serde_json::to_value(theirs).unwrap();
    let act = move |state: &mut floe_shell::mock::State| {
        state.put(SECRETS, theirs);
    };
    server.fault(Method::POST, "secrets", Fault::Before(Box::new(act)));
    let mut late = keeper(&server);
    assert_eq!(late.look().await, PERIOD);
    assert!(late.held == other.held);
}

#[tokio::test]
async fn a_renewal_that_loses_the_race_takes_what_the_other_has_made() {
    let server = Server::default();
    let (mut first, mut second) = (keeper(&server), keeper(&server));
    first.look().await;
    DAYS.set(250);
    second.look().await;
    let newer = secret(&server);
    // As it was for the first when it read it.
    DAYS.set(0);
    let server = Server::default();
    first = keeper(&server);
    first.look().await;
    DAYS.set(250);
    let put = move |state: &mut floe_shell::mock::State| {
        state.put(SECRETS, newer);
    };
    server.fault(Method::PUT, "secrets/tls", Fault::Before(Box::new(put)));
    assert_eq!(first.look().await, PERIOD);
    assert!(first.held == second.held);
}

#[tokio::test]
async fn they_are_renewed_in_time_and_clients_of_the_old_authority_go_on() {
    let server = Server::default();
    let mut keeper = keeper(&server);
    keeper.look().await;
    let first = held(&keeper);
    DAYS.set(200);
    keeper.look().await;
    assert_eq!(held(&keeper), first);
    DAYS.set(244);
    keeper.look().await;
    let second = held(&keeper);
    assert!(second.certificate.begin > first.certificate.begin);
    assert_eq!(second.authority, first.authority);

    // The authority gets old: the next is shown long before it signs.
    let mut days = 244;
    while authorities(&keeper) == 1 {
        days += 240;
        assert!(days < 3_650 - 365, "a new authority in time");
        DAYS.set(days);
        keeper.look().await;
    }
    let turned = held(&keeper);
    assert!(turned.authority.begin > first.authority.begin);
    let shown = server.object(MAPS, "ca").unwrap();
    let pem = shown["data"]["ca.crt"].as_str().unwrap();
    assert_eq!(pem.matches("BEGIN CERTIFICATE").count(), 2);
    // Signed by the new one, and the old one is forgotten when it has ended.
    DAYS.set(days + 250);
    assert_eq!(keeper.look().await, PERIOD);
    assert_eq!(authorities(&keeper), 2);
    while days < 3_700 {
        days += 240;
        DAYS.set(days);
        assert_eq!(keeper.look().await, PERIOD, "{}", failed(&keeper));
    }
    assert_eq!(authorities(&keeper), 1);
    assert_eq!(held(&keeper).authority, turned.authority);
}

#[tokio::test]
async fn replicas_that_want_other_names_do_not_fight() {
    let server = Server::default();
    let (mut one, mut other) = (keeper_for(&server, &["a"]), keeper_for(&server, &["b"]));
    one.look().await;
    other.look().await;
    let both = secret(&server);
    one.look().await;
    other.look().await;
    assert_eq!(secret(&server), both);
    let names: Vec<_> = held(&other).names.into_iter().collect();
    assert_eq!(names, ["a", "b", "floe"]);
    assert!(one.held == other.held);
}

#[tokio::test]
async fn objects_of_others_are_never_touched() {
    let server = Server::default();
    let theirs = json!({ "metadata": { "name": "tls" }, "data": { "tls.crt": "" } });
    let theirs = server.put(SECRETS, theirs);
    let mut keeper = keeper(&server);
    assert_eq!(keeper.look().await, RETRY);
    assert!(
        failed(&keeper).contains("Secret has no label"),
        "{}",
        failed(&keeper)
    );
    assert_eq!(secret(&server), theirs);
    assert!(keeper.secrets().borrow().server().is_none());
    server.delete(SECRETS, "tls");

    let theirs = server.put(
        MAPS,
        json!({ "metadata": { "name": "ca" }, "data": { "k": "v" } }),
    );
    assert_eq!(keeper.look().await, RETRY);
    assert!(
        failed(&keeper).contains("ConfigMap has no label"),
        "{}",
        failed(&keeper)
    );
    assert_eq!(server.object(MAPS, "ca").unwrap(), theirs);
    // It is served all the same.
    assert!(keeper.secrets().borrow().server().is_some());
}

#[tokio::test]
async fn content_of_no_use_is_told_and_the_old_stays_in_force() {
    let server = Server::default();
    let mut keeper = keeper(&server);
    keeper.look().await;
    let good = secret(&server);
    let secrets = keeper.secrets();
    let first = secrets.borrow().clone();
    let foreign = {
        let server = Server::default();
        let mut other = self::keeper(&server);
        other.look().await;
        secret(&server)
    };
    let with = |name: &str, value: Value| {
        let mut bad = good.clone();
        bad["data"][name] = value;
        bad
    };
    let taken = |name: &str| with(name, foreign["data"][name].clone());
    let cases = [
        (with("ca.key", json!("")), "CertificateSecretIncomplete"),
        (with("ca.key", json!("AAAA")), "CertificateSecretMalformed"),
        (with("tls.crt", json!("AAAA")), "CertificateSecretMalformed"),
        (with("tls.key", json!("AAAA")), "CertificateSecretMalformed"),
        (taken("ca.key"), "CertificateKeyMismatched"),
        (taken("tls.key"), "CertificateUnusable"),
        (taken("tls.crt"), "CertificateUntrusted"),
    ];
    for (bad, reason) in cases {
        let bad = server.put(SECRETS, bad);
        let error = timeout(LIMIT, keeper.settle()).await.unwrap().unwrap_err();
        assert_eq!(error.reason(), reason);
        assert_eq!(secret(&server), bad, "{reason}: nothing was overwritten");
        assert!(Arc::ptr_eq(&first, &secrets.borrow()), "{reason}");
    }
    // A whole set of another cluster is taken up.
    server.put(SECRETS, foreign);
    assert_eq!(keeper.look().await, PERIOD, "{}", failed(&keeper));
    assert!(!Arc::ptr_eq(&first, &secrets.borrow()));
}

#[tokio::test]
async fn an_empty_secret_with_our_label_is_filled_and_keeps_its_type() {
    let server = Server::default();
    server.put(
        SECRETS,
        json!({
            "metadata": { "name": "tls", "labels": { "floe.dev/made-by": "floe-controller" } },
            "type": "Opaque",
        }),
    );
    let mut keeper = keeper(&server);
    assert_eq!(keeper.look().await, PERIOD, "{}", failed(&keeper));
    assert_eq!(secret(&server)["type"], "Opaque");
    assert!(keeper.secrets().borrow().server().is_some());
}

#[tokio::test]
async fn an_api_server_that_is_away_is_told_once_and_tried_again() {
    let server = Server::default();
    let mut keeper = keeper(&server);
    keeper.look().await;
    let in_force = keeper.secrets().borrow().clone();
    server.state().down = true;
    assert_eq!(keeper.look().await, RETRY);
    assert!(Arc::ptr_eq(&in_force, &keeper.secrets().borrow()));
    server.state().down = false;
    assert_eq!(keeper.look().await, PERIOD);
}

#[tokio::test(start_paused = true)]
async fn changes_of_the_secret_are_taken_up_at_once_and_a_deleted_one_is_made_again() {
    let server = Server::default();
    let (stopper, stop) = stop::channel();
    let keeper = keeper(&server);
    let mut secrets = keeper.secrets();
    let task = tokio::spawn(keeper.run(stop));
    secrets
        .wait_for(|now| now.server().is_some())
        .await
        .unwrap();
    let first = secrets.borrow_and_update().clone();
    server
        .until(|server| server.object(MAPS, "ca").is_some())
        .await;
    let begin = tokio::time::Instant::now();
    server.delete(SECRETS, "tls");
    secrets.changed().await.unwrap();
    assert!(!Arc::ptr_eq(&first, &secrets.borrow_and_update()));

    let other = Server::default();
    let mut maker = self::keeper(&other);
    maker.look().await;
    server
        .until(|server| server.object(SECRETS, "tls").is_some())
        .await;
    server.put(SECRETS, secret(&other));
    secrets.changed().await.unwrap();
    assert!(begin.elapsed() < PERIOD);
    // The stop is heard.
    stopper.stop();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_clock_that_was_ahead_has_made_is_replaced_but_not_without_a_pause() {
    let server = Server::default();
    let (mut ahead, mut right) = (keeper(&server), keeper(&server));
    DAYS.set(1_000);
    ahead.look().await;
    DAYS.set(0);
    // A write that fails does not count.
    server.fault(Method::PUT, "secrets/tls", Fault::Refuse(500));
    assert_eq!(right.look().await, RETRY);
    assert_eq!(right.look().await, PERIOD);
    let is_valid = |keeper: &Keeper| {
        let held = held(keeper);
        held.certificate.begin <= clock() && held.authority.begin <= clock()
    };
    assert!(is_valid(&right));
    let shown = server.object(MAPS, "ca").unwrap()["data"]["ca.crt"].clone();
    assert_eq!(shown.as_str().unwrap().matches("BEGIN").count(), 2);

    // The other one finds it aged, as long as its clock is wrong.
    let wrong = async |ahead: &mut Keeper| {
        DAYS.set(1_000);
        ahead.look().await;
        DAYS.set(0);
    };
    wrong(&mut ahead).await;
    assert_eq!(right.look().await, RETRY);
    assert!(failed(&right).contains("clocks"), "{}", failed(&right));
    assert!(is_valid(&right), "what was in force stays so");
    tokio::time::advance(PERIOD).await;
    assert_eq!(right.look().await, PERIOD);
    assert_eq!(failed(&right), "");
    assert!(is_valid(&right));
    assert!(secret(&server) != Value::Null);
}
