//! `kubectl floe vip`: addresses that several pods share.

use std::net::IpAddr;

use floe_api::floe::virtualip::VirtualIP;
use floe_core::addr::{self, name};
use kube::{ResourceExt as _, api::DynamicObject, core::dynamic::ParseDynamicObjectError};

use crate::{
    args,
    cluster::{Access, Cluster, find},
    console::Console,
    failure::Failure,
    fetch, suggest,
};

mod list;
mod moving;
mod progress;
mod show;

/// The kind of the objects, as kubectl writes it before a name.
const KIND: &str = "virtualip.floe.dev";

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    command: &args::Vip,
) -> Result<(), Failure> {
    match command {
        args::Vip::List(list) => list::run(cluster, console, list).await,
        args::Vip::Show { names, output } => {
            show::run(cluster, console, names, output.format).await
        }
        args::Vip::Move(wish) => moving::run(cluster, console, wish).await,
    }
}

/// One object.
#[derive(Clone, Debug)]
struct Vip {
    /// The object with all that it has.
    raw: DynamicObject,
    /// What it says.
    object: VirtualIP,
}

impl Vip {
    fn read(raw: DynamicObject) -> Result<Self, ParseDynamicObjectError> {
        let object = raw.clone().try_parse()?;
        Ok(Self { raw, object })
    }

    /// The granted addresses with a comma between them.
    fn addresses(&self) -> String {
        let status = self.object.status.iter();
        let addresses = status.flat_map(|it| &it.addresses);
        let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
        addresses.join(",")
    }
}

/// The objects of a namespace or of all, by namespace and name. One that cannot be read
/// is told and left out.
async fn all(
    cluster: &Cluster,
    console: &mut Console,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> Result<Vec<Vip>, Failure> {
    let listed = fetch::all(&cluster.vips(namespace), selector, "shared addresses").await;
    let listed =
        listed.map_err(|error| cluster.failure(&error, Access::vips("list", namespace)))?;
    let mut vips = Vec::with_capacity(listed.len());
    for object in listed {
        let name = object.name_any();
        match Vip::read(object) {
            Ok(vip) => vips.push(vip),
            Err(error) => console.warn(&format!("VirtualIP {name} cannot be read: {error}")),
        }
    }
    vips.sort_by_key(|vip| (vip.raw.namespace(), vip.raw.name_any()));
    Ok(vips)
}

/// An object of a namespace, by its name.
async fn named(cluster: &Cluster, namespace: &str, name: &str) -> Result<Option<Vip>, Failure> {
    let found = find(&cluster.vips(Some(namespace)), name).await;
    let found =
        found.map_err(|error| cluster.failure(&error, Access::vips("get", Some(namespace))))?;
    let read = found.map(Vip::read).transpose();
    read.map_err(|error| Failure::Unprintable(error.to_string()))
}

/// An object that must be there, by its name or by an address of its. If it is not, what
/// was meant may be told.
async fn one(cluster: &Cluster, console: &mut Console, text: &str) -> Result<Vip, Failure> {
    let (namespace, typed) = (cluster.namespace(), bare(text));
    let ip = addr::parse(typed).or_else(|| name::parse(typed).ok());
    // Objects that stand for annotations are named by their address.
    let name = ip.map_or_else(|| typed.to_owned(), name::name);
    if !is_name(&name) {
        return Err(Failure::Usage(format!(
            "{text:?} is neither the name of a VirtualIP nor an address"
        )));
    }
    if let Some(found) = named(cluster, namespace, &name).await? {
        return Ok(found);
    }
    let mut hint = None;
    if let Some(ip) = ip {
        let here = all(cluster, console, Some(namespace), None).await?;
        if let Some(found) = here.into_iter().find(|vip| has(vip, ip)) {
            return Ok(found);
        }
    } else {
        hint = meant(cluster, console, namespace, &name).await;
    }
    Err(Failure::NoSuch {
        kind: "VirtualIP",
        name: typed.to_owned(),
        namespace: Some(namespace.to_owned()),
        hint: hint
            .or_else(|| Some("kubectl floe vip list -A shows those of all namespaces".into())),
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
    let names: Vec<_> = here.iter().map(|vip| vip.raw.name_any()).collect();
    let near = suggest::closest(name, names.iter().map(String::as_str))?;
    Some(format!("did you mean {near:?}?"))
}

fn has(vip: &Vip, ip: IpAddr) -> bool {
    let status = vip.object.status.as_ref();
    status.is_some_and(|it| it.addresses.contains(&ip))
}

/// The name without the kind before it, with which kubectl names objects.
fn bare(text: &str) -> &str {
    match text.split_once('/') {
        Some((KIND | "virtualip" | "virtualips" | "vip", name)) => name,
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
