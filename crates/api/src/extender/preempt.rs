//! The request to review a preemption, and its answer.
//!
//! A scheduler sends the victims of each node as pod objects, or with
//! `nodeCacheCapable` as their uids. It takes uids back in both cases.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess},
    ser::SerializeStruct,
};

use super::{
    PodObject, PodRef,
    fold::{self, Members, Text},
};

/// On which nodes would it help to remove which pods?
#[derive(Debug)]
pub struct PreemptRequest<'a> {
    /// The pod that would get the room.
    pub pod: PodRef,
    /// What would have to go, by the name of the node.
    pub victims: BTreeMap<Cow<'a, str>, Victims<'a>>,
}

impl<'a> PreemptRequest<'a> {
    /// The answer that keeps the nodes for which this says yes.
    pub fn keep(&self, mut helps: impl FnMut(&str) -> bool) -> PreemptAnswer<'_, 'a> {
        let kept = self.victims.iter().filter(|(node, _)| helps(node));
        PreemptAnswer {
            victims: kept.map(|(node, victims)| (&**node, victims)).collect(),
        }
    }
}

/// What would have to go from one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Victims<'a> {
    /// The uids of the pods.
    pub pods: Vec<Cow<'a, str>>,
    /// How many disruption budgets that would break.
    pub pdb_violations: i64,
}

/// The answer to preempt: the nodes on which it would help.
#[derive(Debug, Serialize)]
pub struct PreemptAnswer<'r, 'a> {
    #[serde(rename = "NodeNameToMetaVictims")]
    victims: BTreeMap<&'r str, &'r Victims<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for PreemptRequest<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let PreemptMembers { pod, full, meta } = fold::object(deserializer)?;
        let victims = match meta {
            Some(meta) if !meta.is_empty() => uids_by_node(meta),
            _ => uids_by_node(full.unwrap_or_default()),
        };
        Ok(Self {
            pod: pod.ok_or_else(|| D::Error::missing_field("Pod"))?.metadata,
            victims,
        })
    }
}

#[derive(Default)]
struct PreemptMembers<'a> {
    pod: Option<PodObject>,
    full: Option<VictimsByNode<'a, FullVictim<'a>>>,
    meta: Option<VictimsByNode<'a, MetaVictim<'a>>>,
}

/// Go has a pointer for the victims of a node, which may be null.
type VictimsByNode<'a, P> = BTreeMap<Text<'a>, Option<VictimMembers<P>>>;

impl<'de: 'a, 'a> Members<'de> for PreemptMembers<'a> {
    const WHAT: &'static str = "an object with a pod and victims by node";

    fn take<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        if fold::is(name, "pod") {
            self.pod = map.next_value()?;
        } else if fold::is(name, "nodenametovictims") {
            self.full = map.next_value()?;
        } else if fold::is(name, "nodenametometavictims") {
            self.meta = map.next_value()?;
        } else {
            fold::skip(map)?;
        }
        Ok(())
    }
}

fn uids_by_node<'a, P: Into<Cow<'a, str>>>(
    by_node: VictimsByNode<'a, P>,
) -> BTreeMap<Cow<'a, str>, Victims<'a>> {
    let uids = |members: VictimMembers<P>| Victims {
        pods: members.pods.into_iter().map(P::into).collect(),
        pdb_violations: members.pdb_violations,
    };
    by_node
        .into_iter()
        .map(|(Text(node), members)| (node, members.map(uids).unwrap_or_default()))
        .collect()
}

struct VictimMembers<P> {
    pods: Vec<P>,
    pdb_violations: i64,
}

impl<P> Default for VictimMembers<P> {
    fn default() -> Self {
        Self {
            pods: Vec::new(),
            pdb_violations: 0,
        }
    }
}

impl<'de, P: Deserialize<'de>> Members<'de> for VictimMembers<P> {
    const WHAT: &'static str = "an object with pods and a number";

    fn take<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        if fold::is(name, "pods") {
            self.pods = map.next_value::<Option<_>>()?.unwrap_or_default();
        } else if fold::is(name, "numpdbviolations") {
            self.pdb_violations = map.next_value()?;
        } else {
            fold::skip(map)?;
        }
        Ok(())
    }
}

impl<'de, P: Deserialize<'de>> Deserialize<'de> for VictimMembers<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fold::object(deserializer)
    }
}

/// A victim as a pod object.
#[derive(Deserialize)]
struct FullVictim<'a> {
    #[serde(borrow)]
    metadata: VictimMetadata<'a>,
}

#[derive(Deserialize)]
struct VictimMetadata<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
}

impl<'a> From<FullVictim<'a>> for Cow<'a, str> {
    fn from(victim: FullVictim<'a>) -> Self {
        victim.metadata.uid
    }
}

/// A victim as its uid.
#[derive(Default)]
struct MetaVictim<'a> {
    uid: Cow<'a, str>,
}

impl<'de: 'a, 'a> Members<'de> for MetaVictim<'a> {
    const WHAT: &'static str = "an object with a uid";

    fn take<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        if fold::is(name, "uid") {
            Text(self.uid) = map.next_value()?;
        } else {
            fold::skip(map)?;
        }
        Ok(())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for MetaVictim<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fold::object(deserializer)
    }
}

impl<'a> From<MetaVictim<'a>> for Cow<'a, str> {
    fn from(victim: MetaVictim<'a>) -> Self {
        victim.uid
    }
}

impl Serialize for Victims<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Uid<'a> {
            #[serde(rename = "UID")]
            uid: &'a str,
        }
        let pods: Vec<Uid> = self.pods.iter().map(|uid| Uid { uid }).collect();
        let mut victims = serializer.serialize_struct("Victims", 2)?;
        victims.serialize_field("Pods", &pods)?;
        victims.serialize_field("NumPDBViolations", &self.pdb_violations)?;
        victims.end()
    }
}
