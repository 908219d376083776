//! From a pod's owners to the workload that its address belongs to.
//!
//! The workload is the pod's controller, or the first owner when none is marked
//! as controller. A `ReplicaSet` is only a step on the way: its own controller is
//! the workload. The walk goes no further, so a Deployment that an operator owns
//! is still the workload of its pods.
//!
//! | pod's controller | `ReplicaSet`'s controller | key starts with | app |
//! | --- | --- | --- | --- |
//! | `ReplicaSet` | Deployment | `dp_` | the Deployment |
//! | `ReplicaSet` | another, say Rollout | `rollout_` | the Rollout |
//! | `ReplicaSet` | none | `rs_` | the `ReplicaSet` |
//! | `ReplicaSet` | cannot be told, it is gone | `dp_` | its name cut at the last `-` |
//! | `StatefulSet` | | `sts_` | the `StatefulSet` |
//! | any other | | the kind in lower case | the owner |
//! | none | | `NULL_` | `NULL` |
//!
//! Compat: galaxy looks at the kind of the first owner only and takes every
//! `ReplicaSet` for part of a Deployment that has the `ReplicaSet`'s name cut at its
//! last `-`. Where the two ways differ, [`galaxy_key`] finds what galaxy stored
//! for a pod. floe does not go on with those names: `web-front` that stands alone
//! would share spares and limit with a Deployment `web`.

use std::{fmt, str::FromStr};

use super::key::{Holder, HolderKey, KeyParts, KindPrefix, PoolName};

/// One entry of an object's owner references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRef {
    /// Group and version, for example `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// Whether this owner is the controller.
    pub controller: bool,
}

/// A kind with its API group; the version does not matter. Its text is
/// `Kind.group`, or `Kind` for the core group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKind {
    /// The API group; empty for the core group, and for keys of galaxy, which
    /// do not tell it.
    pub group: String,
    /// The kind; in lower case when it comes from a key.
    pub kind: String,
}

/// What sort of workload a pod belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AppKind {
    /// A Deployment.
    Deployment,
    /// A `ReplicaSet` without a controller.
    ReplicaSet,
    /// Something else that works through `ReplicaSets`, as Deployments do.
    ReplicaSetOf(GroupKind),
    /// The `StatefulSet` of Kubernetes.
    StatefulSet,
    /// Anything that controls its pods itself and is not built in.
    Custom(GroupKind),
    /// A Job.
    Job,
    /// A `DaemonSet`.
    DaemonSet,
    /// No workload at all.
    Bare,
}

impl AppKind {
    /// Whether pods have random names and share their spares, so that any of them
    /// may take what another has left.
    pub fn shares_spares(&self) -> bool {
        matches!(
            self,
            Self::Deployment | Self::ReplicaSet | Self::ReplicaSetOf(_)
        )
    }
}

/// A workload: what the app part of a holder key stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct App {
    /// What it is.
    pub kind: AppKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name; `NULL` when there is none.
    pub name: String,
}

/// Why no workload can be told from a pod's owners.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// Several owners, none is the controller and the first is a `ReplicaSet`.
    #[error("unsupported app type: {count} owners, none of them is the controller")]
    Ambiguous {
        /// How many owners there are.
        count: usize,
    },
}

impl OwnerError {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Ambiguous { .. } => "UnsupportedAppType",
        }
    }
}

impl App {
    /// The workload of a pod with these owners.
    ///
    /// `replica_set` has the owners of the `ReplicaSet` that
    /// [`replica_set_of`] names. `None` means that the API server
    /// has no such object; a cache that has not seen it yet is no proof of that.
    pub fn of_pod(
        namespace: &str,
        owners: &[OwnerRef],
        replica_set: Option<&[OwnerRef]>,
    ) -> Result<Self, OwnerError> {
        let app = |kind, name: &str| Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        };
        let Some(owner) = principal(owners)? else {
            return Ok(app(AppKind::Bare, BARE_NAME));
        };
        if !owner.is(&WORKLOAD_GROUPS, "ReplicaSet") {
            return Ok(app(owner.app_kind(), &owner.name));
        }
        let Some(owners) = replica_set else {
            return Ok(app(AppKind::Deployment, cut(&owner.name)));
        };
        Ok(match owners.iter().find(|owner| owner.controller) {
            None => app(AppKind::ReplicaSet, &owner.name),
            Some(upper) if upper.is(&WORKLOAD_GROUPS, "Deployment") => {
                app(AppKind::Deployment, &upper.name)
            }
            Some(upper) => app(AppKind::ReplicaSetOf(upper.group_kind()), &upper.name),
        })
    }

    /// The workload of a stored key, with the note that
    /// [`App::note`] gave for it, if any. `None` for keys that name no workload.
    pub fn of_key(parts: &KeyParts<'_>, note: Option<&str>) -> Option<Self> {
        if parts.app.is_empty() {
            return None;
        }
        let kind = note
            .and_then(|note| noted(note, parts.kind))
            .unwrap_or_else(|| match parts.kind {
                "dp" => AppKind::Deployment,
                "rs" => AppKind::ReplicaSet,
                "sts" => AppKind::StatefulSet,
                "job" => AppKind::Job,
                "daemonset" => AppKind::DaemonSet,
                "NULL" => AppKind::Bare,
                other => AppKind::Custom(GroupKind {
                    group: String::new(),
                    kind: other.into(),
                }),
            });
        Some(Self {
            kind,
            namespace: parts.namespace.into(),
            name: parts.app.into(),
        })
    }

    /// What has to be remembered beside the key, because the key names the kind
    /// without its API group and does not tell whether there are `ReplicaSets` in
    /// between: `Kind.group` or `ReplicaSet/Kind.group`. `None` when the key says
    /// it all.
    pub fn note(&self) -> Option<String> {
        match &self.kind {
            AppKind::ReplicaSetOf(owner) => Some(format!("{THROUGH}{owner}")),
            AppKind::Custom(owner) => Some(owner.to_string()),
            AppKind::Deployment
            | AppKind::ReplicaSet
            | AppKind::StatefulSet
            | AppKind::Job
            | AppKind::DaemonSet
            | AppKind::Bare => None,
        }
    }

    /// The kind as the key has it.
    ///
    /// Compat: the API group is no part of it, so a `StatefulSet` of another group
    /// has the keys that galaxy gave it. What it is comes from the owners or
    /// from the note, never from the key alone.
    pub fn prefix(&self) -> KindPrefix {
        match &self.kind {
            AppKind::Deployment => KindPrefix::DEPLOYMENT,
            AppKind::ReplicaSet => KindPrefix::REPLICA_SET,
            AppKind::StatefulSet => KindPrefix::STATEFUL_SET,
            AppKind::ReplicaSetOf(owner) | AppKind::Custom(owner) => {
                KindPrefix::of_kind(&owner.kind)
            }
            AppKind::Job => KindPrefix::of_kind("Job"),
            AppKind::DaemonSet => KindPrefix::of_kind("DaemonSet"),
            AppKind::Bare => KindPrefix::BARE,
        }
    }

    /// The holder that a pod of this workload is.
    pub fn holder(&self, pool: Option<PoolName>, pod: &str) -> Holder {
        Holder {
            pool,
            kind: self.prefix(),
            namespace: self.namespace.clone(),
            app: self.name.clone(),
            pod: pod.into(),
        }
    }
}

/// The name of the `ReplicaSet` whose owners [`App::of_pod`] needs.
pub fn replica_set_of(owners: &[OwnerRef]) -> Option<&str> {
    let owner = principal(owners).ok()??;
    owner
        .is(&WORKLOAD_GROUPS, "ReplicaSet")
        .then_some(owner.name.as_str())
}

/// The key under which galaxy stored the addresses of a pod, or `None` when it
/// would have refused the pod. The pool is taken as it is written.
pub fn galaxy_key(
    namespace: &str,
    owners: &[OwnerRef],
    pool: Option<&str>,
    pod: &str,
) -> Option<HolderKey> {
    let (kind, app) = match owners {
        [] => (KindPrefix::BARE, BARE_NAME),
        [owner] if owner.kind == "ReplicaSet" => (KindPrefix::DEPLOYMENT, cut(&owner.name)),
        [owner, ..] if owner.kind == "ReplicaSet" => return None,
        [owner, ..] => (KindPrefix::of_kind(&owner.kind), owner.name.as_str()),
    };
    Some(HolderKey::lookup(&KeyParts {
        pool,
        kind: kind.as_str(),
        namespace,
        app,
        pod,
    }))
}

/// The groups in which Kubernetes serves its own workloads, now and in the past.
const WORKLOAD_GROUPS: [&str; 2] = ["apps", "extensions"];

/// The app part of a bare pod's key.
const BARE_NAME: &str = "NULL";

/// The start of a note when there are `ReplicaSets` in between.
const THROUGH: &str = "ReplicaSet/";

impl OwnerRef {
    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    fn is(&self, groups: &[&str], kind: &str) -> bool {
        self.kind == kind && groups.contains(&self.group())
    }

    fn group_kind(&self) -> GroupKind {
        GroupKind {
            group: self.group().into(),
            kind: self.kind.clone(),
        }
    }

    fn app_kind(&self) -> AppKind {
        if self.is(&WORKLOAD_GROUPS, "StatefulSet") {
            AppKind::StatefulSet
        } else if self.is(&WORKLOAD_GROUPS, "DaemonSet") {
            AppKind::DaemonSet
        } else if self.is(&["batch"], "Job") {
            AppKind::Job
        } else {
            AppKind::Custom(self.group_kind())
        }
    }
}

/// The owner that counts.
///
/// Compat: without a controller it is the first one, whatever it is, except that
/// a `ReplicaSet` must then be the only owner.
fn principal(owners: &[OwnerRef]) -> Result<Option<&OwnerRef>, OwnerError> {
    if let Some(controller) = owners.iter().find(|owner| owner.controller) {
        return Ok(Some(controller));
    }
    match owners {
        [first, _, ..] if first.kind == "ReplicaSet" => Err(OwnerError::Ambiguous {
            count: owners.len(),
        }),
        _ => Ok(owners.first()),
    }
}

/// The name of a Deployment by the name of its `ReplicaSet`, which unlike the
/// names of pods is never shortened.
fn cut(replica_set: &str) -> &str {
    replica_set
        .rsplit_once('-')
        .map_or(replica_set, |(name, _)| name)
}

/// What a note says, if it is about the kind that the key has.
fn noted(note: &str, key_kind: &str) -> Option<AppKind> {
    let (through, owner) = match note.strip_prefix(THROUGH) {
        Some(owner) => (true, owner),
        None => (false, note),
    };
    let owner: GroupKind = owner.parse().ok()?;
    if KindPrefix::of_kind(&owner.kind).as_str() != key_kind {
        return None;
    }
    Some(if through {
        AppKind::ReplicaSetOf(owner)
    } else {
        AppKind::Custom(owner)
    })
}

/// A text is not a kind with its group: there is no kind in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not of the form Kind.group")]
pub struct GroupKindError;

impl FromStr for GroupKind {
    type Err = GroupKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, group) = text.split_once('.').unwrap_or((text, ""));
        if kind.is_empty() {
            return Err(GroupKindError);
        }
        Ok(Self {
            group: group.into(),
            kind: kind.into(),
        })
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind } = self;
        if group.is_empty() {
            write!(out, "{kind}")
        } else {
            write!(out, "{kind}.{group}")
        }
    }
}

#[cfg(test)]
mod tests;
