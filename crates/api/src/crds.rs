//! The resources as definitions for the API server.
//!
//! They are written by hand, not derived: galaxy's Pool has no spec, and a
//! schema that must accept what others stored says more than a Rust type does.
//! `deploy/crds/galaxy.yaml` is their text, and a test keeps it in step.

use std::collections::BTreeMap;

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
        CustomResourceDefinitionVersion, CustomResourceValidation, JSONSchemaProps,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::galaxy::{self, GROUP, VERSION};
use column::Column;

pub(crate) mod column;
pub(crate) mod schema;

/// Every definition that floe needs, in the order of their kinds.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![galaxy::floatingip::definition(), galaxy::pool::definition()]
}

/// All definitions as one YAML text, ready for `kubectl apply --server-side`.
pub fn yaml() -> String {
    let documents = all().into_iter().map(|definition| {
        serde_saphyr::to_string(&definition)
            .expect("a definition is maps with text keys, lists and scalars, and YAML has them all")
    });
    let header = "# The resources of galaxy.k8s.io/v1alpha1, generated from crates/api.\n";
    header.to_owned() + &documents.collect::<Vec<_>>().join("---\n")
}

/// What differs between two definitions.
pub(crate) struct Definition {
    pub names: CustomResourceDefinitionNames,
    pub scope: &'static str,
    pub columns: Vec<Column>,
    pub schema: JSONSchemaProps,
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
        CustomResourceDefinition {
            metadata: ObjectMeta {
                name: Some(format!("{}.{GROUP}", self.names.plural)),
                annotations: Some(BTreeMap::from([(APPROVAL.0.into(), APPROVAL.1.into())])),
                labels: Some(BTreeMap::from([(
                    "app.kubernetes.io/part-of".into(),
                    "floe".into(),
                )])),
                ..ObjectMeta::default()
            },
            spec: CustomResourceDefinitionSpec {
                group: GROUP.into(),
                names: self.names,
                scope: self.scope.into(),
                versions: vec![CustomResourceDefinitionVersion {
                    name: VERSION.into(),
                    served: true,
                    storage: true,
                    additional_printer_columns: Some(
                        self.columns.into_iter().map(Column::into).collect(),
                    ),
                    schema: Some(CustomResourceValidation {
                        open_api_v3_schema: Some(self.schema),
                    }),
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
