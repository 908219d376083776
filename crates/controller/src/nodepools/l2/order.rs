//! An order to agents, by a text that a later process understands as well.

use floe_core::nodepool::cloud::Progress;
use jiff::{SignedDuration, Timestamp};

/// How long a node may take to have an address. Then it is for the pool to think again.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// A node shall have an address, or nobody shall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// None: nobody.
    node: Option<String>,
    since: Timestamp,
}

impl Order {
    /// This node shall have it.
    pub fn to(node: &str, now: Timestamp) -> Self {
        Self {
            node: Some(node.to_owned()),
            since: now,
        }
    }

    /// Nobody shall have it.
    pub fn away(now: Timestamp) -> Self {
        Self {
            node: None,
            since: now,
        }
    }

    /// As a text. No name of a node has a slash.
    pub fn text(&self) -> String {
        let node = self.node.as_deref().unwrap_or_default();
        format!("{}/{node}", self.since.as_second())
    }

    /// Reads such a text.
    pub fn parse(text: &str) -> Option<Self> {
        let (since, node) = text.split_once('/')?;
        Some(Self {
            node: (!node.is_empty()).then(|| node.to_owned()),
            since: Timestamp::from_second(since.parse().ok()?).ok()?,
        })
    }

    /// How far it is, by the nodes that are named, the one that has the address, and why the
    /// address is not granted.
    pub fn progress(
        &self,
        named: &[String],
        holder: Option<&str>,
        refused: Option<&str>,
        now: Timestamp,
    ) -> Progress {
        let wanted = self.node.as_deref();
        if named.first().map(String::as_str) != wanted {
            return Progress::Failed("another order came after it".into());
        }
        if holder == wanted {
            return Progress::Done;
        }
        if let Some(why) = refused {
            return Progress::Failed(why.to_owned());
        }
        if now.duration_since(self.since) < PATIENCE {
            return Progress::Pending;
        }
        Progress::Failed(match (wanted, holder) {
            (Some(node), _) => format!(
                "node {node} has not taken it within {} s: does its agent run, and can it serve it?",
                PATIENCE.as_secs()
            ),
            (None, holder) => format!(
                "node {} has not let go of it within {} s",
                holder.unwrap_or_default(),
                PATIENCE.as_secs()
            ),
        })
    }
}
