//! Which records somebody wants to see.

use floe_core::ipam::{key::KindPrefix, state::State};

use super::Record;
use crate::args::Selection;

/// Which records. What is given must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    namespace: Option<String>,
    pool: Option<String>,
    node: Option<String>,
    states: Vec<State>,
    kind: Option<KindPrefix>,
    app: Option<String>,
}

impl Filter {
    /// What a selection means; the namespace counts unless all are asked for. Labels
    /// are the server's business.
    pub fn of(selection: &Selection, namespace: &str) -> Self {
        let (kind, app) = match selection.app.as_deref().map(|app| app.split_once('/')) {
            Some(Some((kind, app))) => (Some(kind_of(kind)), Some(app.to_owned())),
            Some(None) => (None, selection.app.clone()),
            None => (None, None),
        };
        Self {
            namespace: (!selection.all_namespaces).then(|| namespace.to_owned()),
            pool: selection.pool.clone(),
            node: selection.node.clone(),
            states: selection.state.iter().map(|&state| state.into()).collect(),
            kind,
            app,
        }
    }

    /// Whether a record is among those.
    pub fn admits(&self, record: &Record) -> bool {
        let (parts, vip) = (record.parts(), record.key.vip());
        let namespace = vip.as_ref().map_or(parts.namespace, |vip| &vip.namespace);
        is(self.namespace.as_deref(), namespace)
            && is(self.pool.as_deref(), parts.pool.unwrap_or_default())
            && is(self.node.as_deref(), &record.node)
            && (self.states.is_empty() || self.states.contains(&record.state))
            && is(self.kind.as_ref().map(KindPrefix::as_str), parts.kind)
            && is(self.app.as_deref(), parts.app)
    }
}

fn is(wanted: Option<&str>, found: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == found)
}

/// The prefix for a kind that was typed; kubectl's short names are known, too.
fn kind_of(text: &str) -> KindPrefix {
    match text.to_lowercase().as_str() {
        "deploy" | "dp" => KindPrefix::DEPLOYMENT,
        "sts" => KindPrefix::STATEFUL_SET,
        "rs" => KindPrefix::REPLICA_SET,
        other => KindPrefix::from_parameter(other),
    }
}
