//! How long an address stays with its workload.

use std::fmt;

/// When an address is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReleasePolicy {
    /// As soon as the pod is deleted or finished.
    #[default]
    OnDelete = 0,
    /// When the workload shrinks below this pod or disappears.
    Immutable = 1,
    /// Only when somebody releases it by hand.
    Never = 2,
}

impl ReleasePolicy {
    /// The policy that a pod asks for by its annotations
    /// [`RELEASE_POLICY`](super::names::RELEASE_POLICY) and
    /// [`POOL`](super::names::POOL).
    ///
    /// Compat: a pod of an IP pool keeps its address whatever its own policy
    /// says, and any text but the exact two means [`ReleasePolicy::OnDelete`].
    pub fn from_annotations(release_policy: Option<&str>, pool: Option<&str>) -> Self {
        if pool.is_some_and(|name| !name.is_empty()) {
            return Self::Never;
        }
        match release_policy {
            Some("immutable") => Self::Immutable,
            Some("never") => Self::Never,
            _ => Self::OnDelete,
        }
    }

    /// The policy of a stored number, or `None` for a number that has no meaning.
    pub fn from_number(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::OnDelete),
            1 => Some(Self::Immutable),
            2 => Some(Self::Never),
            _ => None,
        }
    }

    /// The policy to act on for a stored number. A number without meaning acts
    /// as [`ReleasePolicy::Never`]: what is not understood is not released.
    pub fn from_stored(number: i64) -> Self {
        Self::from_number(number).unwrap_or(Self::Never)
    }

    /// The number that is stored and shown by the API.
    pub fn number(self) -> i64 {
        match self {
            Self::OnDelete => 0,
            Self::Immutable => 1,
            Self::Never => 2,
        }
    }

    /// Whether an address can outlive the pod that it was given to.
    pub fn keeps(self) -> bool {
        self != Self::OnDelete
    }

    /// The word for people; the two that can be written in an annotation are
    /// shown as they are written there.
    pub fn text(self) -> &'static str {
        match self {
            Self::OnDelete => "on-delete",
            Self::Immutable => "immutable",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for ReleasePolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_choose_the_policy() {
        use ReleasePolicy::{Immutable, Never, OnDelete};
        let table = [
            (None, None, OnDelete),
            (Some("immutable"), None, Immutable),
            (Some("never"), None, Never),
            (None, Some("pl1"), Never),
            (None, Some(""), OnDelete),
            (Some("immutable"), Some("pl1"), Never),
            (Some("immutable"), Some(""), Immutable),
            (Some(""), None, OnDelete),
            (Some("Never"), None, OnDelete),
            (Some(" never"), None, OnDelete),
        ];
        for (policy, pool, wanted) in table {
            let got = ReleasePolicy::from_annotations(policy, pool);
            assert_eq!(got, wanted, "{policy:?} {pool:?}");
        }
    }

    #[test]
    fn numbers_come_back() {
        for number in 0..=2 {
            let policy = ReleasePolicy::from_number(number).unwrap();
            assert_eq!(policy.number(), number);
            assert_eq!(ReleasePolicy::from_stored(number), policy);
        }
    }

    #[test]
    fn a_number_without_meaning_releases_nothing() {
        for number in [-1, 3, 65535, i64::MAX] {
            assert_eq!(ReleasePolicy::from_number(number), None);
            assert_eq!(ReleasePolicy::from_stored(number), ReleasePolicy::Never);
        }
    }
}
