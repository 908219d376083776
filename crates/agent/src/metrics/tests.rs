use std::{collections::BTreeMap, net::IpAddr};

use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use floe_api::floe::NetworkStatus;
use floe_core::vip::{Candidate, Mode, VipId, keeper::Served};
use floe_shell::{document, stop};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tower::ServiceExt as _;

use super::*;

async fn scrape(metrics: &Metrics) -> String {
    let request = Request::get("/metrics").header("accept", "application/openmetrics-text");
    let request = request.body(Body::empty()).unwrap();
    let response = figures::router(metrics.registry(), &[])
        .oneshot(request)
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], figures::OPEN_METRICS);
    let body = to_bytes(response.into_body(), 100_000).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

/// What two addresses of one object look like in a role.
fn served(role: fn(Candidate) -> Role) -> Served {
    let address: IpAddr = "10.0.0.1".parse().unwrap();
    let candidate = Candidate {
        pod: "web-0".into(),
        uid: "u".into(),
        node: "n1".into(),
        node_address: address,
        addresses: vec![address],
        mode: Mode::Nat,
        ready_since: 0,
    };
    Served {
        addresses: vec![address, "fd00::1".parse().unwrap()],
        role: role(candidate),
    }
}

/// Counts everything once.
fn counted() -> Metrics {
    let metrics = Metrics::default();
    let took = Duration::from_millis(5);
    metrics.called(Command::Add, took, None);
    metrics.called(Command::Add, took, Some("AddressConflict"));
    metrics.malformed("MalformedRequest");
    let network = |ready| NetworkStatus {
        ready,
        ..NetworkStatus::default()
    };
    metrics.health(&NodeNetworkStatus {
        networks: vec![network(true), network(true), network(false)],
        ..NodeNetworkStatus::default()
    });
    metrics.told(Timestamp::UNIX_EPOCH);
    metrics.leftover("StaleLink", "removed");
    metrics.taken_off();
    let id = |name: &str| VipId {
        namespace: "ns".into(),
        name: name.into(),
    };
    let roles = [
        (id("held"), served(Role::Holder)),
        (id("next"), served(Role::Prepared)),
    ];
    metrics.serving(&Serving {
        number: 1,
        deadline: None,
        roles: BTreeMap::from(roles),
    });
    metrics.lease_written("done");
    metrics
}

#[test]
fn what_happens_is_counted() {
    let metrics = counted();
    for line in [
        r#"floe_agent_call_seconds_count{command="ADD"} 2"#,
        r#"floe_agent_call_failures_total{command="ADD",reason="AddressConflict"} 1"#,
        r#"floe_agent_call_failures_total{command="unknown",reason="MalformedRequest"} 1"#,
        r#"floe_agent_networks{state="ready"} 2"#,
        r#"floe_agent_networks{state="notReady"} 1"#,
        // Prepared ones are not answered for.
        "floe_agent_vip_addresses_held 2",
        r#"floe_agent_lease_writes_total{result="done"} 1"#,
    ] {
        assert!(metrics.has(line), "{line} is not in {}", metrics.text());
    }
}

#[tokio::test]
async fn the_document_lists_all_metrics() {
    document::hold(
        env!("CARGO_MANIFEST_DIR"),
        "floe-agent",
        &scrape(&counted()).await,
        &[include_str!("../metrics.rs")],
    );
}

#[tokio::test]
async fn they_are_served_until_the_stop() {
    let (stopper, stop) = stop::channel();
    let listener = open("127.0.0.1:0".parse().unwrap()).await;
    let addr = listener.local_addr().unwrap();
    let task = tokio::spawn(counted().answer(listener, stop));
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("floe_agent_build_info{"), "{answer}");
    stopper.stop();
    task.await.unwrap();
}
