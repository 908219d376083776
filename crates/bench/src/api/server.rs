//! A stand-in for the API server: it has records, their pods and definitions and nothing
//! else, knows every token, allows everything, and nothing ever happens there.
//!
//! What a controller has read is all that matters here, and a real one would need
//! minutes to be given as many records.

use std::{collections::BTreeMap, net::Ipv4Addr, path::Path, sync::Arc};

use anyhow::Result;
use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Query, Request, State},
    http::{Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use floe_api::crds;
use floe_core::config::Topology;
use kube::ResourceExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use super::scene;
use crate::scene::Size;

/// How many records a list tells at once, as the controller asks for them.
const PAGE: usize = 500;
/// A version as good as any: nothing changes.
const VERSION: &str = "1000";

/// A server that is gone with this value.
pub struct Server {
    port: u16,
    task: JoinHandle<std::io::Result<()>>,
}

/// What there is, as texts.
struct Content {
    /// The pages of the list of records.
    records: Vec<Bytes>,
    /// The pages of the list of pods.
    pod_pages: Vec<Bytes>,
    /// Pods by the end of their path.
    pods: BTreeMap<String, Value>,
    definitions: Vec<Value>,
}

/// What is asked of a list.
#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    watch: Option<String>,
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

impl Server {
    /// Serves the records of all addresses that are held.
    pub async fn start(size: Size) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let content = Arc::new(Content::of(size)?);
        let router = Router::new().fallback(answer).with_state(content);
        let serve = axum::serve(listener, router);
        let task = tokio::spawn(async move { serve.await });
        Ok(Self { port, task })
    }

    /// Writes the way to it into a file.
    pub fn write_kubeconfig(&self, file: &Path) -> Result<()> {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "contexts": [{ "name": "bench", "context": { "cluster": "bench", "user": "bench" } }],
            "clusters": [{
                "name": "bench", "cluster": { "server": format!("http://127.0.0.1:{}", self.port) },
            }],
            "users": [{ "name": "bench", "user": {} }],
        });
        Ok(std::fs::write(file, config.to_string())?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Content {
    fn of(size: Size) -> Result<Self> {
        let topology = Topology::new(size.config()?);
        let (mut objects, mut pods) = (Vec::new(), BTreeMap::new());
        for holding in scene::all(size) {
            objects.push(serde_json::to_value(holding.object(&topology)?)?);
            if let Some((namespace, name, pod)) = holding.pod() {
                pods.insert(format!("{namespace}/pods/{name}"), pod);
            }
        }
        let all: Vec<Value> = pods.values().cloned().collect();
        let definitions = crds::all().into_iter().map(|definition| {
            let name = definition.name_any();
            let mut definition = serde_json::to_value(definition)?;
            definition["metadata"]["name"] = name.into();
            definition["status"] = json!({
                "acceptedNames": definition["spec"]["names"],
                "storedVersions": ["v1alpha1"],
                "conditions": [{
                    "type": "Established", "status": "True", "reason": "Bench", "message": "",
                    "lastTransitionTime": "2024-01-01T00:00:00Z",
                }],
            });
            Ok(definition)
        });
        Ok(Self {
            records: pages(&objects),
            pod_pages: pages(&all),
            pods,
            definitions: definitions.collect::<Result<_>>()?,
        })
    }
}

async fn answer(
    State(content): State<Arc<Content>>,
    Query(asked): Query<Asked>,
    request: Request,
) -> Response {
    let path = request.uri().path();
    let (folder, name) = path.rsplit_once('/').unwrap_or_default();
    if *request.method() == Method::POST {
        return review(name);
    }
    if asked.watch.is_some() {
        // Nothing ever happens; it ends when the client does.
        let silence = futures::stream::pending::<Result<Bytes, std::io::Error>>();
        return told(Body::from_stream(silence));
    }
    if folder.ends_with("/customresourcedefinitions") {
        let mut all = content.definitions.iter();
        return match all.find(|it| it["metadata"]["name"] == name) {
            Some(found) => Json(found).into_response(),
            None => not_found(),
        };
    }
    let pod = path.split_once("/namespaces/").map(|(_, end)| end);
    if let Some(pod) = pod.and_then(|end| content.pods.get(end)) {
        return Json(pod).into_response();
    }
    let page = |pages: &[Bytes]| {
        let page: Option<usize> = asked.next.map_or(Some(0), |next| next.parse().ok());
        let page = page.and_then(|page| pages.get(page));
        page.map_or_else(not_found, |page| told(page.clone().into()))
    };
    match name {
        "floatingips" => page(&content.records),
        "pods" => page(&content.pod_pages),
        "pools" | "nodes" | "deployments" | "replicasets" | "statefulsets" => {
            Json(list(None, &[])).into_response()
        }
        "version" => Json(json!({
            "major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "",
            "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
        }))
        .into_response(),
        _ => not_found(),
    }
}

/// Takes everything that is written, and is content with everybody.
fn review(kind: &str) -> Response {
    let status = match kind {
        "tokenreviews" => json!({ "authenticated": true, "user": { "username": "bench" } }),
        "subjectaccessreviews" => json!({ "allowed": true }),
        _ => Value::Null,
    };
    let object = json!({ "metadata": {}, "spec": {}, "status": status });
    (StatusCode::CREATED, Json(object)).into_response()
}

/// The pages of a list, as texts.
fn pages(items: &[Value]) -> Vec<Bytes> {
    let pages = items.chunks(PAGE);
    let last = pages.len();
    let texts = pages.zip(1..).map(|(items, number)| {
        let next = (number < last).then(|| number.to_string());
        list(next.as_deref(), items).to_string().into()
    });
    texts.collect()
}

fn list(next: Option<&str>, items: &[Value]) -> Value {
    json!({
        "metadata": { "resourceVersion": VERSION, "continue": next },
        "items": items,
    })
}

fn told(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn not_found() -> Response {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "message": "not here", "reason": "NotFound", "code": 404,
    });
    (StatusCode::NOT_FOUND, Json(status)).into_response()
}
