//! Where an object of a custom kind says how many pods it wants.

use serde_json::Value;

/// The wanted replicas, `None` when the field is absent, or why what is there
/// makes no sense.
pub type Found = Result<Option<u32>, String>;

/// Reads the replicas at a path like `.spec.replicas`: members only, as the API
/// server demands of definitions.
pub fn replicas_at(path: &str, object: &Value) -> Found {
    let mut value = object;
    for member in path.trim_start_matches('.').split('.') {
        match value {
            Value::Object(members) => match members.get(member) {
                Some(next) => value = next,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(format!("{path} leads through something without members"));
            }
        }
    }
    if value.is_null() {
        return Ok(None);
    }
    let number = value
        .as_u64()
        .ok_or_else(|| format!("{path} is no number of replicas: {value}"))?;
    // More than anybody can have is as good as that.
    Ok(Some(u32::try_from(number).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_are_read() {
        let object = json!({ "spec": {
            "replicas": 3, "zero": 0, "many": 5_000_000_000_u64, "null": null,
            "negative": -1, "text": "3", "half": 0.5, "deep": { "size": 4 },
        } });
        let cases = [
            (".spec.replicas", Ok(Some(3))),
            ("spec.replicas", Ok(Some(3))),
            (".spec.zero", Ok(Some(0))),
            (".spec.many", Ok(Some(u32::MAX))),
            (".spec.deep.size", Ok(Some(4))),
            (".spec.null", Ok(None)),
            (".spec.null.size", Ok(None)),
            (".spec.absent", Ok(None)),
            (".absent.size", Ok(None)),
            (".spec.negative", Err(())),
            (".spec.text", Err(())),
            (".spec.half", Err(())),
            (".spec.deep", Err(())),
            (".spec.replicas.size", Err(())),
        ];
        for (path, expected) in cases {
            let found = replicas_at(path, &object);
            assert_eq!(found.clone().map_err(drop), expected, "{path}: {found:?}");
        }
    }
}
