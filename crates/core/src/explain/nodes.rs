//! Where a pod could run, in a few lines.

use std::collections::BTreeMap;

use crate::schedule::{filter::Sorted, refusal::NodeRefusal};

/// How many fitting nodes are named.
pub const NAMED: usize = 8;

/// Where a pod could run now, and why not elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// The first few nodes that could run it.
    pub fitting: Vec<String>,
    /// How many could.
    pub fit: usize,
    /// One refusal of each reason, with the number of nodes that it is about. Their
    /// texts may differ in an address.
    pub unfit: Vec<(NodeRefusal, usize)>,
}

impl Nodes {
    /// Sorted nodes in a few lines; the reason that most have comes first.
    pub fn of(sorted: &Sorted<'_>) -> Self {
        let mut unfit: BTreeMap<&str, (NodeRefusal, usize)> = BTreeMap::new();
        for (_, refusal) in &sorted.unfit {
            let (_, count) = unfit.entry(refusal.reason()).or_insert((*refusal, 0));
            *count += 1;
        }
        let mut unfit: Vec<_> = unfit.into_values().collect();
        unfit.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let fitting = sorted.fit.iter().take(NAMED);
        Self {
            fitting: fitting.map(|node| (*node).to_owned()).collect(),
            fit: sorted.fit.len(),
            unfit,
        }
    }
}
