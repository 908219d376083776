use std::time::Duration;

use floe_shell::{
    mock::Server,
    stop::{self, Stop},
};
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};

use crate::{installation::Installation, shared_key, vips::peers};

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

fn key(server: &Server) -> Value {
    let secret = server.object(SECRETS, "floe-agent-peers");
    secret.unwrap_or_default()["data"][shared_key::KEY].clone()
}

fn keep(server: &Server, stop: Stop) -> impl Future<Output = ()> + use<> {
    shared_key::keep(
        server.client(),
        peers::place(),
        watch::Sender::default(),
        Installation::default(),
        stop,
    )
}

fn empty(labels: &Value) -> Value {
    json!({ "metadata": { "name": "floe-agent-peers", "labels": labels } })
}

#[tokio::test(start_paused = true)]
async fn a_key_is_made_where_there_is_none_and_stays() {
    let ours = json!({ "floe.dev/made-by": "floe-controller" });
    for prepared in [None, Some(empty(&ours))] {
        let server = Server::default();
        if let Some(secret) = prepared {
            server.put(SECRETS, secret);
        }
        let (_stopper, stop) = stop::channel();
        for _ in 0..2 {
            tokio::spawn(keep(&server, stop.clone()));
        }
        server.until(|server| key(server).is_string()).await;
        let made = key(&server);
        assert_eq!(made.as_str().unwrap().len(), 44, "32 bytes in base64");
        sleep(Duration::from_mins(20)).await;
        assert_eq!(key(&server), made);
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_somebody_else_is_not_touched() {
    let server = Server::default();
    server.put(SECRETS, empty(&json!({})));
    let (_stopper, stop) = stop::channel();
    tokio::spawn(keep(&server, stop));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(key(&server), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn two_keys_are_never_the_same() {
    let mut keys = Vec::new();
    for _ in 0..2 {
        let server = Server::default();
        let (_stopper, stop) = stop::channel();
        tokio::spawn(keep(&server, stop));
        server.until(|server| key(server).is_string()).await;
        keys.push(key(&server));
    }
    assert_ne!(keys[0], keys[1]);
}
