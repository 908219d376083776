//! JSON.

use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::Failure;

/// A value over several lines.
pub fn text(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value);
    text.map_err(|error| Failure::Unprintable(error.to_string()))
}

/// A value on one line.
pub fn line(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(value);
    text.map_err(|error| Failure::Unprintable(error.to_string()))
}

/// Several objects as one, the way kubectl does it.
pub fn list<T: Serialize>(items: &[T]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "" }, "items": items })
}
