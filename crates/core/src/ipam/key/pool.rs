//! The name of an IP pool.

use std::fmt;

/// The longest name that an object in Kubernetes can have.
const LONGEST: usize = 253;

/// The name of an IP pool that can be part of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolName(String);

/// Why a text is not the name of a pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolNameError {
    /// A key with this pool could not be told from a key of another pool.
    #[error("pool name {name:?} contains \"_\", which separates the parts of a holder key")]
    Separator {
        /// The name.
        name: String,
    },
    /// No Pool object can have the name.
    #[error("pool name has {length} bytes, at most {LONGEST} are possible")]
    TooLong {
        /// The length of the name.
        length: usize,
    },
    /// There is no name.
    #[error("pool name is empty")]
    Empty,
}

impl PoolNameError {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        "InvalidPoolName"
    }
}

impl PoolName {
    /// Checks the name of a pool.
    pub fn new(name: &str) -> Result<Self, PoolNameError> {
        if name.is_empty() {
            return Err(PoolNameError::Empty);
        }
        if name.len() > LONGEST {
            return Err(PoolNameError::TooLong { length: name.len() });
        }
        if name.contains('_') {
            return Err(PoolNameError::Separator { name: name.into() });
        }
        Ok(Self(name.into()))
    }

    /// Reads the annotation [`POOL`](crate::ipam::names::POOL) of a pod; an empty
    /// value means no pool.
    ///
    /// Records that galaxy made for a name with `_` are still read, as opaque
    /// keys; a pod that asks for such a pool is refused, because its address
    /// would count for other pools.
    pub fn from_annotation(value: Option<&str>) -> Result<Option<Self>, PoolNameError> {
        value
            .filter(|name| !name.is_empty())
            .map(Self::new)
            .transpose()
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}
