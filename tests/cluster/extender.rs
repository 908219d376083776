//! The scheduler asks an extender about pods that want a float IP, and only them.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use axum::extract::{Path, State};
use axum::{Json, Router, routing::post};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{shared, wait};
use floe_testbed::floe;
use floe_testbed::supervisor::addresses::{CONTROL_PLANE, EXTENDER_PORT, EXTENDER_SERVICE};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::LIMIT;

/// An extender that keeps every pod off node-1 and writes down what it was asked.
#[derive(Clone)]
struct Extender {
    client: kube::Client,
    calls: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Extender {
    fn calls(&self, verb: &str) -> Vec<Value> {
        let calls = self.calls.lock().expect("nobody panics while holding it");
        calls
            .iter()
            .filter(|(called, _)| called == verb)
            .map(|(_, body)| body.clone())
            .collect()
    }
}

async fn answer(
    State(extender): State<Extender>,
    Path(verb): Path<String>,
    Json(body): Json<Value>,
) -> Json<Value> {
    extender
        .calls
        .lock()
        .expect("nobody panics while holding it")
        .push((verb.clone(), body.clone()));
    Json(match verb.as_str() {
        "filter" => {
            json!({ "NodeNames": ["node-2", "node-3"], "FailedNodes": { "node-1": "kept free" } })
        }
        "priority" => json!([{ "Host": "node-2", "Score": 10 }, { "Host": "node-3", "Score": 0 }]),
        "bind" => match bind(&extender.client, &body).await {
            Ok(()) => json!({ "Error": "" }),
            Err(error) => json!({ "Error": format!("{error:#}") }),
        },
        other => json!({ "Error": format!("unexpected verb {other}") }),
    })
}

/// The binder posts the Binding itself.
async fn bind(client: &kube::Client, body: &Value) -> Result<()> {
    let field = |name: &str| {
        body[name]
            .as_str()
            .with_context(|| format!("no {name} in {body}"))
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), field("PodNamespace")?);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": { "name": field("PodName")?, "uid": field("PodUID")? },
        "target": { "apiVersion": "v1", "kind": "Node", "name": field("Node")? },
    });
    let _: Value = pods
        .create_subresource(
            "binding",
            field("PodName")?,
            &PostParams::default(),
            &binding,
        )
        .await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn the_scheduler_asks_the_extender_about_float_ip_pods_only() -> Result<()> {
    // Alone: there is one address for an extender, and others want floe's there.
    let cluster = shared::alone().await;
    floe::withdraw_extender(&cluster)?;
    let namespace = TestNamespace::create(&cluster, "extender").await?;
    let extender = Extender {
        client: cluster.client().await?,
        calls: Arc::default(),
    };
    let control_plane = cluster.host(CONTROL_PLANE).await?;
    let listener = control_plane.network()?.listen("10.200.0.1:0".parse()?)?;
    let port = listener.local_addr()?.port();
    let router = Router::new()
        .route("/v1/{verb}", post(answer))
        .with_state(extender.clone());
    let server = tokio::spawn(async move { axum::serve(listener, router).await });

    let manifest = format!(
        "
apiVersion: v1
kind: Service
metadata: {{ name: extender }}
spec: {{ clusterIP: {EXTENDER_SERVICE}, ports: [{{ port: {EXTENDER_PORT} }}] }}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{ name: extender, labels: {{ kubernetes.io/service-name: extender }} }}
addressType: IPv4
endpoints: [{{ addresses: [10.200.0.1], conditions: {{ ready: true }} }}]
ports: [{{ port: {port} }}]
---
{{apiVersion: v1, kind: Pod, metadata: {{name: float, labels: {{app: asks}}}}, spec: {{containers: [{{name: main, image: nginx,
  resources: {{requests: {{tke.cloud.tencent.com/eni-ip: '1'}}, limits: {{tke.cloud.tencent.com/eni-ip: '1'}}}}}}]}}}}
---
{{apiVersion: v1, kind: Pod, metadata: {{name: plain, labels: {{app: plain}}}}, spec: {{containers: [{{name: main, image: nginx}}]}}}}
"
    );
    // The address may still be with an earlier run's Service.
    wait::until("the extender's address is free", LIMIT, async || {
        namespace.apply(&manifest).map(Some)
    })
    .await?;
    namespace.ready_pods("app=plain", 1, LIMIT).await?;
    // A first attempt may come before the Service is served everywhere; touching
    // a waiting pod makes the scheduler try again at once.
    let bound = wait::until(
        "the float IP pod is bound by the extender",
        LIMIT,
        async || {
            if extender.calls("bind").is_empty() {
                namespace.kubectl(&[
                    "annotate",
                    "--overwrite",
                    "pod",
                    "float",
                    &format!("try={}", now()),
                ])?;
            }
            let pod = namespace.api::<Pod>().get("float").await?;
            Ok(pod.spec.and_then(|spec| spec.node_name))
        },
    )
    .await?;
    server.abort();
    namespace.kubectl(&["delete", "service", "extender"])?;

    assert_ne!(bound, "node-1");
    let filtered = extender.calls("filter");
    assert!(!filtered.is_empty() && !extender.calls("priority").is_empty());
    for call in &filtered {
        assert_eq!(
            call["Pod"]["metadata"]["name"], "float",
            "only pods that ask for a float IP are asked about"
        );
        assert!(
            call["NodeNames"].is_array() && call["Nodes"].is_null(),
            "node names only: {call}"
        );
    }
    assert_eq!(extender.calls("bind")[0]["PodName"], "float");
    Ok(())
}

fn now() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_millis()
}
