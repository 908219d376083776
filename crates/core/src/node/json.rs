//! Members of JSON objects, found by the rules of Go, which galaxy's users write for.

use serde_json::{Map, Value};

use crate::json::{self, Names};

/// The object in a text, or why there is none.
pub(super) fn object(text: &str) -> Result<Map<String, Value>, String> {
    match json::decode(text.as_bytes(), Names::Go) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("not a JSON object".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// A member.
///
/// Compat: its name may be in any case, and `null` is like no member.
pub(super) fn member<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let in_any_case = || {
        let mut members = object.iter();
        members.find(|(key, _)| key.eq_ignore_ascii_case(name))
    };
    let found = object
        .get(name)
        .or_else(|| in_any_case().map(|(_, value)| value));
    found.filter(|value| !value.is_null())
}

/// A member that is a text; empty when there is none.
pub(super) fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    match member(object, name) {
        None => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("{name:?} is not a string")),
    }
}

/// A member that is a list; empty when there is none.
pub(super) fn list<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], String> {
    match member(object, name) {
        None => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(format!("{name:?} is not a list")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_follow_the_rules_of_go() {
        let read = object(r#"{"Name":"a","LIST":[1],"nothing":null,"n":1,"N":2}"#).unwrap();
        assert_eq!(text(&read, "name"), Ok("a"));
        assert_eq!(list(&read, "list").unwrap().len(), 1);
        assert_eq!(text(&read, "nothing"), Ok(""));
        assert_eq!(list(&read, "absent"), Ok(&[][..]));
        assert_eq!(member(&read, "n"), Some(&Value::from(1)));
        assert_eq!(text(&read, "list"), Err(r#""list" is not a string"#.into()));
        assert_eq!(list(&read, "name"), Err(r#""name" is not a list"#.into()));
    }

    #[test]
    fn only_an_object_is_an_object() {
        assert_eq!(object("[]"), Err("not a JSON object".into()));
        assert!(object("{").is_err());
        assert!(object("{} x").is_err());
    }
}
