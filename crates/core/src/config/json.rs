//! JSON objects by the rules of Go, which galaxy's users write for.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::json::{self, JsonError, Names};

/// A JSON object whose members are decoded one by one, so that a bad one does
/// not hide the others.
///
/// Compat: keys match without regard to case, unknown keys are ignored, of two
/// members with the same key the later counts, and `null` is like no member.
#[derive(Default)]
pub(super) struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Object<'a> {
    /// The member as it is in the text.
    pub fn raw(&self, key: &str) -> Option<&'a RawValue> {
        let mut later_first = self.0.iter().rev();
        let (_, value) = later_first.find(|(name, _)| name.eq_ignore_ascii_case(key))?;
        (value.get() != "null").then_some(*value)
    }

    /// The member decoded, `None` when there is none.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, JsonError> {
        let raw = self.raw(key);
        raw.map(|raw| decode(raw.get())).transpose()
    }

    /// The member as an object; an empty one when there is none.
    pub fn object(&self, key: &str) -> Result<Self, JsonError> {
        let raw = self.raw(key);
        raw.map_or(Ok(Self::default()), |raw| decode(raw.get()))
    }
}

/// Reads a text as Go would.
pub(super) fn decode<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, JsonError> {
    json::decode(text.as_bytes(), Names::Go)
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Object<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn members_follow_the_rules_of_go() {
        let object = read(r#"{"Vlan": 1, "unknown": {"a": [1]}, "VLAN": 2, "ips": null}"#);
        assert_eq!(object.get::<u16>("vlan").unwrap(), Some(2));
        assert_eq!(object.get::<Vec<String>>("ips").unwrap(), None);
        assert_eq!(object.get::<String>("gateway").unwrap(), None);
        assert!(object.get::<String>("vlan").is_err());
        // The later member counts even when the earlier has the exact name.
        assert_eq!(
            read(r#"{"vlan": 1, "Vlan": 2}"#)
                .get::<u16>("vlan")
                .unwrap(),
            Some(2)
        );
    }

    #[test]
    fn objects_nest() {
        let object = read(r#"{"Outer": {"Inner": 1}, "list": []}"#);
        assert_eq!(
            object.object("outer").unwrap().get::<u16>("inner").unwrap(),
            Some(1)
        );
        assert_eq!(
            object.object("none").unwrap().get::<u16>("inner").unwrap(),
            None
        );
        assert!(object.object("list").is_err());
    }
}
