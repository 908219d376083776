//! From the `ConfigMap` to the books and to an Event, against a server that is a
//! tower service.

use std::time::Duration;

use floe_shell::{
    mock::Server,
    stop::{self, Stopper},
};
use serde_json::{Value, json};

use super::*;
use crate::{addresses::State, events, metrics::Metrics};

const CONFIG_MAPS: &str = "/api/v1/namespaces/floe-test/configmaps";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/floe-test/events";

struct Running {
    store: Store,
    state: tokio::sync::watch::Receiver<State>,
    _stopper: Stopper,
}

fn start(server: &Server) -> Running {
    let (stopper, stop) = stop::channel();
    let store = Store::default();
    let (events, news) = events::channel();
    tokio::spawn(news.write(server.client(), "pod-1".into(), stop.clone()));
    let reporter = Reporter::new(Some(events), Metrics::default());
    let state = reporter.state();
    let place = ConfigMapRef {
        namespace: "floe-test".into(),
        name: "the-config".into(),
        key: "ips".into(),
    };
    tokio::spawn(watch(server.client(), place, store.clone(), reporter, stop));
    Running {
        store,
        state,
        _stopper: stopper,
    }
}

impl Running {
    fn addresses(&self) -> u128 {
        self.store
            .read(|books| books.ledger().topology().config().addresses().len())
    }

    fn reason(&self) -> &'static str {
        self.state.borrow().reason
    }
}

fn put(server: &Server, ips: &str) {
    let text = format!(
        r#"[{{"nodeSubnets":["10.0.0.0/16"],"ips":["{ips}"],"subnet":"10.0.70.0/24","gateway":"10.0.70.1"}}]"#
    );
    server.put(CONFIG_MAPS, config_map(&json!({ "ips": text })));
}

fn config_map(data: &Value) -> Value {
    json!({ "metadata": { "name": "the-config", "namespace": "floe-test" }, "data": data })
}

/// Reason and type of each Event, in the order in which they were written.
fn told(server: &Server) -> Vec<(String, String)> {
    let mut events = server.objects(EVENTS);
    let version = |event: &Value| -> u64 {
        let version = event["metadata"]["resourceVersion"].as_str();
        version.unwrap().parse().unwrap()
    };
    events.sort_by_key(version);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let words = events
        .iter()
        .map(|event| (text(&event["reason"]), text(&event["type"])));
    words.collect()
}

fn words(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|(reason, kind)| ((*reason).into(), (*kind).into()))
        .collect()
}

async fn within_a_second() {
    tokio::time::sleep(Duration::from_millis(999)).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_one_config_map_is_watched() {
    let server = Server::default();
    let running = start(&server);
    within_a_second().await;
    let calls = server.state().calls.clone();
    assert_eq!(calls.len(), 2, "{calls:?}");
    for call in calls {
        assert!(call.starts_with(&format!("GET {CONFIG_MAPS}?")), "{call}");
        assert!(
            call.contains("fieldSelector=metadata.name%3Dthe-config"),
            "{call}"
        );
    }
    assert!(
        running.store.warmth().borrow().configuration,
        "none is an answer too"
    );
    assert_eq!(running.reason(), "ConfigMapMissing");
}

#[tokio::test(start_paused = true)]
async fn changes_are_in_force_within_a_second_and_are_told_on_the_config_map() {
    let server = Server::default();
    let running = start(&server);
    within_a_second().await;
    put(&server, "10.0.70.2~10.0.70.9");
    within_a_second().await;
    assert_eq!(
        (running.addresses(), running.reason()),
        (8, "ConfigurationApplied")
    );

    put(&server, "10.0.71.2");
    within_a_second().await;
    assert_eq!(
        (running.addresses(), running.reason()),
        (8, "ConfigurationRefused")
    );

    server.put(CONFIG_MAPS, config_map(&json!({})));
    within_a_second().await;
    assert_eq!(
        (running.addresses(), running.reason()),
        (8, "ConfigurationKeyMissing")
    );

    server.delete(CONFIG_MAPS, "the-config");
    within_a_second().await;
    assert_eq!(
        (running.addresses(), running.reason()),
        (8, "ConfigMapMissing")
    );
    assert_eq!(
        told(&server),
        words(&[
            ("ConfigurationApplied", "Normal"),
            ("ConfigurationRefused", "Warning"),
            ("ConfigurationKeyMissing", "Warning"),
        ])
    );
    let event = server.objects(EVENTS).remove(0);
    assert_eq!(event["regarding"]["kind"], "ConfigMap");
    assert_eq!(event["regarding"]["name"], "the-config");
    assert_eq!(event["regarding"]["fieldPath"], "data.ips");
    assert!(event["regarding"]["uid"].is_string());
    assert!(event["regarding"]["resourceVersion"].is_string());
    assert_eq!(event["reportingInstance"], "pod-1");
}

#[tokio::test(start_paused = true)]
async fn the_same_text_is_told_once_by_all_replicas_together() {
    let server = Server::default();
    put(&server, "10.0.70.2~10.0.70.9");
    let first = start(&server);
    within_a_second().await;
    // A second replica, then a change that is not about the addresses, then a
    // new list.
    let second = start(&server);
    within_a_second().await;
    let mut object = server.objects(CONFIG_MAPS).remove(0);
    object["metadata"]["labels"] = json!({ "some": "label" });
    server.put(CONFIG_MAPS, object);
    within_a_second().await;
    server.compact();
    tokio::time::sleep(Duration::from_secs(10)).await;
    for replica in [&first, &second] {
        assert_eq!(
            (replica.addresses(), replica.reason()),
            (8, "ConfigurationApplied")
        );
    }
    assert_eq!(told(&server), words(&[("ConfigurationApplied", "Normal")]));
}

#[tokio::test(start_paused = true)]
async fn each_bad_change_is_told() {
    let server = Server::default();
    let _running = start(&server);
    for ips in ["10.0.71.2", "10.0.71.3"] {
        put(&server, ips);
        within_a_second().await;
    }
    let refused = ("ConfigurationRefused", "Warning");
    assert_eq!(told(&server), words(&[refused, refused]));
}

#[tokio::test(start_paused = true)]
async fn a_config_map_that_went_while_nobody_watched_is_missed() {
    let server = Server::default();
    put(&server, "10.0.70.2~10.0.70.9");
    let running = start(&server);
    within_a_second().await;
    server.delete(CONFIG_MAPS, "the-config");
    server.compact();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        (running.addresses(), running.reason()),
        (8, "ConfigMapMissing")
    );
}
