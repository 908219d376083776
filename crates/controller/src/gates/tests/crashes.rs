//! The process ends in the middle.

use std::collections::BTreeSet;

use super::*;

const PODS_AT_ONCE: usize = 10;

/// All pods have gone on, each with an address of its own, and nothing else is held.
async fn all_go(scene: &Scene) {
    let server = &scene.server;
    let names: Vec<String> = (0..PODS_AT_ONCE).map(|it| format!("p{it}")).collect();
    until("all go", || names.iter().all(|it| is_open(server, it))).await;
    pass(60).await;
    let mut addresses = BTreeSet::new();
    for name in &names {
        let claimed = claimed(server, name);
        assert_eq!(claimed.len(), 1, "{name}");
        addresses.insert((claimed[0].clone(), format!("uid-{name}"), String::new()));
    }
    assert_eq!(addresses.len(), PODS_AT_ONCE);
    let held: BTreeSet<_> = records(server).into_iter().collect();
    assert_eq!(held, addresses);
}

fn writes(server: &Server) -> usize {
    let state = server.state();
    let calls = state.calls.iter();
    calls.filter(|it| !it.starts_with("GET")).count()
}

/// After each number of writes that there can be, the process is killed, and another one
/// comes that knows only what the API server has.
#[tokio::test(start_paused = true)]
async fn whenever_the_leader_is_killed_nobody_stays_at_the_gate() {
    for last in 0..=PODS_AT_ONCE * 2 {
        let scene = Scene::start(|server| {
            for number in 0..PODS_AT_ONCE {
                server.put(PODS, gated(&format!("p{number}")));
            }
        })
        .await;
        let server = scene.server.clone();
        let running = run(&scene);
        // No time passes meanwhile, so it is cut off right there.
        for _ in 0..100_000 {
            if writes(&server) >= last {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(running);
        drop(scene);
        let next = Scene::over(server).await;
        let _running = run(&next);
        all_go(&next).await;
    }
}

/// The record is written, and the patch never comes through.
#[tokio::test(start_paused = true)]
async fn a_pod_with_records_that_is_still_at_the_gate_is_finished() {
    let scene = Scene::start(|server| {
        server.put(PODS, gated("a"));
    })
    .await;
    let server = scene.server.clone();
    server.always(Method::PATCH, "/pods/a", Fault::Refuse(503));
    let running = run(&scene);
    until("the record is there", || !records(&server).is_empty()).await;
    until("it says why", || !scene.told("a").is_empty()).await;
    assert_eq!(scene.told("a")[0].0, "GateNotOpened");
    drop(running);
    drop(scene);
    server.heal();
    let before = records(&server);
    let next = Scene::over(server.clone()).await;
    let _running = run(&next);
    until("it goes", || is_open(&server, "a")).await;
    assert_eq!(records(&server), before);
    assert_eq!(claimed(&server, "a"), [before[0].0.clone()]);
}

/// The record is written, and then the pod is gone.
#[tokio::test(start_paused = true)]
async fn records_of_a_pod_that_is_gone_are_taken_back() {
    let scene = Scene::start(|server| {
        server.put(PODS, gated("a"));
    })
    .await;
    let server = scene.server.clone();
    server.always(Method::PATCH, "/pods/a", Fault::Hang);
    let running = run(&scene);
    until("the record is there", || !records(&server).is_empty()).await;
    drop(running);
    drop(scene);
    server.heal();
    server.delete(PODS, "a");
    let next = Scene::over(server.clone()).await;
    let _running = run(&next);
    until("the address is free", || records(&server).is_empty()).await;
}
