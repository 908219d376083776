//! The resources of `flipop.digitalocean.com/v1alpha1`: addresses of a cloud that follow
//! nodes, and DNS records that follow them.
//!
//! Compat: group, kinds, members and states are FLIPOP's, so that its manifests and scripts
//! work as they are. What floe adds is optional and listed in `docs/guide/node-ips.md`.
//!
//! - [`pool`]: the kind `FloatingIPPool`.
//! - [`records`]: the kind `NodeDNSRecordSet`.
//! - [`memory`]: what outlives the controller, in the status of a pool.
//! - [`address`]: the texts of `spec.ips`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde::{Deserialize, Serialize};

use crate::crds::schema;

pub mod address;
pub mod memory;
pub mod pool;
pub mod records;

/// The API group of FLIPOP.
pub const GROUP: &str = "flipop.digitalocean.com";
/// The version of its kinds.
pub const VERSION: &str = "v1alpha1";
/// Group and version, as an object names them.
pub const API_VERSION: &str = "flipop.digitalocean.com/v1alpha1";

/// The annotation of a node that says which IPv4 address it was given.
pub const IPV4_ANNOTATION: &str = "flipop.digitalocean.com/ipv4-reserved-ip";
/// The same for IPv6, which FLIPOP does not have.
pub const IPV6_ANNOTATION: &str = "flipop.digitalocean.com/ipv6-reserved-ip";
/// All addresses that a node was given, of all pools, with a comma between them.
pub const ALL_ANNOTATION: &str = "floe.dev/node-ips";

/// The condition that says whether the specification can be followed.
pub const ACCEPTED: &str = "Accepted";
/// The condition that says whether everything is as it shall be.
pub const READY: &str = "Ready";
/// The condition that says whether DNS names the addresses.
pub const PUBLISHED: &str = "Published";

/// Which nodes are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Match {
    /// A selector for labels of nodes, as a text; empty for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_label: String,
    /// A selector for labels of pods, one of which must be on the node and ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_label: String,
    /// The namespace of those pods; empty for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_namespace: String,
    /// Taints that a node may have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// A taint that a node may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// Its key; empty for any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `Equal`, which is the default, or `Exists`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator: String,
    /// Its value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Its effect; empty for any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub effect: String,
}

/// A name in DNS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsRecordSet {
    /// Who keeps the zone.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// The zone, in the provider's way.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// The name, in the provider's way.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub record_name: String,
    /// How long others may remember it, in seconds; 0 for the default.
    #[serde(skip_serializing_if = "is_zero")]
    pub ttl: i64,
    /// Whether the name may say nothing at all when there is no address. Else it keeps the
    /// last ones: a name that is gone is remembered as such for long.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_empty: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl DnsRecordSet {
    /// The lifetime to ask for, with the default of pools where there is none.
    pub fn ttl_or(&self, default: u32) -> u32 {
        match u32::try_from(self.ttl) {
            Ok(0) | Err(_) => default,
            Ok(ttl) => ttl,
        }
    }

    /// Whether zone and name are given.
    pub fn is_named(&self) -> bool {
        !self.zone.is_empty() && !self.record_name.is_empty()
    }
}

fn match_schema() -> JSONSchemaProps {
    let toleration = schema::object(
        "A taint that a node may have.",
        [
            ("key", schema::text("Its key; empty for any.")),
            (
                "operator",
                schema::text("Equal, which is the default, or Exists."),
            ),
            ("value", schema::text("Its value.")),
            ("effect", schema::text("Its effect; empty for any.")),
        ],
        &[],
    );
    schema::object(
        "Which nodes are meant. Without anything: all that are ready and have no taint.",
        [
            (
                "nodeLabel",
                schema::text("A selector for labels of nodes; empty for all."),
            ),
            (
                "podLabel",
                schema::text(
                    "A selector for labels of pods: one of them must run on the node and be ready.",
                ),
            ),
            (
                "podNamespace",
                schema::text("The namespace of those pods; empty for all."),
            ),
            (
                "tolerations",
                schema::list("Taints that a node may have.", toleration),
            ),
        ],
        &[],
    )
}

fn dns_schema() -> JSONSchemaProps {
    schema::object(
        "A name in DNS that says the addresses.",
        [
            ("provider", schema::text("Who keeps the zone.")),
            (
                "zone",
                schema::text("The zone: a domain or an identifier, as the provider has it."),
            ),
            (
                "recordName",
                schema::text("The name: relative or full, as the provider has it."),
            ),
            (
                "ttl",
                schema::integer("How long others may remember it, in seconds."),
            ),
            (
                "allowEmpty",
                schema::boolean(
                    "Whether the name may say nothing when there is no address; else it keeps \
                     the last ones.",
                ),
            ),
        ],
        &[],
    )
}

#[cfg(test)]
mod tests;
