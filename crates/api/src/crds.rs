//! The resources as definitions for the API server.
//!
//! They are written by hand, not derived: galaxy's Pool has no spec, and a
//! schema that must accept what others stored says more than a Rust type does.
//! `deploy/crds/galaxy.yaml`, `floe.yaml` and `flipop.yaml` are their texts, and a test
//! keeps them in step.

use std::collections::BTreeMap;

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
        CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
        CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{flipop, floe, galaxy};
use column::Column;

pub(crate) mod column;
pub(crate) mod schema;

/// Every definition of galaxy's group, which the controller cannot work without, in
/// the order of their kinds.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![galaxy::floatingip::definition(), galaxy::pool::definition()]
}

/// The definitions of floe's own group, in the order of their kinds. Addresses of single
/// pods do not need them.
pub fn own() -> Vec<CustomResourceDefinition> {
    vec![
        floe::nodenetwork::definition(),
        floe::virtualip::definition(),
        floe::register::definition(),
    ]
}

/// The definitions of FLIPOP's group, in the order of their kinds. Nothing else needs them.
pub fn node_pools() -> Vec<CustomResourceDefinition> {
    vec![flipop::pool::definition(), flipop::records::definition()]
}

/// The definitions of [`all`] as one YAML text, ready for
/// `kubectl apply --server-side`.
pub fn yaml() -> String {
    text("galaxy.k8s.io/v1alpha1", all())
}

/// The definitions of [`own`] as one YAML text.
pub fn own_yaml() -> String {
    text(floe::API_VERSION, own())
}

/// The definitions of [`node_pools`] as one YAML text.
pub fn node_pools_yaml() -> String {
    text(flipop::API_VERSION, node_pools())
}

fn text(group: &str, definitions: Vec<CustomResourceDefinition>) -> String {
    let documents = definitions.into_iter().map(|definition| {
        serde_saphyr::to_string(&definition)
            .expect("a definition is maps with text keys, lists and scalars, and YAML has them all")
    });
    let header = format!("# The resources of {group}, generated from crates/api.\n");
    header + &documents.collect::<Vec<_>>().join("---\n")
}

/// What differs between two definitions.
pub(crate) struct Definition {
    pub group: &'static str,
    pub version: &'static str,
    pub names: CustomResourceDefinitionNames,
    pub scope: &'static str,
    pub columns: Vec<Column>,
    pub schema: JSONSchemaProps,
    pub has_status: bool,
}

/// The API server refuses a group below `k8s.io` that names no approval.
///
/// Compat: the value is galaxy's.
const APPROVAL: (&str, &str) = (
    "api-approved.kubernetes.io",
    "https://github.com/kubernetes/kubernetes/pull/78458",
);

impl Definition {
    pub fn build(self) -> CustomResourceDefinition {
        let approval = || BTreeMap::from([(APPROVAL.0.into(), APPROVAL.1.into())]);
        let subresources = || CustomResourceSubresources {
            status: Some(CustomResourceSubresourceStatus(serde_json::json!({}))),
            ..CustomResourceSubresources::default()
        };
        CustomResourceDefinition {
            metadata: ObjectMeta {
                name: Some(format!("{}.{}", self.names.plural, self.group)),
                annotations: self.group.ends_with(".k8s.io").then(approval),
                labels: Some(BTreeMap::from([(
                    "app.kubernetes.io/part-of".into(),
                    "floe".into(),
                )])),
                ..ObjectMeta::default()
            },
            spec: CustomResourceDefinitionSpec {
                group: self.group.into(),
                names: self.names,
                scope: self.scope.into(),
                versions: vec![CustomResourceDefinitionVersion {
                    name: self.version.into(),
                    served: true,
                    storage: true,
                    additional_printer_columns: Some(
                        self.columns.into_iter().map(Column::into).collect(),
                    ),
                    schema: Some(CustomResourceValidation {
                        open_api_v3_schema: Some(self.schema),
                    }),
                    subresources: self.has_status.then(subresources),
                    ..CustomResourceDefinitionVersion::default()
                }],
                ..CustomResourceDefinitionSpec::default()
            },
            status: None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
