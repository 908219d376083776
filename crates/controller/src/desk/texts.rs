//! Words for nodes that will not do.

use std::{borrow::Cow, sync::LazyLock};

use floe_core::schedule::{filter::Sorted, refusal::NodeRefusal};

/// The texts of one answer. Thousands of nodes have few different ones.
#[derive(Default)]
pub struct Texts {
    /// The last one that was not a constant.
    last: Option<(NodeRefusal, String)>,
}

static NO_ADDRESS_LEFT: LazyLock<String> = LazyLock::new(|| NodeRefusal::NoAddressLeft.to_string());

static UNKNOWN_NODE: LazyLock<String> = LazyLock::new(|| NodeRefusal::UnknownNode.to_string());

impl Texts {
    /// The text of a refusal.
    pub fn of(&mut self, refusal: NodeRefusal) -> Cow<'static, str> {
        match refusal {
            NodeRefusal::NoAddressLeft => NO_ADDRESS_LEFT.as_str().into(),
            NodeRefusal::UnknownNode => UNKNOWN_NODE.as_str().into(),
            NodeRefusal::NotConfigured { .. }
            | NodeRefusal::KeptElsewhere { .. }
            | NodeRefusal::SpareElsewhere { .. } => {
                let (_, text) = match self.last.take() {
                    Some(last) if last.0 == refusal => self.last.insert(last),
                    _ => self.last.insert((refusal, refusal.to_string())),
                };
                text.clone().into()
            }
        }
    }
}

/// If no node will do, the refusal that tells most about what the pod waits for.
pub fn most_telling(sorted: &Sorted<'_>) -> Option<NodeRefusal> {
    if !sorted.fit.is_empty() {
        return None;
    }
    let refusals = sorted.unfit.iter().map(|(_, refusal)| *refusal);
    refusals.min_by_key(|refusal| match refusal {
        NodeRefusal::KeptElsewhere { .. } => 0,
        NodeRefusal::SpareElsewhere { .. } => 1,
        NodeRefusal::NoAddressLeft => 2,
        NodeRefusal::NotConfigured { .. } => 3,
        NodeRefusal::UnknownNode => 4,
    })
}
