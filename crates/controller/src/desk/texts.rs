//! Words for nodes that will not do.

use floe_api::extender::Text;
use floe_core::schedule::{filter::Sorted, refusal::NodeRefusal};

/// The texts of one answer. Neighbours are mostly refused for the same reason.
#[derive(Default)]
pub struct Texts {
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
