//! `kubectl floe pool`: limits for addresses that share a pool name.
//!
//! Without `-n` these commands are about `kube-system`, whose pools count for all
//! namespaces, and not about the namespace of the context.

use floe_api::galaxy;
use kube::{ResourceExt as _, api::DynamicObject};

use crate::{
    args,
    cluster::{Access, Cluster, find},
    console::Console,
    failure::Failure,
    fetch,
    record::{self, Record},
    suggest,
};

mod delete;
mod list;
mod set;
mod show;
mod tally;

/// The kind of a pool, as kubectl writes it before a name.
const KIND: &str = "pool.galaxy.k8s.io";

/// The namespace whose pools count for all.
const EVERYBODY: &str = "kube-system";

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    command: &args::Pool,
) -> Result<(), Failure> {
    let namespace = cluster.typed_namespace.as_deref().unwrap_or(EVERYBODY);
    match command {
        args::Pool::List {
            all_namespaces,
            selector,
            listing,
        } => {
            let namespace = (!all_namespaces).then_some(namespace);
            list::run(cluster, console, namespace, selector.as_deref(), *listing).await
        }
        args::Pool::Show { names, output } => {
            show::run(cluster, console, namespace, names, output.format).await
        }
        args::Pool::Set {
            name,
            size,
            preallocate,
            dry_run,
        } => {
            let wish = set::Wish {
                size: *size,
                preallocate: *preallocate,
                dry_run: *dry_run,
            };
            set::run(cluster, console, namespace, name, &wish).await
        }
        args::Pool::Delete { names, consent } => {
            delete::run(cluster, console, namespace, names, consent.yes).await
        }
    }
}

/// One pool.
#[derive(Clone, Debug)]
struct Pool {
    /// The object with all that it has.
    raw: DynamicObject,
    /// What it says.
    object: galaxy::Pool,
}

impl Pool {
    fn read(raw: DynamicObject) -> Result<Self, Failure> {
        let object = raw.clone().try_parse();
        let object = object.map_err(|error| Failure::Unprintable(error.to_string()))?;
        Ok(Self { raw, object })
    }
}

/// The pools of a namespace or of all, by name and namespace.
async fn all(
    cluster: &Cluster,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> Result<Vec<Pool>, Failure> {
    let listed = fetch::all(&cluster.pools(namespace), selector, "pools").await;
    let listed =
        listed.map_err(|error| cluster.failure(&error, Access::pools("list", namespace)))?;
    let mut pools = Vec::with_capacity(listed.len());
    for object in listed {
        pools.push(Pool::read(object)?);
    }
    pools.sort_by_key(|pool| (pool.raw.name_any(), pool.raw.namespace()));
    Ok(pools)
}

/// A pool that must be there. If it is not, what was meant may be told.
async fn one(cluster: &Cluster, namespace: &str, name: &str) -> Result<Pool, Failure> {
    let found = find(&cluster.pools(Some(namespace)), name).await;
    let found =
        found.map_err(|error| cluster.failure(&error, Access::pools("get", Some(namespace))))?;
    match found {
        Some(object) => Pool::read(object),
        None => Err(Failure::NoSuch {
            kind: "pool",
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()),
            hint: meant(cluster, namespace, name).await,
        }),
    }
}

/// What somebody may have meant. It is only help: if it cannot be found out, there is none.
async fn meant(cluster: &Cluster, namespace: &str, name: &str) -> Option<String> {
    let pools = match all(cluster, None, None).await {
        Ok(pools) => pools,
        Err(_) => all(cluster, Some(namespace), None).await.ok()?,
    };
    let elsewhere = pools.iter().find(|pool| pool.raw.name_any() == name);
    if let Some(place) = elsewhere.and_then(|pool| pool.raw.namespace()) {
        return Some(format!(
            "there is one in namespace {place}: repeat it with -n {place}"
        ));
    }
    let here = pools
        .iter()
        .filter(|pool| pool.raw.namespace().as_deref() == Some(namespace));
    let names: Vec<_> = here.map(|pool| pool.raw.name_any()).collect();
    let near = suggest::closest(name, names.iter().map(String::as_str))?;
    Some(format!("did you mean {near:?}?"))
}

/// All records, or none when the user may not see them: the pools themselves are of
/// use without.
async fn records(cluster: &Cluster, console: &mut Console) -> Result<Option<Vec<Record>>, Failure> {
    match record::all(cluster, console, None).await {
        Ok(records) => Ok(Some(records)),
        Err(failure @ Failure::Forbidden { .. }) => {
            console.warn(&format!("what the pools have is not known: {failure}"));
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests;
