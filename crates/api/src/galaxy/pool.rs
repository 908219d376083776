//! A limit for the addresses that share a pool name.

use k8s_openapi::{
    NamespaceResourceScope,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionNames, JSON, JSONSchemaProps,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};

use super::{API_VERSION, GROUP, VERSION, null_is_zero};
use crate::{
    crds::{Definition, column, schema},
    resource::resource,
};

/// How many addresses the holders of one pool name may have together.
///
/// Compat: the members stand at the top level of the object, there is no spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// The name is that of the pool annotation on pods.
    #[serde(default, deserialize_with = "null_is_zero")]
    pub metadata: ObjectMeta,
    /// The limit as written. galaxy stored negative ones, too: see
    /// [`limit`](Self::limit).
    #[serde(default, deserialize_with = "null_is_zero")]
    pub size: i64,
    /// Whether addresses are taken ahead of pods, up to the limit.
    #[serde(default, rename = "preAllocateIP", deserialize_with = "null_is_zero")]
    pub pre_allocate_ip: bool,
}

impl Pool {
    /// The limit. A negative size admits as much as none: nothing.
    pub fn limit(&self) -> u64 {
        u64::try_from(self.size).unwrap_or(0)
    }
}

/// The definition of the kind.
///
/// Wider than galaxy's, whose documented sample has only a `size`. The default
/// is stored with the object, which so stays valid for a galaxy to come back to.
pub fn definition() -> CustomResourceDefinition {
    Definition {
        group: GROUP,
        version: VERSION,
        has_status: false,
        names: CustomResourceDefinitionNames {
            kind: "Pool".into(),
            list_kind: Some("PoolList".into()),
            plural: "pools".into(),
            singular: Some("pool".into()),
            ..CustomResourceDefinitionNames::default()
        },
        scope: "Namespaced",
        columns: vec![
            column::integer("Size", ".size").tells("How many addresses the pool may have"),
            column::boolean("Preallocate", ".preAllocateIP")
                .tells("Whether addresses are taken ahead of pods"),
            column::age(),
        ],
        schema: schema::object(
            "A limit for the addresses that share a pool name.",
            [
                (
                    "size",
                    JSONSchemaProps {
                        minimum: Some(0.0),
                        ..schema::integer("How many addresses the pool may have.")
                    },
                ),
                (
                    "preAllocateIP",
                    JSONSchemaProps {
                        default: Some(JSON(false.into())),
                        ..schema::boolean(
                            "Whether addresses are taken ahead of pods, up to the size.",
                        )
                    },
                ),
            ],
            &["size"],
        ),
    }
    .build()
}

resource!(Pool, "pools", NamespaceResourceScope);

impl Serialize for Pool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Pool", 5)?;
        object.serialize_field("apiVersion", API_VERSION)?;
        object.serialize_field("kind", "Pool")?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("size", &self.size)?;
        object.serialize_field("preAllocateIP", &self.pre_allocate_ip)?;
        object.end()
    }
}

#[cfg(test)]
mod tests;
