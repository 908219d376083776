//! Entries as the API server has them.
//!
//! To the API server each member of an object is something to decode, check, copy and compare,
//! several times for each write; a register with some thousand of them takes its time just
//! when a node has died. Nobody but floe looks into an entry, so its parts are texts of JSON.
//! Names of nodes stand beside them, for the policy that lets an agent change only what
//! concerns its own node.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde::{Deserialize as _, Deserializer, de::Error as _};
use serde_json::{Map, Value, json};

use super::Entry;
use crate::crds::schema;

/// The members of an entry.
type Stored = BTreeMap<String, String>;

/// The pods of an entry, and where their nodes stand.
const PODS: [(&str, &str); 2] = [("holder", "holderNode"), ("successor", "successorNode")];
const VIP: &str = "vip";
const STATE: &str = "state";

/// How an entry is stored.
pub(super) fn stored(entry: &Entry) -> Stored {
    let mut stored = Stored::from([(VIP.to_owned(), entry.vip.clone())]);
    let mut state = json!(entry);
    let mut take = |member: &str| state.as_object_mut().and_then(|it| it.remove(member));
    take(VIP);
    for ((pod, node), holding) in PODS.into_iter().zip([&entry.holder, &entry.successor]) {
        if let (Some(Value::Object(mut rest)), Some(holding)) = (take(pod), holding) {
            rest.remove("node");
            stored.insert(node.to_owned(), holding.node.clone());
            stored.insert(pod.to_owned(), Value::Object(rest).to_string());
        }
    }
    stored.insert(STATE.to_owned(), state.to_string());
    stored
}

/// What replaces an entry in a merge, in which only what is null goes.
pub(super) fn replacement(entry: &Entry) -> Value {
    let mut replacement = json!(stored(entry));
    for member in PODS.iter().flat_map(|(pod, node)| [pod, node]) {
        if replacement.get(member).is_none() {
            replacement[member] = Value::Null;
        }
    }
    replacement
}

/// Reads all entries of a register.
pub(super) fn read_all<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Entry>, D::Error> {
    let all = BTreeMap::<String, Stored>::deserialize(deserializer)?;
    let read = |(uid, stored): (String, Stored)| match read(stored) {
        Ok(entry) => Ok((uid, entry)),
        Err(error) => Err(D::Error::custom(format!("the entry of {uid}: {error}"))),
    };
    all.into_iter().map(read).collect()
}

fn read(mut stored: Stored) -> serde_json::Result<Entry> {
    let state = stored.remove(STATE).unwrap_or_default();
    let mut entry: Map<String, Value> = serde_json::from_str(&state)?;
    for (pod, node) in PODS {
        if let Some(holding) = stored.remove(pod) {
            let mut holding: Map<String, Value> = serde_json::from_str(&holding)?;
            holding.extend(stored.remove(node).map(|it| ("node".to_owned(), it.into())));
            entry.insert(pod.to_owned(), holding.into());
        }
    }
    entry.extend(stored.remove(VIP).map(|it| (VIP.to_owned(), it.into())));
    serde_json::from_value(entry.into())
}

/// The schema of an entry.
pub(super) fn definition() -> JSONSchemaProps {
    schema::object(
        "Who has the addresses of one VirtualIP.",
        [
            (VIP, schema::text("Its namespace and name.")),
            (
                "holderNode",
                schema::text("The node of the pod that has them."),
            ),
            (
                "holder",
                schema::text("That pod, in JSON: what the VirtualIP's status shows."),
            ),
            (
                "successorNode",
                schema::text("The node of the pod that is to have them next."),
            ),
            ("successor", schema::text("That pod, in JSON.")),
            (
                STATE,
                schema::text(
                    "The granted addresses, the number of moves and the last one, in JSON.",
                ),
            ),
        ],
        &[STATE],
    )
}
