//! `kubectl floe nodepool`: addresses of a cloud that are kept on nodes.

use floe_api::flipop::pool::FloatingIPPool;
use kube::{ResourceExt as _, api::DynamicObject, core::dynamic::ParseDynamicObjectError};

use crate::{
    args,
    cluster::{Access, Cluster, find},
    console::Console,
    failure::Failure,
    fetch, suggest,
};

mod list;
mod show;

/// The kind of the objects, as kubectl writes it before a name.
const KIND: &str = "floatingippool.flipop.digitalocean.com";

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    command: &args::NodePool,
) -> Result<(), Failure> {
    match command {
        args::NodePool::List(list) => list::run(cluster, console, list).await,
        args::NodePool::Show { names, output } => {
            show::run(cluster, console, names, output.format).await
        }
    }
}

/// One object.
#[derive(Clone, Debug)]
struct NodePool {
    /// The object with all that it has.
    raw: DynamicObject,
    /// What it says.
    object: FloatingIPPool,
}

impl NodePool {
    fn read(raw: DynamicObject) -> Result<Self, ParseDynamicObjectError> {
        let object = raw.clone().try_parse()?;
        Ok(Self { raw, object })
    }

    /// Whether a condition holds; if not, why.
    fn condition(&self, kind: &str) -> String {
        match self.object.condition(kind) {
            None => String::new(),
            Some(it) if it.status == "True" => it.status.clone(),
            Some(it) => it.reason.clone(),
        }
    }
}

/// The objects of a namespace or of all, by namespace and name. One that cannot be read
/// is told and left out.
async fn all(
    cluster: &Cluster,
    console: &mut Console,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> Result<Vec<NodePool>, Failure> {
    let listed = fetch::all(&cluster.node_pools(namespace), selector, "node pools").await;
    let listed =
        listed.map_err(|error| cluster.failure(&error, Access::node_pools("list", namespace)))?;
    let mut pools = Vec::with_capacity(listed.len());
    for object in listed {
        let name = object.name_any();
        match NodePool::read(object) {
            Ok(pool) => pools.push(pool),
            Err(error) => console.warn(&format!("FloatingIPPool {name} cannot be read: {error}")),
        }
    }
    pools.sort_by_key(|pool| (pool.raw.namespace(), pool.raw.name_any()));
    Ok(pools)
}

/// An object that must be there. If it is not, what was meant may be told.
async fn one(cluster: &Cluster, console: &mut Console, text: &str) -> Result<NodePool, Failure> {
    let (namespace, name) = (cluster.namespace(), bare(text));
    if !is_name(name) {
        return Err(Failure::Usage(format!(
            "{text:?} is not the name of a FloatingIPPool"
        )));
    }
    let access = Access::node_pools("get", Some(namespace));
    let found = find(&cluster.node_pools(Some(namespace)), name).await;
    let found = found.map_err(|error| cluster.failure(&error, access))?;
    if let Some(found) = found {
        return NodePool::read(found).map_err(|error| Failure::Unprintable(error.to_string()));
    }
    let hint = meant(cluster, console, namespace, name).await;
    Err(Failure::NoSuch {
        kind: "FloatingIPPool",
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        hint: hint
            .or_else(|| Some("kubectl floe nodepool list -A shows those of all namespaces".into())),
    })
}

/// What somebody may have meant. It is only help: if it cannot be found out, there is none.
async fn meant(
    cluster: &Cluster,
    console: &mut Console,
    namespace: &str,
    name: &str,
) -> Option<String> {
    let here = all(cluster, console, Some(namespace), None).await.ok()?;
    let names: Vec<_> = here.iter().map(|pool| pool.raw.name_any()).collect();
    let near = suggest::closest(name, names.iter().map(String::as_str))?;
    Some(format!("did you mean {near:?}?"))
}

/// The name without the kind before it, with which kubectl names objects.
fn bare(text: &str) -> &str {
    match text.split_once('/') {
        Some((KIND | "floatingippool" | "floatingippools", name)) => name,
        _ => text,
    }
}

/// Whether a name can be one of an object: it becomes part of a path.
fn is_name(text: &str) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-.".contains(&c);
    !text.is_empty() && text.bytes().all(plain)
}

#[cfg(test)]
mod tests;
