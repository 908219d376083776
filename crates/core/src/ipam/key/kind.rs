//! The kind of a workload as keys and the API spell it.

use std::{borrow::Cow, fmt};

/// The first part of a pod's own key: the kind of its workload in short.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindPrefix(Cow<'static, str>);

impl KindPrefix {
    /// Deployments.
    pub const DEPLOYMENT: Self = Self(Cow::Borrowed("dp"));
    /// `StatefulSets`, of whatever API group.
    pub const STATEFUL_SET: Self = Self(Cow::Borrowed("sts"));
    /// `ReplicaSets` that nobody controls. galaxy takes them for Deployments; the
    /// prefix differs from the kind because `replicaset` as an API parameter
    /// means `dp`.
    pub const REPLICA_SET: Self = Self(Cow::Borrowed("rs"));
    /// Pods without a workload.
    pub const BARE: Self = Self(Cow::Borrowed("NULL"));

    /// The prefix of a workload that controls its pods itself.
    pub fn of_kind(kind: &str) -> Self {
        if kind == "StatefulSet" {
            return Self::STATEFUL_SET;
        }
        Self(kind.to_lowercase().into())
    }

    /// The prefix that an API client means by the parameter `appType`.
    ///
    /// Compat: as in galaxy, `replicaset` means Deployments, a kind that is not
    /// known stands for itself, and case does not matter. Unlike there,
    /// `deployments` and `replicasets` work, a missing or empty value has the
    /// documented default `statefulset`, and what
    /// [`app_type`](KindPrefix::app_type) shows for a bare pod finds it again.
    pub fn from_parameter(text: &str) -> Self {
        match text.to_lowercase().as_str() {
            "" | "statefulset" | "statefulsets" => Self::STATEFUL_SET,
            "deployment" | "deployments" | "replicaset" | "replicasets" => Self::DEPLOYMENT,
            "null" => Self::BARE,
            other => Self(other.to_owned().into()),
        }
    }

    /// A prefix as it was found in a key.
    pub fn from_key(text: &str) -> Self {
        Self(text.to_owned().into())
    }

    /// The prefix without its `_`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The app type that the API shows.
    pub fn app_type(&self) -> &str {
        match self.as_str() {
            "dp" => "deployment",
            "sts" => "statefulset",
            other => other,
        }
    }
}

impl fmt::Display for KindPrefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}
