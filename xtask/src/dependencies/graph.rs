//! The dependency graph, as `cargo metadata` tells it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The resolved packages of a workspace and the edges between them.
#[derive(Debug)]
pub struct Graph {
    members: BTreeSet<String>,
    packages: BTreeMap<String, Package>,
    edges: BTreeMap<String, Vec<Edge>>,
}

/// A package with what its manifest declares.
#[derive(Debug, Deserialize)]
pub struct Package {
    id: String,
    pub name: String,
    dependencies: Vec<Declared>,
}

/// A dependency as written in a manifest.
#[derive(Debug, Deserialize)]
pub struct Declared {
    name: String,
    #[serde(default)]
    kind: Kind,
    pub uses_default_features: bool,
    pub features: Vec<String>,
}

/// Where a dependency counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Option<String>")]
pub enum Kind {
    #[default]
    Normal,
    /// In tests or build scripts only.
    Other,
}

impl From<Option<String>> for Kind {
    fn from(kind: Option<String>) -> Self {
        kind.map_or(Self::Normal, |_| Self::Other)
    }
}

impl Graph {
    /// Asks cargo about the workspace at `root`.
    pub fn load(root: &Path) -> Result<Self> {
        let output = crate::tools::cargo()
            .args(["metadata", "--format-version", "1"])
            .current_dir(root)
            .stderr(Stdio::inherit())
            .output()
            .context("cannot run cargo metadata")?;
        ensure!(
            output.status.success(),
            "cargo metadata failed: {}",
            output.status
        );
        Self::parse(&output.stdout)
    }

    /// Reads the output of `cargo metadata --format-version 1`.
    pub fn parse(json: &[u8]) -> Result<Self> {
        let metadata: Metadata =
            serde_json::from_slice(json).context("cannot read the output of cargo metadata")?;
        Ok(Self {
            members: metadata.workspace_members.into_iter().collect(),
            packages: metadata
                .packages
                .into_iter()
                .map(|package| (package.id.clone(), package))
                .collect(),
            edges: metadata
                .resolve
                .nodes
                .into_iter()
                .map(|node| (node.id, node.deps))
                .collect(),
        })
    }

    /// The packages of the workspace itself.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.members.iter().filter_map(|id| self.packages.get(id))
    }

    pub fn is_member(&self, package: &Package) -> bool {
        self.members.contains(&package.id)
    }

    /// Direct dependencies, each with every way in which it is one.
    pub fn dependencies(&self, package: &Package) -> impl Iterator<Item = (&Package, Vec<Kind>)> {
        self.edges
            .get(&package.id)
            .into_iter()
            .flatten()
            .filter_map(|edge| {
                let kinds = edge.dep_kinds.iter().map(|dep| dep.kind).collect();
                Some((self.packages.get(&edge.pkg)?, kinds))
            })
    }

    /// A shortest path of normal dependencies from `start` to every package
    /// within reach. Packages that `enter` refuses are reached, not passed.
    pub fn shortest_paths<'a>(
        &'a self,
        start: &'a Package,
        enter: impl Fn(&Package) -> bool,
    ) -> Vec<Vec<&'a Package>> {
        let mut seen = BTreeSet::from([start.id.as_str()]);
        let mut queue = VecDeque::from([vec![start]]);
        let mut paths = Vec::new();
        while let Some(path) = queue.pop_front() {
            let Some(end) = path.last().copied().filter(|end| enter(end)) else {
                continue;
            };
            for (dependency, kinds) in self.dependencies(end) {
                if kinds.contains(&Kind::Normal) && seen.insert(&dependency.id) {
                    let longer: Vec<_> = path.iter().copied().chain([dependency]).collect();
                    queue.push_back(longer.clone());
                    paths.push(longer);
                }
            }
        }
        paths
    }
}

impl Package {
    /// The normal dependencies on `name` that the manifest declares.
    pub fn declared(&self, name: &str) -> impl Iterator<Item = &Declared> {
        self.dependencies
            .iter()
            .filter(move |declared| declared.name == name && declared.kind == Kind::Normal)
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    #[serde(default)]
    kind: Kind,
}
