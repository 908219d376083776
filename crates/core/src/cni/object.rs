//! JSON objects that are nothing but objects.

use serde::{Deserialize, Deserializer, de, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Something that is read from an object only. A derived reader takes a list of values
/// for the same, and would find addresses where nobody wrote any.
pub(super) struct Object<T>(pub T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = Map::<String, Value>::deserialize(deserializer)?;
        let value = T::deserialize(Value::Object(members)).map_err(de::Error::custom)?;
        Ok(Self(value))
    }
}

/// Reads an object; `null` is nothing.
pub(super) fn optional<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let object: Option<Object<T>> = Option::deserialize(deserializer)?;
    Ok(object.map(|Object(value)| value))
}

/// Reads an object; `null` is the default.
pub(super) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: DeserializeOwned + Default,
    D: Deserializer<'de>,
{
    Ok(optional(deserializer)?.unwrap_or_default())
}

/// Reads a list of objects; `null` is the empty one.
pub(super) fn list<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let objects: Option<Vec<Object<T>>> = Option::deserialize(deserializer)?;
    let values = objects.unwrap_or_default().into_iter();
    Ok(values.map(|Object(value)| value).collect())
}
