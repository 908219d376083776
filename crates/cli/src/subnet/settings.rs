//! The configuration, and the nodes that it is for.

use std::{collections::BTreeMap, net::IpAddr};

use floe_core::config::{AddressConfig, Loaded, Mode, Topology};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;

use crate::{
    cluster::{Access, Cluster, is_missing},
    console::Console,
    failure::Failure,
    fetch,
};

/// The member of the `ConfigMap` that has the configuration.
const KEY: &str = "floatingips";

/// Reads the configuration from a `ConfigMap` that is named as `namespace/name`.
pub async fn read(
    cluster: &Cluster,
    console: &mut Console,
    place: &str,
) -> Result<Topology, Failure> {
    // What only floe minds is in force all the same, if it was there at the start of
    // the controller: so show what is left, and say what is wrong.
    let loaded = load(cluster, place).await?;
    for problem in &loaded.problems {
        let left_out = problem.left_out.as_ref();
        let left_out = left_out.map_or_else(String::new, |what| format!("; left out: {what}"));
        console.warn(&format!("ConfigMap {place}: {problem}{left_out}"));
    }
    Ok(Topology::new(loaded.config))
}

/// The same for who only wants to know which addresses are configured.
pub async fn read_quietly(cluster: &Cluster, place: &str) -> Result<Topology, Failure> {
    Ok(Topology::new(load(cluster, place).await?.config))
}

async fn load(cluster: &Cluster, place: &str) -> Result<Loaded, Failure> {
    let text = text(cluster, place).await?;
    AddressConfig::parse(&text, Mode::Lenient).map_err(|refused| Failure::BadConfiguration {
        place: format!("ConfigMap {place}"),
        reason: refused.reason(),
        problems: refused.problems.iter().map(ToString::to_string).collect(),
    })
}

/// How many nodes are in each node subnet, or none when the user may not list nodes.
pub async fn nodes(
    cluster: &Cluster,
    console: &mut Console,
    topology: &Topology,
) -> Result<Option<BTreeMap<IpNet, u64>>, Failure> {
    let access = Access {
        verb: "list",
        resource: "nodes",
        namespace: None,
    };
    let api: Api<Node> = Api::all(cluster.client.clone());
    let nodes = match fetch::all(&api, None, "nodes").await {
        Ok(nodes) => nodes,
        Err(error) => {
            let failure = cluster.failure(&error, access);
            if !matches!(failure, Failure::Forbidden { .. }) {
                return Err(failure);
            }
            console.warn(&format!("how many nodes there are is not known: {failure}"));
            return Ok(None);
        }
    };
    let mut counts = BTreeMap::new();
    for subnet in nodes
        .iter()
        .filter_map(address)
        .filter_map(|ip| topology.node_subnet(ip))
    {
        *counts.entry(subnet).or_default() += 1;
    }
    Ok(Some(counts))
}

/// The text of the configuration in a `ConfigMap` that is named as `namespace/name`.
pub async fn text(cluster: &Cluster, place: &str) -> Result<String, Failure> {
    let wrong = || {
        Failure::Usage(format!(
            "--config-map {place:?} is not of the form NAMESPACE/NAME"
        ))
    };
    let (namespace, name) = place.split_once('/').ok_or_else(wrong)?;
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err(wrong());
    }
    let missing = |kind, hint: &str| Failure::NoSuch {
        kind,
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        hint: Some(hint.to_owned()),
    };
    let access = Access {
        verb: "get",
        resource: "configmaps",
        namespace: Some(namespace),
    };
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), namespace);
    let map = api.get(name).await.map_err(|error| {
        if is_missing(&error) {
            missing(
                "ConfigMap",
                "no addresses are configured (deploy/examples/addresses.yaml is an example), \
                 or they are elsewhere: name the place with --config-map",
            )
        } else {
            cluster.failure(&error, access)
        }
    })?;
    let text = map.data.and_then(|mut data| data.remove(KEY));
    text.ok_or_else(|| Failure::BadConfiguration {
        place: format!("ConfigMap {place}"),
        reason: "NoConfiguration",
        problems: vec![format!("there is no key {KEY:?}")],
    })
}

/// Compat: a node is known by its first internal address.
pub fn address(node: &Node) -> Option<IpAddr> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let internal = addresses.iter().find(|it| it.type_ == "InternalIP")?;
    internal.address.parse().ok()
}
