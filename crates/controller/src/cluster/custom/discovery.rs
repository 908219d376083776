//! Which kinds the API server serves.

use std::fmt;

use floe_core::ipam::owner::GroupKind;
use kube::{core::discovery::v2::APIGroupDiscoveryList, discovery::ApiResource};

use crate::cluster::ask::Right;

/// A kind that the API server serves, in the version that it prefers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Its API group; empty for the core group.
    pub group: String,
    /// The preferred one of those that have the kind.
    pub version: String,
    /// The kind as it is written.
    pub kind: String,
    /// Its name in paths and rights.
    pub plural: String,
    /// Whether its objects belong to namespaces.
    pub namespaced: bool,
    /// Whether its objects can be scaled.
    pub has_scale: bool,
}

/// Why a kind is not found among those that are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// It is not served.
    NotServed,
    /// More than one fits.
    Ambiguous(Vec<String>),
}

/// All kinds that can be listed, each in the preferred version that has it.
pub fn served(list: APIGroupDiscoveryList) -> Vec<Served> {
    let mut all: Vec<Served> = Vec::new();
    for group in list.items {
        let name = group.metadata.and_then(|it| it.name).unwrap_or_default();
        let first = all.len();
        // The preferred version is the first one.
        for version in group.versions {
            let Some(version_name) = version.version else {
                continue;
            };
            for resource in version.resources {
                let kind = resource.response_kind.and_then(|it| it.kind);
                let (Some(plural), Some(kind)) = (resource.resource, kind) else {
                    continue;
                };
                let known = all[first..].iter().any(|it| it.plural == plural);
                if known || !resource.verbs.iter().any(|verb| verb == "list") {
                    continue;
                }
                let mut below = resource.subresources.iter();
                all.push(Served {
                    group: name.clone(),
                    version: version_name.clone(),
                    kind,
                    plural,
                    namespaced: resource.scope.as_deref() != Some("Cluster"),
                    has_scale: below.any(|it| it.subresource.as_deref() == Some("scale")),
                });
            }
        }
    }
    all
}

/// The kind that somebody means.
///
/// Compat: keys of galaxy have the kind in lower case and no group, so a kind
/// without group is looked for in all groups.
pub fn find<'a>(all: &'a [Served], wanted: &GroupKind) -> Result<&'a Served, NotFound> {
    let in_group = all.iter().filter(|it| it.group == wanted.group);
    let exact: Vec<&Served> = in_group.filter(|it| it.kind == wanted.kind).collect();
    if let [only] = exact[..] {
        return Ok(only);
    }
    let fits = |it: &&Served| {
        (wanted.group.is_empty() || it.group == wanted.group)
            && it.kind.eq_ignore_ascii_case(&wanted.kind)
    };
    let fitting: Vec<&Served> = all.iter().filter(fits).collect();
    match fitting[..] {
        [] => Err(NotFound::NotServed),
        [only] => Ok(only),
        _ => Err(NotFound::Ambiguous(
            fitting.iter().map(ToString::to_string).collect(),
        )),
    }
}

impl Served {
    /// How to reach it.
    pub fn resource(&self) -> ApiResource {
        let Self { group, version, .. } = self;
        ApiResource {
            group: group.clone(),
            version: version.clone(),
            api_version: if group.is_empty() {
                version.clone()
            } else {
                format!("{group}/{version}")
            },
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }

    /// What has to be granted for it.
    pub fn right(&self) -> Right<'_> {
        Right {
            verbs: "list and watch",
            resource: &self.plural,
            group: &self.group,
        }
    }
}

/// The plural with its group, which is also the name of its definition.
impl fmt::Display for Served {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, plural, .. } = self;
        if group.is_empty() {
            write!(out, "{plural}")
        } else {
            write!(out, "{plural}.{group}")
        }
    }
}

#[cfg(test)]
mod tests;
