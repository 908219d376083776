//! One taken address. The object exists if and only if the address is held.

use std::{collections::BTreeMap, net::IpAddr};

use floe_core::{
    addr::name::{self, NameError},
    ipam::{
        attribute::{Attribute, StoredAttribute},
        key::HolderKey,
        policy::ReleasePolicy,
    },
};
use jiff::Timestamp;
use k8s_openapi::{
    ClusterResourceScope,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionNames, JSONSchemaProps,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};

use super::{API_VERSION, GROUP, VERSION, null_is_zero};
use crate::{
    crds::{Definition, column, schema},
    labels,
    resource::resource,
};

/// A taken address; its name is the address, so an address has one holder.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct FloatingIP {
    /// The name is the address in the form of [`floe_core::addr::name`].
    #[serde(default, deserialize_with = "null_is_zero")]
    pub metadata: ObjectMeta,
    /// Who holds the address, and for how long.
    #[serde(default, deserialize_with = "null_is_zero")]
    pub spec: FloatingIPSpec,
}

/// Who holds an address, and for how long.
///
/// Compat: galaxy before v1.0.7 also wrote `subnet`, which is skipped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FloatingIPSpec {
    /// The holder key.
    #[serde(default, deserialize_with = "null_is_zero")]
    pub key: String,
    /// JSON text with node and pod uid. A reservation by hand may have none.
    #[serde(default, deserialize_with = "null_is_zero")]
    pub attribute: String,
    /// The number of the release policy: 0, 1 or 2.
    #[serde(default, deserialize_with = "null_is_zero")]
    pub policy: i64,
    /// When the address last changed hands, in whole seconds. A reservation by
    /// hand may have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_time: Option<Time>,
}

impl FloatingIPSpec {
    /// What to store when an address changes hands.
    pub fn of(
        key: &HolderKey,
        attribute: &Attribute,
        policy: ReleasePolicy,
        updated: Timestamp,
    ) -> Self {
        Self {
            key: key.as_str().to_owned(),
            attribute: attribute.text(),
            policy: policy.number(),
            update_time: Some(Time(updated)),
        }
    }

    /// Who holds the address.
    pub fn holder(&self) -> HolderKey {
        HolderKey::from(self.key.as_str())
    }

    /// Where the holder runs, as far as the stored text can be read.
    pub fn place(&self) -> StoredAttribute {
        Attribute::read(&self.attribute)
    }

    /// The release policy to act on.
    pub fn release_policy(&self) -> ReleasePolicy {
        ReleasePolicy::from_stored(self.policy)
    }

    /// When the address last changed hands; long ago if the record has no time.
    pub fn updated(&self) -> Timestamp {
        let time = self.update_time.as_ref();
        time.map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }
}

impl FloatingIP {
    /// The record of an address, with its name and its readable form set.
    pub fn new(ip: IpAddr, spec: FloatingIPSpec) -> Self {
        let ip = ip.to_canonical();
        Self {
            metadata: ObjectMeta {
                name: Some(name::name(ip)),
                annotations: Some(BTreeMap::from([(
                    labels::ADDRESS.to_owned(),
                    ip.to_string(),
                )])),
                ..ObjectMeta::default()
            },
            spec,
        }
    }

    /// The address that the name says.
    pub fn address(&self) -> Result<IpAddr, NameError> {
        name::parse(self.metadata.name.as_deref().unwrap_or_default())
    }

    /// Whether an administrator reserved the address.
    pub fn is_reserved(&self) -> bool {
        self.has_label(labels::RESERVED)
    }

    /// Whether the record is marked as outside the configuration.
    pub fn is_outside_configuration(&self) -> bool {
        self.has_label(labels::OUTSIDE_CONFIGURATION)
    }

    /// The node that the label names, see [`labels::node_value`].
    pub fn node_label(&self) -> Option<&str> {
        self.label(labels::NODE)
    }

    fn has_label(&self, name: &str) -> bool {
        self.label(name).is_some()
    }

    fn label(&self, name: &str) -> Option<&str> {
        let labels = self.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(name))
            .map(String::as_str)
    }
}

/// The definition of the kind.
///
/// It is wider than galaxy's where galaxy's own documents need it: a
/// reservation may go without `attribute`, `policy` and `updateTime`. It is
/// narrower only where no galaxy could have written: the name is an address and
/// the policy a known one.
pub fn definition() -> CustomResourceDefinition {
    Definition {
        group: GROUP,
        version: VERSION,
        has_status: false,
        names: CustomResourceDefinitionNames {
            kind: "FloatingIP".into(),
            list_kind: Some("FloatingIPList".into()),
            plural: "floatingips".into(),
            singular: Some("floatingip".into()),
            short_names: Some(vec!["fip".into()]),
            ..CustomResourceDefinitionNames::default()
        },
        scope: "Cluster",
        columns: vec![
            column::annotation("Address", labels::ADDRESS)
                .tells("The address in its usual form"),
            column::text("Holder", ".spec.key").tells("Who holds the address"),
            column::integer("Policy", ".spec.policy")
                .tells("When it is released: 0 with its pod, 1 with its workload, 2 never"),
            column::annotation("Node", labels::NODE).tells("The node for which it is bound"),
            column::annotation("State", labels::STATE).tells("What it is to its holder"),
            column::date("Updated", ".spec.updateTime")
                .tells("When it last changed hands")
                .only_wide(),
            column::label("Reserved", labels::RESERVED)
                .tells("Set if an administrator reserved it")
                .only_wide(),
            column::label("Outside", labels::OUTSIDE_CONFIGURATION)
                .tells("Set if no configured range has it")
                .only_wide(),
            column::age(),
        ],
        schema: JSONSchemaProps {
            x_kubernetes_validations: Some(name_rules()),
            ..schema::object(
                "An IP address that is taken. Its name is the address. A free address has no object.",
                [("spec", spec_schema())],
                &["spec"],
            )
        },
    }
    .build()
}

/// An IPv4 address in dotted form, or an IPv6 address as eight groups.
///
/// The server refuses a rule that could cost too much. It takes the longest
/// string it could get for the name, whatever a schema says, and the length of
/// the pattern: this one takes four fifths of the budget.
const NAME: &str = concat!(
    r"^((25[0-5]|(2[0-4]|1\d|[1-9]?)\d)(\.(25[0-5]|(2[0-4]|1\d|[1-9]?)\d)){3}",
    r"|[\da-f]{4}(-[\da-f]{4}){7})$",
);

/// Names of IPv4 addresses in IPv6 clothes start with this.
const MAPPED: &str = "0000-0000-0000-0000-0000-ffff-";

/// A pattern could say the first, but not in words, and not the second.
fn name_rules() -> Vec<schema::Rule> {
    vec![
        schema::rule(
            // Raw, because the pattern has a backslash.
            format!("self.metadata.name.matches(r'{NAME}')"),
            "the name must be the address: IPv4 like 10.0.70.5, IPv6 as eight groups of four lower-case hex digits joined by '-'",
        ),
        schema::rule(
            format!("!self.metadata.name.startsWith('{MAPPED}')"),
            "the name of an IPv4 address is its dotted form",
        ),
    ]
}

fn spec_schema() -> JSONSchemaProps {
    schema::object(
        "Who holds the address, and for how long.",
        [
            (
                "key",
                schema::text("The holder, for example sts_<namespace>_<app>_<pod>."),
            ),
            (
                "attribute",
                schema::nullable(schema::text(
                    "JSON text with the node and the uid of the pod.",
                )),
            ),
            (
                "policy",
                JSONSchemaProps {
                    minimum: Some(0.0),
                    maximum: Some(2.0),
                    ..schema::nullable(schema::integer(
                        "When the address is released: 0 with its pod, 1 when the workload shrinks or goes, 2 never.",
                    ))
                },
            ),
            (
                "updateTime",
                schema::nullable(schema::date("When the address last changed hands.")),
            ),
            (
                "subnet",
                schema::anything("Written by galaxy before v1.0.7 and ignored."),
            ),
        ],
        &["key"],
    )
}

resource!(FloatingIP, "floatingips", ClusterResourceScope);

/// Says kind and version of each object without storing them a hundred
/// thousand times.
impl Serialize for FloatingIP {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("FloatingIP", 4)?;
        object.serialize_field("apiVersion", API_VERSION)?;
        object.serialize_field("kind", "FloatingIP")?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("spec", &self.spec)?;
        object.end()
    }
}

#[cfg(test)]
mod tests;
