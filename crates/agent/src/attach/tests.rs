use std::fs;

use axum::http::Method;
use floe_shell::mock::Server;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::{
    delegate::tests::Plugins,
    events::Inbox,
    request::tests::{body, config},
};

mod add;
mod del;
mod others;
mod restore;

const PODS: &str = "/api/v1/namespaces/ns/pods";
const RECORDS: &str = "/apis/galaxy.k8s.io/v1alpha1/floatingips";

/// A node with fake plugins and a fake API server.
struct Node {
    server: Server,
    plugins: Plugins,
    attacher: Attacher,
    inbox: Inbox,
    folder: TempDir,
}

impl Node {
    /// With two networks, `one` and `two`, of plugins of the same names.
    fn new() -> Self {
        Self::with(&json!({
            "NetworkConf": [{ "type": "one", "mark": 1 }, { "type": "two", "mark": 2 }],
            "DefaultNetworks": ["one", "two"],
        }))
    }

    fn with(settings: &Value) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("galaxy.json");
        fs::write(&file, settings.to_string()).unwrap();
        fs::create_dir(folder.path().join("net.d")).unwrap();
        let server = Server::default();
        let plugins = Plugins::new();
        plugins.good("one", &result("10.0.0.5/24"));
        plugins.good("two", &result("10.0.1.5/24"));
        let (events, inbox) = events::channel();
        let attacher = Attacher {
            pods: Pods::new(server.client()),
            records: Some(Records::new(server.client())),
            networks: Networks::load(&file, &folder.path().join("net.d")).unwrap(),
            states: States::new(folder.path().join("state")),
            runner: Runner::new(vec![plugins.path()]),
            events,
            conflicts: Conflicts::default(),
        };
        let node = Self {
            server,
            plugins,
            attacher,
            inbox,
            folder,
        };
        node.pod(&json!({}));
        node
    }

    /// The pod `ns/web-0` with these annotations.
    fn pod(&self, annotations: &Value) {
        self.server.put(
            PODS,
            json!({
                "metadata": { "name": "web-0", "uid": "u1", "annotations": annotations },
            }),
        );
    }

    /// The pod with this `common` in its arguments.
    fn common(&self, common: &Value) {
        let args = json!({ "common": common }).to_string();
        self.pod(&json!({ "k8s.v1.cni.galaxy.io/args": args }));
    }

    fn record(&self, ip: &str, key: &str, uid: &str) {
        let attribute = json!({ "NodeName": "n1", "Uid": uid }).to_string();
        self.server.put(
            RECORDS,
            json!({
                "metadata": { "name": ip },
                "spec": { "key": key, "attribute": attribute, "policy": 0 },
            }),
        );
    }

    async fn add(&self, container: &str) -> Result<Value, AttachError> {
        self.add_in(container, "1.0.0").await
    }

    async fn add_in(&self, container: &str, version: &str) -> Result<Value, AttachError> {
        let request = request("ADD", container, &config(version));
        self.attacher.add(&request).await
    }

    async fn del(&self, container: &str) -> Result<(), AttachError> {
        let request = request("DEL", container, &config("1.0.0"));
        self.attacher.del(&request).await
    }

    fn state(&self, container: &str) -> Option<Value> {
        let text = fs::read_to_string(self.state_file(container)).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }

    fn state_file(&self, container: &str) -> std::path::PathBuf {
        self.folder.path().join("state").join(container)
    }

    /// What plugins were called with, as JSON.
    fn inputs(&self, kind: &str) -> Vec<Value> {
        let lines = self.plugins.lines(&format!("{kind}.input"));
        lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn calls(&self) -> Vec<String> {
        self.plugins.calls()
    }
}

fn request(command: &str, container: &str, config: &Value) -> Request {
    let body = body(command, container, config).to_string();
    Request::parse(body.as_bytes()).unwrap()
}

/// What a plugin prints after an ADD.
fn result(address: &str) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "interfaces": [{ "name": "eth0", "sandbox": "/run/netns/x" }],
        "ips": [{ "address": address, "gateway": "10.0.0.1", "interface": 0 }],
        "routes": [{ "dst": "0.0.0.0/0" }],
        "dns": {},
    })
}

/// A script that fails at a command, and is fine with others.
fn fails(command: &str, message: &str, fine: &Value) -> String {
    let error = json!({ "cniVersion": "1.0.0", "code": 7, "msg": message });
    format!(
        "[ $CNI_COMMAND = {command} ] && {{ echo '{error}'; exit 1; }}\n\
         [ $CNI_COMMAND = ADD ] && echo '{fine}'; exit 0"
    )
}
