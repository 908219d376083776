//! The parts of a path of the API.

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
