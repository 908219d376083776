//! `NodeNetwork`: which networks a node can serve.

use k8s_openapi::{
    ClusterResourceScope,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionNames, JSONSchemaProps,
    },
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time},
};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};

use super::{API_VERSION, GROUP, VERSION, condition_schema};
use crate::{
    crds::{Definition, column, schema},
    resource::resource,
};

/// The condition that says whether a node can serve all of its networks.
pub const READY: &str = "Ready";
/// The condition that says whether addresses of the node's pods are in use elsewhere.
pub const ADDRESS_CONFLICT: &str = "AddressConflict";

/// What a node can do for its pods; its name is the node's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct NodeNetwork {
    /// The name is the node's.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the agent has found; none before its first look.
    #[serde(default)]
    pub status: Option<NodeNetworkStatus>,
}

/// What an agent has found on its node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeNetworkStatus {
    /// The version of the agent.
    pub agent_version: String,
    /// When the agent last wrote, once a minute at least: older means that no agent
    /// runs, and that the rest may no longer hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Time>,
    /// The counts that `kubectl get` shows.
    pub summary: Summary,
    /// The networks of the node, by name.
    pub networks: Vec<NetworkStatus>,
    /// The links that the networks rest on, by name.
    pub links: Vec<LinkStatus>,
    /// Addresses of this node's pods that somebody else uses.
    pub conflicts: Vec<ConflictStatus>,
    /// Addresses that records give to pods of this node and that the pods do not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingStatus>,
    /// What holds for the node as a whole: [`READY`] and [`ADDRESS_CONFLICT`].
    pub conditions: Vec<Condition>,
}

/// The counts that `kubectl get` shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// Networks that are ready, a slash, and all networks.
    pub networks: String,
    /// How many conflicts there are.
    pub conflicts: i64,
}

/// Whether a node can serve a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkStatus {
    /// The name of the network.
    pub name: String,
    /// The plugin that it begins with.
    pub r#type: String,
    /// Whether pods can join it.
    pub ready: bool,
    /// Why or why not, in one CamelCase word.
    pub reason: String,
    /// The same for people.
    pub message: String,
}

/// A link that networks rest on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LinkStatus {
    /// Its name.
    pub name: String,
    /// Whether an administrator set it up.
    pub up: bool,
    /// Whether it carries frames.
    pub carrier: bool,
}

/// An address that was not given to a pod, because somebody else uses it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConflictStatus {
    /// The address.
    pub ip: String,
    /// Who answers for it.
    pub mac: String,
    /// The pod that it belongs to, with its namespace.
    pub pod: String,
    /// When it was first seen.
    pub since: Time,
}

/// An address that its record gives to a pod and that the pod does not have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingStatus {
    /// The address.
    pub ip: String,
    /// The pod that it belongs to, with its namespace.
    pub pod: String,
    /// When the agent first found it missing.
    pub since: Time,
}

impl NodeNetwork {
    /// The object of a node, without a status.
    pub fn of(node: &str) -> Self {
        Self {
            metadata: ObjectMeta {
                name: Some(node.to_owned()),
                ..ObjectMeta::default()
            },
            status: None,
        }
    }

    /// The condition of a type, if it was told.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.find(|condition| condition.type_ == kind)
    }
}

/// The definition of the kind.
pub fn definition() -> CustomResourceDefinition {
    Definition {
        group: GROUP,
        version: VERSION,
        has_status: true,
        names: CustomResourceDefinitionNames {
            kind: "NodeNetwork".into(),
            list_kind: Some("NodeNetworkList".into()),
            plural: "nodenetworks".into(),
            singular: Some("nodenetwork".into()),
            short_names: Some(vec!["nn".into()]),
            ..CustomResourceDefinitionNames::default()
        },
        scope: "Cluster",
        columns: vec![
            column::text("Ready", r#".status.conditions[?(@.type=="Ready")].status"#)
                .tells("Whether the node can serve all of its networks"),
            column::text("Networks", ".status.summary.networks")
                .tells("Networks that it can serve, of all"),
            column::integer("Conflicts", ".status.summary.conflicts")
                .tells("Addresses of its pods that somebody else uses"),
            column::text("Reason", r#".status.conditions[?(@.type=="Ready")].reason"#)
                .tells("Why it is ready or not")
                .only_wide(),
            column::text("Version", ".status.agentVersion")
                .tells("The version of the agent")
                .only_wide(),
            column::date("Seen", ".status.lastSeen")
                .tells("When the agent last wrote")
                .only_wide(),
            column::age(),
        ],
        schema: schema::object(
            "What a node can do for its pods. Its name is the node's.",
            [("status", status_schema())],
            &[],
        ),
    }
    .build()
}

fn status_schema() -> JSONSchemaProps {
    schema::object(
        "What the agent of the node has found.",
        [
            ("agentVersion", schema::text("The version of the agent.")),
            (
                "lastSeen",
                schema::date("When the agent last wrote, once a minute at least."),
            ),
            (
                "summary",
                schema::object(
                    "The counts that kubectl get shows.",
                    [
                        (
                            "networks",
                            schema::text("Networks that are ready, a slash, and all networks."),
                        ),
                        (
                            "conflicts",
                            schema::integer("How many conflicts there are."),
                        ),
                    ],
                    &[],
                ),
            ),
            (
                "networks",
                schema::list("The networks of the node, by name.", network_schema()),
            ),
            (
                "links",
                schema::list(
                    "The links that the networks rest on, by name.",
                    link_schema(),
                ),
            ),
            (
                "conflicts",
                schema::list(
                    "Addresses of this node's pods that somebody else uses.",
                    conflict_schema(),
                ),
            ),
            (
                "missing",
                schema::list(
                    "Addresses that records give to pods of this node and that the pods do not have.",
                    missing_schema(),
                ),
            ),
            (
                "conditions",
                schema::map_list(
                    "What holds for the node as a whole.",
                    "type",
                    condition_schema(),
                ),
            ),
        ],
        &[],
    )
}

fn network_schema() -> JSONSchemaProps {
    schema::object(
        "Whether the node can serve a network.",
        [
            ("name", schema::text("The name of the network.")),
            ("type", schema::text("The plugin that it begins with.")),
            ("ready", schema::boolean("Whether pods can join it.")),
            (
                "reason",
                schema::text("Why or why not, in one CamelCase word."),
            ),
            ("message", schema::text("The same for people.")),
        ],
        &["name", "ready"],
    )
}

fn link_schema() -> JSONSchemaProps {
    schema::object(
        "A link that networks rest on.",
        [
            ("name", schema::text("Its name.")),
            ("up", schema::boolean("Whether an administrator set it up.")),
            ("carrier", schema::boolean("Whether it carries frames.")),
        ],
        &["name", "up", "carrier"],
    )
}

fn conflict_schema() -> JSONSchemaProps {
    schema::object(
        "An address that was not given to a pod, because somebody else uses it.",
        [
            ("ip", schema::text("The address.")),
            ("mac", schema::text("Who answers for it.")),
            (
                "pod",
                schema::text("The pod that it belongs to, with its namespace."),
            ),
            ("since", schema::date("When it was first seen.")),
        ],
        &["ip", "mac", "pod", "since"],
    )
}

fn missing_schema() -> JSONSchemaProps {
    schema::object(
        "An address that its record gives to a pod and that is not configured there.",
        [
            ("ip", schema::text("The address.")),
            (
                "pod",
                schema::text("The pod that it belongs to, with its namespace."),
            ),
            (
                "since",
                schema::date("When the agent first found it missing."),
            ),
        ],
        &["ip", "pod", "since"],
    )
}

resource!(NodeNetwork, "nodenetworks", ClusterResourceScope);

/// Says kind and version, as server-side apply demands.
impl Serialize for NodeNetwork {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = 3 + usize::from(self.status.is_some());
        let mut object = serializer.serialize_struct("NodeNetwork", members)?;
        object.serialize_field("apiVersion", API_VERSION)?;
        object.serialize_field("kind", "NodeNetwork")?;
        object.serialize_field("metadata", &self.metadata)?;
        match &self.status {
            Some(status) => object.serialize_field("status", status)?,
            None => object.skip_field("status")?,
        }
        object.end()
    }
}

#[cfg(test)]
mod tests;
