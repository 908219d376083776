use floe_shell::mock::{Fault, Server};
use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::fixture;

const PODS: &str = "/api/v1/namespaces/kube-system/pods";

fn controller(name: &str, ready: &str, ports: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "app.kubernetes.io/name": "floe-controller" } },
        "spec": { "containers": [{ "name": "controller", "ports": ports }] },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    })
}

async fn found(server: &Server) -> Result<Vec<(String, u16)>, Failure> {
    let cluster = fixture::cluster(server);
    let pods = Forward::new(&cluster, "kube-system").controllers().await?;
    Ok(pods.iter().map(|it| (it.name_any(), port(it))).collect())
}

#[tokio::test]
async fn only_controllers_that_are_ready_are_asked_at_the_port_they_name() {
    let server = Server::default();
    let failure = found(&server).await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "no controller of floe runs in namespace kube-system"
    );
    let mut going = controller("going", "True", &json!([]));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    server.put(PODS, going);
    let mut evicted = controller("evicted", "False", &json!([]));
    evicted["status"]["phase"] = json!("Failed");
    server.put(PODS, evicted);
    let failure = found(&server).await.unwrap_err();
    assert!(failure.leaves_nobody_to_ask(), "{failure}");
    server.put(PODS, controller("a", "False", &json!([])));
    let failure = found(&server).await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "the only controller of floe in namespace kube-system is not ready"
    );
    assert!(!failure.leaves_nobody_to_ask(), "it will be");
    let ports = json!([
        { "name": "health", "containerPort": 8080 }, { "name": "api", "containerPort": 9999 },
    ]);
    server.put(PODS, controller("b", "True", &ports));
    server.put(PODS, controller("c", "True", &json!([])));
    let wanted = [("b".to_owned(), 9999), ("c".to_owned(), 9041)];
    assert_eq!(found(&server).await.unwrap(), wanted);
}

#[tokio::test]
async fn who_may_not_list_pods_hears_which_right_he_lacks() {
    let server = Server::default();
    server.always(Method::GET, "pods", Fault::Refuse(403));
    let failure = found(&server).await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "you may not list pods in namespace kube-system"
    );
}

#[tokio::test]
async fn a_refused_port_forward_names_the_right() {
    let server = Server::default();
    let cluster = fixture::cluster(&server);
    let forward = Forward::new(&cluster, "kube-system");
    let refused = |status: u16| {
        let status = http::StatusCode::from_u16(status).unwrap();
        let error = UpgradeConnectionError::ProtocolSwitch(status);
        forward.failure("a", &kube::Error::UpgradeConnection(error))
    };
    let failure = refused(403);
    assert_eq!(
        failure.to_string(),
        "you may not get pods/portforward in namespace kube-system"
    );
    let hint = failure.hint().unwrap();
    assert!(
        hint.contains("create role pods-portforward-get --verb=get,create"),
        "{hint}"
    );
    assert_eq!(refused(401).reason(), "Unauthorized");
    assert!(refused(500).is_passing());
}
