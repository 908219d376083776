//! Least privilege, proven: what floe's accounts asked of the API servers of all test clusters
//! is compared with the roles that ship. Nothing may be refused, and no right may be granted
//! that nothing has used.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result};
use floe_testbed::cluster::paths::Paths;
use serde::Deserialize;

use crate::workspace;

/// The manifests whose roles are judged.
const MANIFESTS: [&str; 3] = [
    "deploy/controller.yaml",
    "deploy/agent.yaml",
    "k8s/floe.yaml",
];

/// How the log says who decided; a server refuses for other reasons, too, such as a namespace
/// that is about to go.
const DECISION: &str = "authorization.k8s.io/decision";

/// What tests have refused on purpose: kinds of workloads for which nobody gave a right yet, and
/// a Secret that somebody has deleted, which floe may not make anew.
const PROVOKED: [(&str, &str); 2] = [("example.dev", "games"), ("", "secrets")];

/// A right that a role gives to an account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    account: String,
    /// Where it holds; nothing: everywhere.
    namespace: Option<String>,
    group: String,
    /// With the part of it, if it is only that: `pods/binding`.
    resource: String,
    /// The objects; nothing: all of them.
    names: Vec<String>,
    verb: String,
}

/// What an account has asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    account: String,
    namespace: String,
    group: String,
    resource: String,
    name: String,
    verb: String,
    refused: bool,
}

/// All that was asked for.
#[derive(Debug, Default)]
pub struct Requests(BTreeSet<Request>);

/// What is wrong with the rights that are granted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What was asked for and refused, and no role grants.
    pub refused: Vec<String>,
    /// What is granted and was never asked for.
    pub unused: Vec<String>,
}

impl Requests {
    /// Takes in what was asked for in a cluster since a time.
    pub fn read(&mut self, cluster: &str, since: SystemTime) -> Result<()> {
        let path = Paths::of(cluster)?.audit();
        let is_new = |path: &Path| -> Option<bool> {
            let changed = fs::metadata(path).ok()?.modified().ok()?;
            Some(changed >= since)
        };
        if is_new(&path) != Some(true) {
            return Ok(());
        }
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        self.take_in(&text);
        Ok(())
    }

    /// Takes in lines of an audit log. The last one may be cut off.
    fn take_in(&mut self, text: &str) {
        let events = text.lines().filter_map(|it| serde_json::from_str(it).ok());
        self.0.extend(events.map(Event::request));
    }

    /// Compares with what is granted.
    pub fn judge(&self, grants: &[Grant]) -> Verdict {
        // What is granted is refused only by a server that has just started and has not read its
        // roles yet.
        let is_granted = |it: &Request| grants.iter().any(|grant| grant.allows(it));
        let is_meant = |it: &Request| PROVOKED.contains(&(it.group.as_str(), it.resource.as_str()));
        // What is no resource, such as the version of the server, everybody may read.
        let is_open = |it: &Request| it.resource.is_empty();
        let is_fault = |it: &&Request| it.refused && !is_granted(it) && !is_meant(it);
        let refused = self.0.iter().filter(is_fault).filter(|it| !is_open(it));
        let granted = self.0.iter().filter(|it| !it.refused);
        let granted: Vec<&Request> = granted.collect();
        let unused = grants
            .iter()
            .filter(|grant| !granted.iter().any(|it| grant.allows(it)));
        Verdict {
            refused: refused.map(ToString::to_string).collect(),
            unused: unused.map(ToString::to_string).collect(),
        }
    }
}

/// The rights in all manifests that ship.
pub fn grants() -> Result<Vec<Grant>> {
    let mut grants = Vec::new();
    for manifest in MANIFESTS {
        let text = fs::read_to_string(workspace().join(manifest))?;
        let found = granted(&text).with_context(|| format!("cannot read {manifest}"))?;
        grants.extend(found);
    }
    Ok(grants)
}

fn granted(manifest: &str) -> Result<Vec<Grant>> {
    let options = serde_saphyr::options! { budget: None };
    let objects: Vec<Object> = serde_saphyr::from_multiple_with_options(manifest, options)?;
    let mut grants = Vec::new();
    for binding in objects.iter().filter(|it| it.role_ref.is_some()) {
        let role = objects.iter().find(|it| it.is_bound_by(binding));
        for subject in &binding.subjects {
            if subject.kind != "ServiceAccount" {
                continue;
            }
            let account = format!(
                "system:serviceaccount:{}:{}",
                subject.namespace, subject.name
            );
            for rule in role.iter().flat_map(|it| &it.rules) {
                grants.extend(rule.grants(&account, binding.metadata.namespace.as_ref()));
            }
        }
    }
    Ok(grants)
}

impl Grant {
    fn allows(&self, request: &Request) -> bool {
        let namespace = self.namespace.as_ref();
        self.account == request.account
            && namespace.is_none_or(|it| *it == request.namespace)
            && self.group == request.group
            && self.resource == request.resource
            && self.verb == request.verb
            && (self.names.is_empty() || self.names.contains(&request.name))
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, resource, group) = (&self.verb, &self.resource, &self.group);
        write!(f, "{}: {verb} {resource}.{group}", self.account)?;
        if !self.names.is_empty() {
            write!(f, " named {}", self.names.join(", "))?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, resource, group) = (&self.verb, &self.resource, &self.group);
        let (namespace, name) = (&self.namespace, &self.name);
        write!(
            f,
            "{}: {verb} {resource}.{group} {namespace}/{name}",
            self.account
        )
    }
}

/// An object of a manifest, as far as it matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    kind: String,
    metadata: Metadata,
    rules: Vec<Rule>,
    role_ref: Option<RoleRef>,
    subjects: Vec<Subject>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    namespace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RoleRef {
    kind: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

impl Object {
    fn is_bound_by(&self, binding: &Self) -> bool {
        let Some(role) = &binding.role_ref else {
            return false;
        };
        // A namespace says in which one of several roles of a name is meant.
        let is_near =
            role.kind == "ClusterRole" || self.metadata.namespace == binding.metadata.namespace;
        self.kind == role.kind && self.metadata.name == role.name && is_near
    }
}

impl Rule {
    fn grants(&self, account: &str, namespace: Option<&String>) -> Vec<Grant> {
        let mut grants = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    grants.push(Grant {
                        account: account.to_owned(),
                        namespace: namespace.cloned(),
                        group: group.clone(),
                        resource: resource.clone(),
                        names: self.resource_names.clone(),
                        verb: verb.clone(),
                    });
                }
            }
        }
        grants
    }
}

/// An event of an audit log, as far as it matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    user: User,
    verb: String,
    object_ref: ObjectRef,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

impl Event {
    fn request(self) -> Request {
        let object = self.object_ref;
        let resource = if object.subresource.is_empty() {
            object.resource
        } else {
            format!("{}/{}", object.resource, object.subresource)
        };
        Request {
            account: self.user.username,
            namespace: object.namespace,
            group: object.api_group,
            resource,
            name: object.name,
            verb: self.verb,
            refused: self
                .annotations
                .get(DECISION)
                .is_some_and(|it| it == "forbid"),
        }
    }
}

#[cfg(test)]
mod tests;
