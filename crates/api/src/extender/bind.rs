//! The request to bind a pod, and its answer.

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess},
};

use super::{
    PodRef,
    fold::{self, Members},
};

/// Bind this pod to this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindRequest {
    /// The pod that was placed.
    pub pod: PodRef,
    /// The name of the node that was chosen.
    pub node: String,
}

/// The answer to bind: an error, or an empty one for success.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BindAnswer {
    error: String,
}

impl BindAnswer {
    /// The pod is bound.
    pub fn bound() -> Self {
        Self::default()
    }

    /// The pod is not bound, and why.
    pub fn refused(error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
        }
    }
}

impl<'de> Deserialize<'de> for BindRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members: BindMembers = fold::object(deserializer)?;
        let missing = D::Error::missing_field;
        Ok(Self {
            pod: PodRef {
                namespace: members.namespace.ok_or_else(|| missing("PodNamespace"))?,
                name: members.name.ok_or_else(|| missing("PodName"))?,
                uid: members.uid.ok_or_else(|| missing("PodUID"))?,
            },
            node: members.node.ok_or_else(|| missing("Node"))?,
        })
    }
}

#[derive(Default)]
struct BindMembers {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    node: Option<String>,
}

impl<'de> Members<'de> for BindMembers {
    const WHAT: &'static str = "an object with a pod and a node";

    fn take<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        if fold::is(name, "podname") {
            self.name = map.next_value()?;
        } else if fold::is(name, "podnamespace") {
            self.namespace = map.next_value()?;
        } else if fold::is(name, "poduid") {
            self.uid = map.next_value()?;
        } else if fold::is(name, "node") {
            self.node = map.next_value()?;
        } else {
            fold::skip(map)?;
        }
        Ok(())
    }
}
