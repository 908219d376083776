//! What those who watch are told.

use std::io;

use floe_core::nodepool::matching::Selector;
use futures::channel::mpsc::UnboundedSender;
use serde_json::{Value, json};

use super::place::{self, Place};

/// What has happened to an object.
pub(super) struct Change {
    pub version: u64,
    pub namespace: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// Somebody who watches, and the version that it goes on from.
pub(super) struct Watcher {
    pub place: Place,
    pub selector: Selector,
    pub from: u64,
    pub sender: UnboundedSender<io::Result<Vec<u8>>>,
}

impl Watcher {
    /// What it is told of a change, if anything. An object that gets other labels comes and
    /// goes, for those who watch by labels.
    pub fn event(&self, change: &Change) -> Option<Value> {
        if change.version <= self.from || !self.place.shows(&change.namespace) {
            return None;
        }
        let selected = |object: &Option<Value>| {
            let object = object.as_ref();
            object
                .filter(|it| place::selects(&self.selector, it))
                .cloned()
        };
        let (kind, object) = match (selected(&change.before), selected(&change.after)) {
            (None, None) => return None,
            (None, Some(new)) => ("ADDED", new),
            (Some(_), Some(new)) => ("MODIFIED", new),
            (Some(mut old), None) => {
                old["metadata"]["resourceVersion"] = json!(change.version.to_string());
                ("DELETED", old)
            }
        };
        Some(json!({ "type": kind, "object": object }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::core::v1::Node;
    use kube::{
        Api, ResourceExt as _,
        api::ListParams,
        runtime::watcher::{Config, Event},
    };
    use tokio::sync::mpsc;

    use super::*;
    use crate::{follow, mock::Server};

    const NODES: &str = "/api/v1/nodes";

    fn node(name: &str, role: &str) -> Value {
        json!({ "metadata": { "name": name, "labels": { "role": role } } })
    }

    #[tokio::test]
    async fn lists_and_watches_show_only_what_has_the_labels() {
        let server = Server::default();
        server.put(NODES, node("a", "web"));
        server.put(NODES, node("b", "db"));
        let api: Api<Node> = Api::all(server.client());
        let asked = ListParams::default().labels("role in (web)");
        let names = |nodes: Vec<Node>| nodes.iter().map(Node::name_any).collect::<Vec<_>>();
        assert_eq!(names(api.list(&asked).await.unwrap().items), ["a"]);

        let (sender, mut told) = mpsc::unbounded_channel();
        let enter = move |event| sender.send(event).unwrap();
        let config = Config::default().labels("role=web");
        let following = tokio::spawn(follow(api, config, "nodes", enter));
        let mut known = BTreeSet::new();
        let mut next = async || {
            let event = told.recv().await.unwrap();
            match event {
                Event::Init | Event::InitDone => {}
                Event::InitApply(node) | Event::Apply(node) => {
                    known.insert(node.name_any());
                }
                Event::Delete(node) => {
                    known.remove(&node.name_any());
                }
            }
            known.iter().cloned().collect::<Vec<_>>()
        };
        while next().await != ["a"] {}
        server.put(NODES, node("c", "db"));
        server.put(NODES, node("b", "web"));
        while next().await != ["a", "b"] {}
        // It is still there, but for this watch it has gone.
        server.put(NODES, node("a", "db"));
        while next().await != ["b"] {}
        server.delete(NODES, "c");
        server.delete(NODES, "b");
        while !next().await.is_empty() {}
        following.abort();
    }
}
