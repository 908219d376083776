use std::time::Duration;

use floe_shell::mock::Server;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::cluster::tests::{DEPLOYMENTS, REPLICA_SETS, start};

const PODS: &str = "/api/v1/pods";
const DAEMON_SETS: &str = "/apis/apps/v1/daemonsets";

fn pod(name: &str, ready: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "labels": { "app": "web" },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u",
                "controller": true,
            }],
        },
        "spec": { "nodeName": "n1" },
        "status": {
            "phase": "Running", "podIP": "10.1.0.1", "podIPs": [{ "ip": "10.1.0.1" }, { "ip": "fd00::1" }],
            "conditions": [{
                "type": "Ready", "status": ready, "lastTransitionTime": "1970-01-01T00:01:40Z",
            }],
        },
    })
}

async fn stirred(cluster: &Cluster) -> Vec<String> {
    let stirred = timeout(Duration::from_secs(1), cluster.stirred()).await;
    stirred.map_or_else(|_| Vec::new(), |all| all.into_iter().collect())
}

#[tokio::test(start_paused = true)]
async fn every_pod_is_known_with_what_makes_it_fit() {
    let server = Server::default();
    server.put(PODS, pod("a", "True"));
    server.put(PODS, pod("b", "False"));
    let running = start(&server).await;
    let cluster = &running.cluster;
    let members = cluster.members("ns");
    let known: Vec<_> = members
        .iter()
        .map(|it| (it.name.as_str(), it.ready_since, it.addresses.len()))
        .collect();
    assert_eq!(known, [("a", Some(100), 2), ("b", None, 2)]);
    assert!(Arc::ptr_eq(&members[0].shape, &members[1].shape));
    let controller = (Sort::ReplicaSet, "web-1".to_owned());
    assert_eq!(members[0].shape.controller, Some(controller));
    assert!(
        cluster.pods().is_empty(),
        "none wants an address of its own"
    );
    assert!(cluster.knows_claims());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_stirred_by_what_matters_and_by_nothing_else() {
    let server = Server::default();
    server.put(PODS, pod("a", "True"));
    let running = start(&server).await;
    let cluster = &running.cluster;
    assert_eq!(stirred(cluster).await, ["ns"]);
    server.put(PODS, pod("a", "True"));
    assert_eq!(stirred(cluster).await, [""; 0], "the same again");
    server.put(PODS, pod("a", "False"));
    assert_eq!(stirred(cluster).await, ["ns"]);
    let mut other = pod("b", "True");
    other["metadata"]["namespace"] = json!("other");
    server.put(PODS, other);
    server.delete(PODS, "a");
    assert_eq!(stirred(cluster).await, ["ns", "other"]);
    assert!(cluster.members("ns").is_empty());
    let set = json!({ "metadata": { "name": "d", "namespace": "ds" } });
    server.put(DAEMON_SETS, set.clone());
    assert_eq!(stirred(cluster).await, [""; 0], "it asks for nothing");
    let mut asking = set;
    asking["metadata"]["annotations"] = json!({ FLOE_SHARED: "[]" });
    server.put(DAEMON_SETS, asking);
    assert_eq!(stirred(cluster).await, ["ds"]);
    server.delete(DAEMON_SETS, "d");
    assert_eq!(stirred(cluster).await, ["ds"]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_of_a_deployment_asks_only_through_it() {
    let server = Server::default();
    let asking = |name: &str| {
        json!({ "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "annotations": { CALICO_SHARED: "[\"10.0.0.1\"]" },
        } })
    };
    let mut copy = asking("web-1");
    copy["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": true,
    }]);
    server.put(REPLICA_SETS, copy);
    server.put(REPLICA_SETS, asking("alone"));
    server.put(DAEMON_SETS, asking("everywhere"));
    let running = start(&server).await;
    let cluster = &running.cluster;
    let herds = || -> Vec<String> {
        let herds = cluster.herds("ns").into_iter();
        herds
            .map(|it| format!("{} {}", it.sort.kind(), it.name))
            .collect()
    };
    assert_eq!(herds(), ["ReplicaSet alone", "DaemonSet everywhere"]);
    assert_eq!(cluster.deployment_of("ns", "web-1").as_deref(), Some("web"));
    stirred(cluster).await;
    server.put(DEPLOYMENTS, asking("web"));
    assert_eq!(stirred(cluster).await, ["ns"]);
    assert_eq!(herds()[0], "Deployment web");
    assert_eq!(cluster.asking_namespaces(), ["ns".to_owned()].into());
}
