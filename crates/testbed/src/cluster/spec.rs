//! What a cluster shall look like.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// The wish for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSpec {
    /// Clusters of different names live side by side; two of one name cannot.
    pub name: String,
    /// Nodes with a kubelet and containerd.
    pub nodes: u8,
    /// Nodes that exist in the API only, for scale.
    pub fake_nodes: u32,
    /// Whether the scheduler sends node names only to the extender (its
    /// `nodeCacheCapable`), or whole nodes.
    pub extender_gets_names_only: bool,
    /// Whether the scheduler knows of an extender at all.
    #[serde(default = "yes")]
    pub has_extender: bool,
}

fn yes() -> bool {
    true
}

impl ClusterSpec {
    /// The most real nodes that the address plan has room for.
    pub const MAX_NODES: u8 = 20;
    /// The most fake nodes whose leases are renewed in time.
    pub const MAX_FAKE_NODES: u32 = 1_000;

    /// A cluster with three nodes, for people and for tests.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            nodes: 3,
            fake_nodes: 0,
            extender_gets_names_only: true,
            has_extender: true,
        }
    }

    /// With that many real nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: u8) -> Self {
        self.nodes = nodes;
        self
    }

    /// With that many fake nodes.
    #[must_use]
    pub fn fake_nodes(mut self, fake_nodes: u32) -> Self {
        self.fake_nodes = fake_nodes;
        self
    }

    /// With a scheduler that nobody has configured.
    #[must_use]
    pub fn without_extender(mut self) -> Self {
        self.has_extender = false;
        self
    }

    /// Refuses what cannot be built, saying why.
    pub fn validate(&self) -> Result<()> {
        validate_name(&self.name)?;
        if self.nodes == 0 || self.nodes > Self::MAX_NODES {
            bail!(
                "a cluster has 1 to {} nodes, not {}",
                Self::MAX_NODES,
                self.nodes
            );
        }
        if self.fake_nodes > Self::MAX_FAKE_NODES {
            bail!(
                "a cluster has at most {} fake nodes, not {}",
                Self::MAX_FAKE_NODES,
                self.fake_nodes
            );
        }
        Ok(())
    }
}

/// A name becomes part of paths, control groups and host names.
pub fn validate_name(name: &str) -> Result<()> {
    let ordinary = !name.is_empty()
        && name.len() <= 20
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !ordinary {
        bail!("{name:?} is no cluster name: 1 to 20 lower-case letters, digits and inner dashes");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_their_directory_are_refused() {
        for bad in [
            "",
            "..",
            "a/b",
            "A",
            "-a",
            "a-",
            "a b",
            "a-name-that-is-far-too-long",
        ] {
            assert!(validate_name(bad).is_err(), "{bad}");
        }
        for good in ["demo", "tests-2", "a"] {
            validate_name(good).unwrap();
        }
    }

    #[test]
    fn sizes_outside_the_address_plan_are_refused() {
        assert!(ClusterSpec::new("a").nodes(0).validate().is_err());
        assert!(ClusterSpec::new("a").nodes(21).validate().is_err());
        assert!(ClusterSpec::new("a").fake_nodes(1_001).validate().is_err());
        ClusterSpec::new("a")
            .nodes(20)
            .fake_nodes(1_000)
            .validate()
            .unwrap();
    }
}
