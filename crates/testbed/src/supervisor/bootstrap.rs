//! What a new cluster needs from its API server before it counts as up.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;

use super::addresses::API_SERVER;

/// Whether the API server answers and has finished its own start.
pub async fn api_server_is_ready(client: &Client) -> Result<bool> {
    let request = http::Request::get("/readyz").body(Vec::new())?;
    Ok(client.request_text(request).await? == "ok")
}

/// Points the `kubernetes` Service at the gate in front of the API server.
pub async fn publish_api_server(client: &Client) -> Result<()> {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": "kubernetes", "labels": { "kubernetes.io/service-name": "kubernetes" } },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": [API_SERVER.ip()], "conditions": { "ready": true } }],
        "ports": [{ "name": "https", "protocol": "TCP", "port": API_SERVER.port() }],
    });
    let apply = PatchParams::apply("floe-testbed").force();
    slices
        .patch("kubernetes", &apply, &Patch::Apply(slice))
        .await?;
    Ok(())
}

/// Whether pods can be created in the namespaces that every cluster has.
pub async fn service_accounts_exist(client: &Client) -> Result<bool> {
    for namespace in ["default", "kube-system"] {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
        if accounts.get_opt("default").await?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether that many nodes are Ready and free of the taints of a start.
pub async fn nodes_are_ready(client: &Client, count: usize) -> Result<bool> {
    let nodes: Api<Node> = Api::all(client.clone());
    let ready = nodes
        .list(&ListParams::default())
        .await?
        .items
        .iter()
        .filter(|node| is_ready(node))
        .count();
    Ok(ready == count)
}

/// Whether a node is Ready and takes pods.
pub fn is_ready(node: &Node) -> bool {
    let tainted = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_ref())
        .is_some_and(|taints| {
            taints
                .iter()
                .any(|taint| taint.key.starts_with("node.kubernetes.io/"))
        });
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    !tainted
        && conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
