//! `NodeDNSRecordSet`: a name in DNS that says the addresses of nodes that fit.

use floe_core::nodepool::records::AddressType;
use k8s_openapi::{
    NamespaceResourceScope,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionNames, JSONSchemaProps,
    },
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time},
};
use serde::{Deserialize, Serialize};

use super::{DnsRecordSet, GROUP, Match, VERSION, dns_schema, match_schema};
use crate::{
    crds::{Definition, column, schema},
    floe::condition_schema,
    resource::resource,
};

/// A name in DNS that says the addresses of nodes that fit.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct NodeDNSRecordSet {
    /// Name and namespace.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(default)]
    pub spec: NodeDNSRecordSetSpec,
    /// What is.
    #[serde(default)]
    pub status: Option<NodeDNSRecordSetStatus>,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeDNSRecordSetSpec {
    /// Who keeps the zone, where the record set does not say it.
    ///
    /// Compat: FLIPOP's README has it here, and its definition does not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// Which nodes are meant.
    #[serde(rename = "match")]
    pub rule: Match,
    /// The name.
    pub dns_record_set: DnsRecordSet,
    /// Which addresses of the nodes; empty for `ExternalIP`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address_type: String,
    /// Of which families. Compat: without it only IPv4.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub address_families: Vec<AddressFamily>,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AddressFamily {
    /// A records.
    IPv4,
    /// AAAA records.
    IPv6,
}

/// What is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeDNSRecordSetStatus {
    /// `active`, `in-progress` or `error`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// What is wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The generation that all of this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The addresses that the name says, as far as is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// How many they are.
    pub records: i64,
    /// When that was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update: Option<Time>,
    /// [`super::ACCEPTED`] and [`super::PUBLISHED`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl NodeDNSRecordSet {
    /// The condition of a type, if it was told.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.find(|condition| condition.type_ == kind)
    }
}

impl NodeDNSRecordSetSpec {
    /// Who keeps the zone.
    pub fn provider(&self) -> &str {
        let own = &self.dns_record_set.provider;
        if own.is_empty() { &self.provider } else { own }
    }

    /// Which addresses of the nodes are meant.
    pub fn address_type(&self) -> AddressType {
        AddressType::parse(&self.address_type)
    }

    /// Whether a family is meant.
    pub fn wants(&self, family: AddressFamily) -> bool {
        match self.address_families.as_slice() {
            [] => family == AddressFamily::IPv4,
            some => some.contains(&family),
        }
    }
}

/// The definition of the kind.
///
/// Compat: it takes whatever FLIPOP's takes, and also the provider where its README has it.
pub fn definition() -> CustomResourceDefinition {
    let published =
        |member: &str| format!(r#".status.conditions[?(@.type=="Published")].{member}"#);
    Definition {
        group: GROUP,
        version: VERSION,
        has_status: true,
        names: CustomResourceDefinitionNames {
            kind: "NodeDNSRecordSet".into(),
            list_kind: Some("NodeDNSRecordSetList".into()),
            plural: "nodednsrecordsets".into(),
            singular: Some("nodednsrecordset".into()),
            short_names: Some(vec!["nodedns".into()]),
            ..CustomResourceDefinitionNames::default()
        },
        scope: "Namespaced",
        columns: vec![
            column::text("Zone", ".spec.dnsRecordSet.zone").tells("The zone"),
            column::text("Record", ".spec.dnsRecordSet.recordName").tells("The name"),
            column::integer("Addresses", ".status.records").tells("How many addresses it says"),
            column::text("State", ".status.state").tells("How it is"),
            column::text("Reason", &published("reason")).tells("Why"),
            column::date("Updated", ".status.lastUpdate")
                .tells("When it was last written")
                .only_wide(),
            column::text("Error", ".status.error")
                .tells("What is wrong")
                .only_wide(),
            column::age(),
        ],
        schema: schema::object(
            "A name in DNS that says the addresses of nodes that fit.",
            [("spec", spec()), ("status", status())],
            &[],
        ),
    }
    .build()
}

fn spec() -> JSONSchemaProps {
    let family = schema::word("A family.", &["IPv4", "IPv6"]);
    schema::object(
        "What is asked for.",
        [
            (
                "provider",
                schema::text("Who keeps the zone, where the record set does not say it."),
            ),
            ("match", match_schema()),
            ("dnsRecordSet", dns_schema()),
            (
                "addressType",
                schema::text(
                    "Which addresses of the nodes: a type of the node's status, by default \
                     ExternalIP, or flipop.digitalocean.com/ipv4-reserved-ip for those that \
                     pools have given them.",
                ),
            ),
            (
                "addressFamilies",
                schema::list("Of which families; without it IPv4.", family),
            ),
        ],
        &[],
    )
}

fn status() -> JSONSchemaProps {
    schema::object(
        "What is.",
        [
            ("state", schema::text("active, in-progress or error.")),
            ("error", schema::text("What is wrong.")),
            (
                "observedGeneration",
                schema::integer("The generation that this is about."),
            ),
            (
                "addresses",
                schema::list("The addresses that it says.", schema::text("An address.")),
            ),
            ("records", schema::integer("How many they are.")),
            ("lastUpdate", schema::date("When it was last written.")),
            (
                "conditions",
                schema::map_list(
                    "Whether it is accepted and published.",
                    "type",
                    condition_schema(),
                ),
            ),
        ],
        &[],
    )
}

resource!(
    NodeDNSRecordSet,
    "nodednsrecordsets",
    NamespaceResourceScope,
    spec,
    status
);

#[cfg(test)]
mod tests;
