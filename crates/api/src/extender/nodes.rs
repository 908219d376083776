//! The nodes of a request, as names or as objects.

use std::{borrow::Cow, net::IpAddr};

use floe_core::{
    addr,
    json::{self, Names},
};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess},
};
use serde_json::value::RawValue;

use super::{
    Offer, PodObject,
    fold::{self, Members, Text},
};

/// The nodes that a scheduler offers, in its order.
#[derive(Debug)]
pub enum Nodes<'a> {
    /// Of a scheduler with `nodeCacheCapable: true`.
    Names(Vec<Cow<'a, str>>),
    /// Of a scheduler with `nodeCacheCapable: false`.
    Objects(Vec<NodeObject<'a>>),
}

impl Nodes<'_> {
    /// The names of the nodes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        // One of the two is always empty; an iterator has a single type.
        let (names, objects): (&[_], &[_]) = match self {
            Self::Names(names) => (names, &[]),
            Self::Objects(objects) => (&[], objects),
        };
        let of_objects = objects.iter().map(|node| &*node.name);
        names.iter().map(|name| &**name).chain(of_objects)
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Names(names) => names.len(),
            Self::Objects(objects) => objects.len(),
        }
    }

    /// Whether there is no node at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A node that came as an object.
#[derive(Debug)]
pub struct NodeObject<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its addresses of type `InternalIP` that can be read, in their order.
    pub internal_ips: Vec<IpAddr>,
    /// The object as it came, for the answer.
    pub object: &'a RawValue,
}

impl<'de: 'a, 'a> Deserialize<'de> for Offer<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let OfferMembers { pod, nodes, names } = fold::object(deserializer)?;
        Ok(Self {
            pod: pod.ok_or_else(|| D::Error::missing_field("Pod"))?.metadata,
            // A scheduler fills one of them. If ever both, every scheduler
            // takes objects for an answer, and only some take names.
            nodes: match (nodes, names) {
                (None, Some(names)) => {
                    Nodes::Names(names.into_iter().map(|Text(name)| name).collect())
                }
                (nodes, _) => Nodes::Objects(nodes.and_then(|list| list.items).unwrap_or_default()),
            },
        })
    }
}

#[derive(Default)]
struct OfferMembers<'a> {
    pod: Option<PodObject>,
    nodes: Option<NodeList<'a>>,
    names: Option<Vec<Text<'a>>>,
}

impl<'de: 'a, 'a> Members<'de> for OfferMembers<'a> {
    const WHAT: &'static str = "an object with a pod and nodes";

    fn take<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        if fold::is(name, "pod") {
            self.pod = map.next_value()?;
        } else if fold::is(name, "nodes") {
            self.nodes = map.next_value()?;
        } else if fold::is(name, "nodenames") {
            self.names = map.next_value()?;
        } else {
            fold::skip(map)?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct NodeList<'a> {
    #[serde(borrow)]
    items: Option<Vec<NodeObject<'a>>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for NodeObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = <&RawValue>::deserialize(deserializer)?;
        let facts = json::decode(object.get().as_bytes(), Names::Go);
        let facts: NodeFacts = facts.map_err(D::Error::custom)?;
        let addresses = facts.status.and_then(|status| status.addresses);
        Ok(Self {
            name: facts.metadata.name,
            internal_ips: addresses
                .unwrap_or_default()
                .iter()
                .filter(|address| address.kind == "InternalIP")
                .filter_map(|address| addr::parse(&address.address))
                .collect(),
            object,
        })
    }
}

#[derive(Deserialize)]
struct NodeFacts<'a> {
    #[serde(borrow)]
    metadata: NodeMetadata<'a>,
    #[serde(borrow)]
    status: Option<NodeStatus<'a>>,
}

#[derive(Deserialize)]
struct NodeMetadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

#[derive(Deserialize)]
struct NodeStatus<'a> {
    #[serde(borrow)]
    addresses: Option<Vec<NodeAddress<'a>>>,
}

#[derive(Deserialize)]
struct NodeAddress<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    address: Cow<'a, str>,
}
