//! What the tests share: a cluster with an API server in memory, and objects for it.

use floe_shell::mock::Server;
use kube::Config;
use serde_json::{Value, json};

use crate::{args::ApiAccess, cluster::Cluster};

/// The path of records.
pub const RECORDS: &str = "/apis/galaxy.k8s.io/v1alpha1/floatingips";
/// The path of pools.
pub const POOLS: &str = "/apis/galaxy.k8s.io/v1alpha1/namespaces/kube-system/pools";

/// The context `lab`, in namespace `default`.
pub fn cluster(server: &Server) -> Cluster {
    Cluster {
        client: server.client(),
        config: Config::new(http::Uri::from_static("https://lab.example:6443")),
        context: "lab".into(),
        server: "https://lab.example:6443".into(),
        typed_namespace: None,
        context_namespace: "default".into(),
    }
}

/// The API as it is reached without any flags.
pub fn api() -> ApiAccess {
    ApiAccess {
        as_service_account: None,
        floe_namespace: "kube-system".into(),
        api_ca_file: None,
        api_server_name: None,
    }
}

/// A record that changed hands long ago; bound if there is a node.
pub fn record(name: &str, key: &str, node: &str) -> Value {
    let uid = if node.is_empty() { "" } else { "uid-1" };
    json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "FloatingIP",
        "metadata": { "name": name },
        "spec": {
            "key": key, "policy": 2, "updateTime": "2026-01-01T00:00:00Z",
            "attribute": json!({ "NodeName": node, "Uid": uid }).to_string(),
        },
    })
}

/// A reservation.
pub fn reservation(name: &str, purpose: &str) -> Value {
    let mut object = record(name, &format!("pool__{purpose}_"), "");
    object["metadata"]["labels"] = json!({ "reserved": "true" });
    object
}

/// A pool.
pub fn pool(name: &str, size: i64, preallocate: bool) -> Value {
    json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "Pool",
        "metadata": { "name": name, "creationTimestamp": "2026-01-01T00:00:00Z" },
        "size": size, "preAllocateIP": preallocate,
    })
}
