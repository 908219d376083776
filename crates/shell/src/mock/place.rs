//! The parts of a path of the API, and which objects are asked for.

use std::collections::BTreeMap;

use axum::{extract::Query, http::Uri};
use floe_core::nodepool::matching::Selector;
use serde_json::Value;

/// The parameters of a request.
pub(super) fn parameters(uri: &str) -> BTreeMap<String, String> {
    let uri: Uri = uri.parse().unwrap();
    Query::try_from_uri(&uri).unwrap().0
}

/// The selector of labels of a list or watch; without one, everything.
pub(super) fn selector(parameters: &BTreeMap<String, String>) -> Selector {
    let text = parameters.get("labelSelector");
    Selector::parse(text.map_or("", String::as_str)).unwrap()
}

/// Whether an object has the labels.
pub(super) fn selects(selector: &Selector, object: &Value) -> bool {
    let labels = object["metadata"]["labels"].as_object();
    let labels = labels.into_iter().flatten().map(|(name, value)| {
        let value = value.as_str().unwrap_or_default();
        (name.clone(), value.to_owned())
    });
    selector.matches(&labels.collect())
}

/// What a path is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The path of the collection without its namespace; empty for discovery.
    pub collection: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
}

impl Place {
    pub fn of(path: &str) -> Self {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let version = if parts[0] == "api" { 2 } else { 3 };
        let prefix = &parts[..version.min(parts.len())];
        let (namespace, rest) = match &parts[prefix.len()..] {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let part = |number: usize| rest.get(number).map(|part| (*part).to_owned());
        Self {
            collection: part(0).map_or_else(String::new, |resource| {
                format!("/{}/{resource}", prefix.join("/"))
            }),
            namespace: namespace.map(str::to_owned),
            name: part(1),
            subresource: part(2),
        }
    }

    /// Whether it includes objects of a namespace.
    pub fn shows(&self, namespace: &str) -> bool {
        self.namespace.as_ref().is_none_or(|own| own == namespace)
    }
}
