//! An object of the API server, also when it makes no sense.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error as _};
use serde_json::Value;

/// An object, or its metadata and why the rest cannot be read. One bad object
/// then costs nothing but itself, not the whole list.
///
/// kube's `DeserializeGuard` does the same and copies each object on the way.
#[derive(Clone, Debug)]
pub enum Seen<K> {
    /// It can be read.
    Whole(K),
    /// Only its metadata can be read.
    Part {
        /// The metadata.
        metadata: Box<ObjectMeta>,
        /// What is wrong with the rest.
        error: String,
    },
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Seen<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        K::deserialize(&value).map(Self::Whole).or_else(|error| {
            let metadata = value.get("metadata").unwrap_or(&Value::Null);
            Ok(Self::Part {
                metadata: Box::deserialize(metadata).map_err(D::Error::custom)?,
                error: error.to_string(),
            })
        })
    }
}

impl<K: Resource> Resource for Seen<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &K::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &K::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &K::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &K::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Whole(object) => object.meta(),
            Self::Part { metadata, .. } => metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Whole(object) => object.meta_mut(),
            Self::Part { metadata, .. } => metadata,
        }
    }
}
