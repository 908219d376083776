//! The controller as it ships, beside an API server in memory and a cloud that does every
//! order at once.

use std::{
    fs,
    net::Ipv4Addr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use axum::{
    Router,
    body::{Bytes, to_bytes},
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use floe_shell::mock::Server as Mock;
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::timeout};

use super::{FIRST, PER_POOL, Size, address, cloud::Cloud, node_name, server};
use crate::{
    filter::{median_of, percentile_99_of},
    program::{Api, Controller, Start},
    table::{Figure, Row, Wanted},
};

const NODES: &str = "/api/v1/nodes";
const POOLS: &str = "/apis/flipop.digitalocean.com/v1alpha1/namespaces/bench/floatingippools";

/// How long anything may take.
const LIMIT: Duration = Duration::from_mins(2);

/// How many events are measured: each takes seconds.
const EVENTS: u32 = 20;

/// How long nothing is asked before it counts as settled.
const QUIET: Duration = Duration::from_secs(3);

/// The addresses of a page of Hetzner's lists.
const PER_PAGE: usize = 50;

/// How long nothing happens, to see what is asked then.
const IDLE: Duration = Duration::from_mins(1);

/// Measures a controller whose pools select by label.
pub async fn measure(size: Size) -> Result<Vec<Row>> {
    let server = Mock::default();
    fill(&server, size);
    let mut placed = Vec::new();
    for pool in 0..size.pools {
        for nth in 0..PER_POOL {
            let id = id_of(size.home(pool, nth))?;
            placed.push((address(pool, nth), id));
        }
    }
    let cloud = Cloud::start(placed).await?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    fs::write(&kubeconfig, way_to(port))?;
    let router = Router::new().fallback(answer).with_state(server.clone());
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let log = folder.path().join("floe-controller.log");
    let start = Start {
        kubeconfig: &kubeconfig,
        log: &log,
        addresses: json!([]),
        api: Api::Open,
        arguments: &["--float-ips=false"],
        environment: &[
            ("HCLOUD_TOKEN", "bench".to_owned()),
            ("HCLOUD_ENDPOINT", cloud.endpoint()),
        ],
    };
    let measured = play(&server, &cloud, start, size).await;
    serving.abort();
    measured.with_context(|| format!("the controller said last:\n{}", end_of(&log)))
}

async fn play(server: &Mock, cloud: &Cloud, start: Start<'_>, size: Size) -> Result<Vec<Row>> {
    let controller = Controller::start(start).await?;
    let started = Instant::now();
    until(|| active(server) == size.pools * PER_POOL).await?;
    let took = Figure::Seconds(started.elapsed().as_secs_f64());
    let mut rows = vec![Row::new(
        "the controller: until all addresses are active",
        took,
        Wanted::Nothing,
    )];
    let (now, most) = controller.memory()?;
    let row = Row::new(
        "the controller: memory now, beside the most",
        Figure::Bytes(now),
        Wanted::Nothing,
    );
    rows.push(row.against(Figure::Bytes(most)));
    settle(server).await?;
    rows.extend(idle(server, cloud, size).await);
    rows.extend(events(server, cloud, &controller, size).await?);
    controller.stop().await?;
    Ok(rows)
}

/// The last lines of a log.
fn end_of(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.len().saturating_sub(20);
    lines[last..].join("\n")
}

/// Waits until nothing is asked for a while: nodes are still annotated when all addresses
/// are active.
async fn settle(server: &Mock) -> Result<()> {
    let deadline = Instant::now() + LIMIT * 5;
    // Whether the API server is there is asked all the time.
    let asked = || {
        let state = server.state();
        let calls = state.calls.iter();
        calls.filter(|it| !it.ends_with("/version")).count()
    };
    let mut last = (asked(), Instant::now());
    while last.1.elapsed() < QUIET {
        ensure!(Instant::now() < deadline, "it never rests");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = asked();
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
    Ok(())
}

/// What is asked when nothing happens.
async fn idle(server: &Mock, cloud: &Cloud, size: Size) -> [Row; 2] {
    let (requests, calls) = (requests(server), cloud.calls());
    tokio::time::sleep(IDLE).await;
    let requests = count(self::requests(server) - requests);
    let calls = count(cloud.calls() - calls);
    let pages = (size.pools * PER_POOL).div_ceil(PER_PAGE);
    [
        Row::new(
            "the controller: requests to the API server in an idle minute",
            requests,
            Wanted::Nothing,
        ),
        Row::new(
            format!(
                "the controller: calls of the cloud in an idle minute, where a list has {pages} pages"
            ),
            calls,
            Wanted::Nothing,
        ),
    ]
}

/// Nodes fail, one by one.
async fn events(
    server: &Mock,
    cloud: &Cloud,
    controller: &Controller,
    size: Size,
) -> Result<Vec<Row>> {
    let clock = controller.clock()?;
    let (mut waited, mut computed) = (Vec::new(), Vec::new());
    let before = (requests(server), cloud.calls());
    for event in 0..EVENTS {
        let pool = usize::try_from(event)? % size.pools;
        let lost = size.home(pool, 0);
        let ip = address(pool, 0).to_string();
        until(|| node_of(server, pool, &ip) != Value::Null).await?;
        let holder = node_of(server, pool, &ip);
        let start = clock.now()?;
        let began = Instant::now();
        server.put(NODES, node(size, lost, false));
        let assigned = timeout(LIMIT, cloud.assigned_after(began)).await?;
        let assigned = assigned.context("the cloud has ended")?;
        waited.push(assigned.duration_since(began).as_secs_f64());
        until(|| {
            let now = node_of(server, pool, &ip);
            now != Value::Null && now != holder
        })
        .await?;
        computed.push(clock.now()?.saturating_sub(start).as_secs_f64());
        server.put(NODES, node(size, lost, true));
        until(|| waiting(server, pool, lost)).await?;
    }
    let each = |all: u32| Figure::Count(f64::from(all) / f64::from(EVENTS));
    let requests = requests(server) - before.0;
    let calls = cloud.calls() - before.1;
    let row = |name: &str, figure| Row::new(name, figure, Wanted::Nothing);
    let mut sorted = waited.clone();
    Ok(vec![
        row(
            "the controller: from the event until the cloud is called, median on the wall",
            median_of(&mut sorted),
        )
        .against(percentile_99_of(waited)),
        row(
            "the controller: computed for an event, until its status is written, median",
            median_of(&mut computed),
        ),
        row(
            "the controller: requests to the API server for a failure and a return",
            each(requests),
        ),
        row(
            "the controller: calls of the cloud for the same",
            each(calls),
        ),
    ])
}

fn fill(server: &Mock, size: Size) {
    let system = json!({ "metadata": { "name": "kube-system", "uid": "bench" } });
    server.put("/api/v1/namespaces", system);
    // A controller is ready once the API server has said which version it is.
    let version = json!({
        "major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
    });
    server.state().raw.insert("/version".to_owned(), version);
    for at in 0..size.nodes {
        server.put(NODES, node(size, at, true));
    }
    for pool in 0..size.pools {
        let ips: Vec<_> = (0..PER_POOL).map(|nth| address(pool, nth)).collect();
        server.put(
            POOLS,
            json!({
                "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool",
                "metadata": { "name": format!("pool-{pool}"), "generation": 1 },
                "spec": {
                    "provider": "hetzner", "region": "fsn1", "ips": ips,
                    "match": { "nodeLabel": format!("kind=k{}", size.kind_of_pool(pool)) },
                },
            }),
        );
    }
}

fn node(size: Size, at: usize, ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    json!({
        "metadata": {
            "name": node_name(at), "labels": { "kind": format!("k{}", size.kind_of_node(at)) },
        },
        "spec": { "providerID": server(at) },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    })
}

/// The number of a server in Hetzner's own writing.
fn id_of(node: usize) -> Result<u64> {
    Ok(u64::try_from(FIRST + node)?)
}

fn active(server: &Mock) -> usize {
    let pools = server.objects(POOLS);
    let ips = pools
        .iter()
        .filter_map(|it| it["status"]["ips"].as_object());
    let ips = ips.flat_map(serde_json::Map::values);
    ips.filter(|it| it["state"] == "active").count()
}

/// The node that has an address, once it is there.
fn node_of(server: &Mock, pool: usize, ip: &str) -> Value {
    let object = server.object(POOLS, &format!("pool-{pool}"));
    let ip = object.map(|it| it["status"]["ips"][ip].clone());
    ip.filter(|it| it["state"] == "active")
        .map_or(Value::Null, |it| it["nodeName"].clone())
}

/// Whether a pool knows that a node fits and has no address of its.
fn waiting(server: &Mock, pool: usize, node: usize) -> bool {
    let object = server.object(POOLS, &format!("pool-{pool}"));
    let names = object.map(|it| it["status"]["assignableNodes"].clone());
    let names = names.as_ref().and_then(Value::as_array);
    names.is_some_and(|it| it.contains(&node_name(node).into()))
}

fn requests(server: &Mock) -> u32 {
    u32::try_from(server.state().calls.len()).unwrap_or(u32::MAX)
}

fn count(number: u32) -> Figure {
    Figure::Count(number.into())
}

async fn until(condition: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        ensure!(Instant::now() < deadline, "it does not become so");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

async fn answer(State(server): State<Mock>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let uri = parts.uri.to_string();
    match server.respond(&parts.method, &uri, &body).await {
        Ok(answer) => answer,
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

fn way_to(port: u16) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "contexts": [{ "name": "bench", "context": { "cluster": "bench", "user": "bench" } }],
        "clusters": [{
            "name": "bench", "cluster": { "server": format!("http://127.0.0.1:{port}") },
        }],
        "users": [{ "name": "bench", "user": {} }],
    })
    .to_string()
}
