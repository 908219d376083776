//! Changes as they happen.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Ip;

/// Which addresses. What is given must all hold: now, or until the change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WatchQuery {
    /// A text that address, key or node have in them.
    pub q: Option<String>,
    /// The pool.
    pub pool: Option<String>,
    /// The kind of the workload.
    pub app_type: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The workload.
    pub app: Option<String>,
}

/// One change, the data of one event of the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// What happened; also the name of the event.
    pub kind: ChangeKind,
    /// The address as it is now; none when everything may have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<Ip>,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ChangeKind {
    /// An address has a record that is new or different.
    Changed,
    /// An address is free.
    Freed,
    /// The configuration is another one.
    Configured,
    /// The stream begins, some changes were missed, or everything was read anew: list
    /// now, and follow from there.
    Relisted,
}
