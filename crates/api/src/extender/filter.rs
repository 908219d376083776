//! The answer to filter.

use std::{fmt, sync::Arc};

use floe_core::schedule::{filter::Sorted, refusal::NodeRefusal};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::Nodes;

/// What becomes of one node.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The pod may run there.
    Fits,
    /// Not now, for this reason; it might if others made room.
    Fails(Text),
    /// Not even if others made room, for this reason.
    Unresolvable(Text),
}

/// Why a node will not do. Thousands of nodes have the same text, so it is made
/// ready for the answer once and shared.
#[derive(Clone)]
pub struct Text(Arc<RawValue>);

impl<T: fmt::Display + ?Sized> From<&T> for Text {
    fn from(text: &T) -> Self {
        let json = to_raw_value(&text.to_string());
        Self(json.expect("a text is always written").into())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0.get())
    }
}

/// The answer to filter, in the form in which the nodes came.
///
/// Compat: `nodes` is always there, and what is empty of the rest is not. A
/// scheduler that sent names gets `null` for it, and always a list of names,
/// since it would take a missing one for galaxy's answer in objects.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FilterAnswer<'a> {
    nodes: Option<NodeList<'a>>,
    #[serde(rename = "nodenames", skip_serializing_if = "Option::is_none")]
    names: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    failed_nodes: Reasons<'a>,
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    failed_and_unresolvable_nodes: Reasons<'a>,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
}

impl Nodes<'_> {
    /// The answer that has a verdict for each node, asked for in their order.
    pub fn judge<'a>(&'a self, mut verdict: impl FnMut(&'a str) -> Verdict) -> FilterAnswer<'a> {
        let mut failed = Reasons::default();
        let mut unresolvable = Reasons::default();
        let mut fits = |name: &'a str| match verdict(name) {
            Verdict::Fits => true,
            Verdict::Fails(reason) => {
                failed.0.push((name, reason));
                false
            }
            Verdict::Unresolvable(reason) => {
                unresolvable.0.push((name, reason));
                false
            }
        };
        let (nodes, names) = match self {
            Self::Names(names) => {
                let names = names.iter().map(|name| &**name);
                (None, Some(names.filter(|name| fits(name)).collect()))
            }
            Self::Objects(objects) => {
                let fitting = objects.iter().filter(|node| fits(&node.name));
                let items = fitting.map(|node| node.object).collect();
                (Some(NodeList::of(items)), None)
            }
        };
        FilterAnswer {
            nodes,
            names,
            failed_nodes: failed,
            failed_and_unresolvable_nodes: unresolvable,
            error: String::new(),
        }
    }

    /// The answer that a decision gives, whose lists have the order of the nodes.
    pub fn answer<'a>(&'a self, sorted: &Sorted<'_>) -> FilterAnswer<'a> {
        let mut texts = Texts::default();
        let mut unfit = sorted.unfit.iter().peekable();
        self.judge(|node| {
            let Some((_, refusal)) = unfit.next_if(|(name, _)| *name == node) else {
                return Verdict::Fits;
            };
            let text = texts.of(*refusal);
            if refusal.is_curable_by_preemption() {
                Verdict::Fails(text)
            } else {
                Verdict::Unresolvable(text)
            }
        })
    }

    /// The answer for a pod that is none of floe's business: every node fits.
    pub fn pass(&self) -> FilterAnswer<'_> {
        self.judge(|_| Verdict::Fits)
    }

    /// The answer for a pod that cannot be placed at all now: no node, and why.
    pub fn refuse(&self, error: impl Into<String>) -> FilterAnswer<'static> {
        let (nodes, names) = match self {
            Self::Names(_) => (None, Some(Vec::new())),
            Self::Objects(_) => (Some(NodeList::of(Vec::new())), None),
        };
        FilterAnswer {
            nodes,
            names,
            failed_nodes: Reasons::default(),
            failed_and_unresolvable_nodes: Reasons::default(),
            error: error.into(),
        }
    }
}

/// The texts of one answer. Neighbours are mostly refused for the same reason.
#[derive(Default)]
pub(super) struct Texts {
    last: Option<(NodeRefusal, Text)>,
}

impl Texts {
    /// The text of a refusal.
    pub fn of(&mut self, refusal: NodeRefusal) -> Text {
        let last = self.last.take().filter(|(of, _)| *of == refusal);
        let last = last.unwrap_or_else(|| (refusal, Text::from(&refusal)));
        self.last.insert(last).1.clone()
    }
}

#[derive(Debug, Serialize)]
struct NodeList<'a> {
    metadata: Empty,
    items: Vec<&'a RawValue>,
}

/// Go writes the metadata of a list even if there is none.
#[derive(Debug, Serialize)]
struct Empty {}

impl<'a> NodeList<'a> {
    fn of(items: Vec<&'a RawValue>) -> Self {
        Self {
            metadata: Empty {},
            items,
        }
    }
}

/// Why which node fails. Written as a map, but never looked up, so a list does.
#[derive(Debug, Default)]
struct Reasons<'a>(Vec<(&'a str, Text)>);

impl Reasons<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Reasons<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(node, reason)| (node, &*reason.0)))
    }
}
