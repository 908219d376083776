use axum::http::Method;
use floe_shell::mock::{Fault, Server};

use super::*;

const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

fn publisher(server: &Server, pem: &[u8]) -> (Publisher, watch::Sender<Vec<u8>>) {
    let authorities = watch::Sender::new(pem.to_vec());
    let publisher = Publisher::new(server.client(), authorities.subscribe());
    (publisher, authorities)
}

/// A configuration with two entries of floe's, and one that leads elsewhere.
fn configuration() -> Value {
    let entry = |name: &str, service: &str| {
        json!({
            "name": name, "failurePolicy": "Fail", "unknownMember": { "a": 1 },
            "clientConfig": { "service": { "name": service, "namespace": "kube-system" } },
        })
    };
    json!({
        "metadata": { "name": NAME },
        "webhooks": [
            entry("pods.floe.dev", SERVICE),
            entry("other.dev", "other"),
            entry("configuration.floe.dev", SERVICE),
        ],
    })
}

fn bundles(server: &Server) -> Vec<Value> {
    let found = server.object(VALIDATING, NAME).unwrap();
    let webhooks = found["webhooks"].as_array().unwrap();
    let bundles = webhooks
        .iter()
        .map(|it| it["clientConfig"]["caBundle"].clone());
    bundles.collect()
}

fn patches(server: &Server) -> usize {
    let state = server.state();
    let patches = state.calls.iter().filter(|call| call.starts_with("PATCH"));
    patches.count()
}

#[tokio::test]
async fn the_authorities_go_to_the_entries_of_floe_and_to_no_other() {
    let server = Server::default();
    server.put(VALIDATING, configuration());
    let (mut publisher, authorities) = publisher(&server, b"pem");
    assert_eq!(publisher.look().await, PERIOD);
    let pem = json!("cGVt");
    assert_eq!(bundles(&server), [pem.clone(), Value::Null, pem]);
    // The rest is as it was.
    let found = server.object(VALIDATING, NAME).unwrap();
    assert_eq!(found["webhooks"][0]["failurePolicy"], "Fail");
    assert_eq!(found["webhooks"][0]["unknownMember"]["a"], 1);
    // Nothing is written without need.
    publisher.look().await;
    assert_eq!(patches(&server), 1);
    authorities.send_replace(b"two".to_vec());
    publisher.look().await;
    assert_eq!(bundles(&server)[0], "dHdv");
}

#[tokio::test]
async fn nothing_is_written_before_there_is_a_certificate_or_a_configuration() {
    let server = Server::default();
    server.put(VALIDATING, configuration());
    let (mut publisher, authorities) = publisher(&server, b"");
    assert_eq!(publisher.look().await, PERIOD);
    assert_eq!(patches(&server), 0);
    authorities.send_replace(b"pem".to_vec());
    let empty = Server::default();
    let (mut other, _authorities) = self::publisher(&empty, b"pem");
    assert_eq!(other.look().await, PERIOD);
    assert_eq!(patches(&empty), 0);
    assert_eq!(other.failure, None);
}

#[tokio::test]
async fn a_lost_race_is_run_again_and_a_refusal_is_told_and_tried_again() {
    let server = Server::default();
    server.put(VALIDATING, configuration());
    let (mut publisher, _authorities) = publisher(&server, b"pem");
    // Between the read and the write somebody applies it anew.
    let anew = |state: &mut floe_shell::mock::State| {
        state.put(VALIDATING, configuration());
    };
    server.fault(
        Method::PATCH,
        "validatingwebhook",
        Fault::Before(Box::new(anew)),
    );
    assert_eq!(publisher.look().await, PERIOD);
    assert_eq!(bundles(&server)[0], "cGVt");

    server.put(VALIDATING, configuration());
    server.state().refuse_writes = Some(403);
    assert_eq!(publisher.look().await, RETRY);
    let told = publisher.failure.clone().unwrap();
    let begin = "cannot write the ValidatingWebhookConfiguration";
    assert!(told.starts_with(begin), "{told}");
    server.state().refuse_writes = None;
    assert_eq!(publisher.look().await, PERIOD);
    assert_eq!(
        (bundles(&server)[0].as_str(), publisher.failure),
        (Some("cGVt"), None)
    );
}
