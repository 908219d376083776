use floe_core::ipam::owner::GroupKind;
use floe_shell::mock::{Fault, Server};
use serde_json::json;

use super::*;
use crate::cluster::{
    PodObject,
    tests::{
        DEPLOYMENTS, REPLICA_SETS, Running, STATEFUL_SETS, http_get, replica_set, scaled, start,
    },
};

fn workloads(server: &Server, running: &Running) -> Workloads {
    Workloads::new(server.client(), running.cluster.clone())
}

fn pod_of(kind: &str, name: &str) -> Pod {
    let owner = json!({ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "o", "controller": true });
    let meta = json!({ "name": "p-0", "namespace": "ns", "ownerReferences": [owner] });
    let object: PodObject = serde_json::from_value(json!({ "metadata": meta })).unwrap();
    object.into()
}

fn app(kind: AppKind, name: &str) -> App {
    App {
        kind,
        namespace: "ns".into(),
        name: name.into(),
    }
}

fn exists(replicas: u32) -> State {
    State::Exists {
        replicas: Some(replicas),
        first_ordinal: 0,
    }
}

#[tokio::test(start_paused = true)]
async fn the_owner_chain_is_followed() {
    let server = Server::default();
    let deployment = Some(("apps/v1", "Deployment", "web"));
    server.put(REPLICA_SETS, replica_set("odd-name", deployment, "7"));
    server.put(REPLICA_SETS, replica_set("web-front", None, ""));
    let rollout = Some(("argoproj.io/v1", "Rollout", "r"));
    server.put(REPLICA_SETS, replica_set("r-1", rollout, "2"));
    let running = start(&server).await;
    let workloads = workloads(&server, &running);
    let asked = server.state().calls.len();
    let rollout = AppKind::ReplicaSetOf(GroupKind {
        group: "argoproj.io".into(),
        kind: "Rollout".into(),
    });
    let cases = [
        ("odd-name", AppKind::Deployment, "web", 7),
        ("web-front", AppKind::ReplicaSet, "web-front", 0),
        ("r-1", rollout, "r", 2),
    ];
    for (set, kind, name, revision) in cases {
        let pod = pod_of("ReplicaSet", set);
        assert_eq!(workloads.app_of(&pod).await, Ok(app(kind, name)));
        assert_eq!(workloads.revision(&pod), revision, "{set}");
    }
    let pod = pod_of("StatefulSet", "db");
    assert_eq!(
        workloads.app_of(&pod).await,
        Ok(app(AppKind::StatefulSet, "db"))
    );
    assert_eq!(workloads.revision(&pod), 0);
    assert_eq!(server.state().calls.len(), asked, "all from the cache");
}

#[tokio::test(start_paused = true)]
async fn only_a_direct_read_proves_that_a_replica_set_is_gone() {
    let server = Server::default();
    let running = start(&server).await;
    let workloads = workloads(&server, &running);
    let pod = pod_of("ReplicaSet", "web-front-1");
    let gone = workloads.app_of(&pod).await;
    assert_eq!(gone, Ok(app(AppKind::Deployment, "web-front")));

    let path = "replicasets/web-front-1";
    server.always(http_get(), path, Fault::Refuse(403));
    let error = workloads.app_of(&pod).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read ReplicaSet ns/web-front-1: \
         forbidden: floe-controller lacks the right to get replicasets of API group apps"
    );
    assert_eq!(error.reason(), "WorkloadUnreadable");
    server.heal();
    server.always(http_get(), path, Fault::Hang);
    let error = workloads.app_of(&pod).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read ReplicaSet ns/web-front-1: no answer within 4s"
    );
    server.heal();
    // The watch is slower than the pod.
    server.fault(
        http_get(),
        path,
        Fault::Before(Box::new(|state| {
            state.put(REPLICA_SETS, replica_set("web-front-1", None, ""));
        })),
    );
    let found = workloads.app_of(&pod).await;
    assert_eq!(found, Ok(app(AppKind::ReplicaSet, "web-front-1")));
}

#[tokio::test(start_paused = true)]
async fn built_in_workloads_come_from_the_cache_or_directly() {
    let server = Server::default();
    let running = start(&server).await;
    let workloads = workloads(&server, &running);
    let state = async |kind: &AppKind, freshness| {
        let found = workloads.workload(app(kind.clone(), "a"), freshness).await;
        assert_eq!(*found.scale(), Scale::Yes);
        found.state
    };
    let kinds = [
        (AppKind::Deployment, DEPLOYMENTS, "Deployment"),
        (AppKind::ReplicaSet, REPLICA_SETS, "ReplicaSet"),
        (AppKind::StatefulSet, STATEFUL_SETS, "StatefulSet"),
    ];
    for (kind, path, name) in kinds {
        for freshness in [Freshness::Cached, Freshness::Direct] {
            assert_eq!(state(&kind, freshness).await, State::Gone);
        }
        // Told by nobody yet: the cache does not have it.
        server.put(path, scaled("a", 2));
        assert_eq!(state(&kind, Freshness::Cached).await, exists(2));
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        server.always(http_get(), "/a", Fault::Refuse(403));
        assert_eq!(state(&kind, Freshness::Cached).await, exists(2));
        let right = path.rsplit('/').next().unwrap();
        let why = format!(
            "cannot read {name} ns/a: forbidden: \
             floe-controller lacks the right to get {right} of API group apps"
        );
        assert_eq!(
            state(&kind, Freshness::Direct).await,
            State::Unreadable { why }
        );
        server.heal();
        server.put(path, scaled("a", 0));
        assert_eq!(state(&kind, Freshness::Direct).await, exists(0));
    }
}

#[tokio::test(start_paused = true)]
async fn ordinals_and_missing_replicas_are_read() {
    let server = Server::default();
    let object = json!({
        "metadata": { "name": "a", "namespace": "ns" }, "spec": { "ordinals": { "start": 4 } },
    });
    server.put(STATEFUL_SETS, object);
    let running = start(&server).await;
    let workloads = workloads(&server, &running);
    let found = workloads.workload(app(AppKind::StatefulSet, "a"), Freshness::Cached);
    let expected = State::Exists {
        replicas: None,
        first_ordinal: 4,
    };
    assert_eq!(found.await.state, expected);
}

#[tokio::test(start_paused = true)]
async fn nobody_asks_about_what_has_no_replicas() {
    let server = Server::default();
    let running = start(&server).await;
    let workloads = workloads(&server, &running);
    let asked = server.state().calls.len();
    for kind in [AppKind::Job, AppKind::DaemonSet, AppKind::Bare] {
        let found = workloads.workload(app(kind, "a"), Freshness::Direct).await;
        assert_eq!(*found.scale(), Scale::No);
    }
    assert_eq!(server.state().calls.len(), asked);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_no_object_can_have_is_not_asked_for() {
    let server = Server::default();
    let running = start(&server).await;
    let workloads = workloads(&server, &running);
    for name in ["../../../../api/v1/secrets", "a/b", "a?b", ""] {
        let app = app(AppKind::StatefulSet, name);
        let found = workloads.workload(app, Freshness::Direct).await;
        assert_eq!(found.state, State::Gone, "{name}");
        let pod = pod_of("ReplicaSet", name);
        let _ = workloads.app_of(&pod).await;
    }
    let calls = server.state().calls.join("\n");
    assert!(!calls.contains("secrets"), "{calls}");
    assert!(!calls.contains("/a/b") && !calls.contains("a?b"), "{calls}");
}
