//! The attribute of a record: where its holder runs.

use serde::Serialize;
use serde_json::Value;

/// Where the holder of an address runs; both empty when nobody does.
///
/// Compat: stored as the JSON text `{"NodeName":"…","Uid":"…"}` in one member of
/// the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Attribute {
    /// The node that the pod was bound to.
    pub node_name: String,
    /// The uid of the pod.
    pub uid: String,
}

/// An attribute as it was found in a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredAttribute {
    /// What could be read; empty when nothing could.
    pub attribute: Attribute,
    /// Whether there was a text that could not be read. Worth a log line, never
    /// a reason to refuse the record.
    pub malformed: bool,
}

impl Attribute {
    /// Reads a stored text. No text at all, as in a reservation made by hand, is
    /// an empty attribute.
    ///
    /// Compat: member names match in any case and unknown members are ignored,
    /// as galaxy's reader does.
    pub fn read(text: &str) -> StoredAttribute {
        if text.trim().is_empty() {
            return StoredAttribute::default();
        }
        match decode(text) {
            Some(attribute) => StoredAttribute {
                attribute,
                malformed: false,
            },
            None => StoredAttribute {
                attribute: Self::default(),
                malformed: true,
            },
        }
    }

    /// The text to store.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("two strings always have a JSON form")
    }

    /// Whether nobody runs with the address.
    pub fn is_empty(&self) -> bool {
        self.node_name.is_empty() && self.uid.is_empty()
    }
}

fn decode(text: &str) -> Option<Attribute> {
    let members = match serde_json::from_str(text).ok()? {
        Value::Null => return Some(Attribute::default()),
        Value::Object(members) => members,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => return None,
    };
    let mut attribute = Attribute::default();
    for (name, value) in members {
        let target = if name.eq_ignore_ascii_case("NodeName") {
            &mut attribute.node_name
        } else if name.eq_ignore_ascii_case("Uid") {
            &mut attribute.uid
        } else {
            continue;
        };
        match value {
            Value::String(text) => *target = text,
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => return None,
        }
    }
    Some(attribute)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(node_name: &str, uid: &str) -> Attribute {
        Attribute {
            node_name: node_name.into(),
            uid: uid.into(),
        }
    }

    #[test]
    fn the_text_is_galaxys() {
        assert_eq!(
            attribute("212", "xx1").text(),
            r#"{"NodeName":"212","Uid":"xx1"}"#
        );
        assert_eq!(Attribute::default().text(), r#"{"NodeName":"","Uid":""}"#);
    }

    #[test]
    fn what_can_be_read_is_read() {
        let table = [
            (r#"{"NodeName":"n","Uid":"u"}"#, attribute("n", "u")),
            (r#"{"nodename":"n","UID":"u"}"#, attribute("n", "u")),
            (r#"{"Uid":"u","Old":[1]}"#, attribute("", "u")),
            (r#"{"NodeName":null}"#, attribute("", "")),
            ("null", attribute("", "")),
            ("{}", attribute("", "")),
            ("", attribute("", "")),
        ];
        for (text, wanted) in table {
            let stored = Attribute::read(text);
            assert_eq!(stored.attribute, wanted, "{text}");
            assert!(!stored.malformed, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_empty_and_flagged() {
        let table = [
            "{",
            "[]",
            "\"n\"",
            r#"{"NodeName":5,"Uid":"u"}"#,
            r#"{"NodeName":"n","Uid":{}}"#,
            r#"{"NodeName":"n"} x"#,
        ];
        for text in table {
            let stored = Attribute::read(text);
            assert_eq!(stored.attribute, Attribute::default(), "{text}");
            assert!(stored.malformed, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(node in ".*", uid in ".*") {
            let attribute = attribute(&node, &uid);
            let stored = Attribute::read(&attribute.text());
            prop_assert_eq!(stored.attribute, attribute);
            prop_assert!(!stored.malformed);
        }

        #[test]
        fn no_text_is_too_strange(text in ".*") {
            let stored = Attribute::read(&text);
            prop_assert!(!stored.malformed || stored.attribute.is_empty());
        }
    }
}
