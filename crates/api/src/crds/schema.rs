//! The pieces of a structural schema.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};
use serde_json::Value;

pub(crate) use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule as Rule;

pub(crate) fn object<const N: usize>(
    description: &str,
    properties: [(&str, JSONSchemaProps); N],
    required: &[&str],
) -> JSONSchemaProps {
    JSONSchemaProps {
        properties: Some(
            properties
                .into_iter()
                .map(|(name, schema)| (name.to_owned(), schema))
                .collect(),
        ),
        required: (!required.is_empty())
            .then(|| required.iter().map(|&name| name.to_owned()).collect()),
        ..typed("object", description)
    }
}

pub(crate) fn text(description: &str) -> JSONSchemaProps {
    typed("string", description)
}

pub(crate) fn date(description: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        format: Some("date-time".into()),
        ..text(description)
    }
}

/// An address of either family.
pub(crate) fn address(description: &str) -> JSONSchemaProps {
    let families = ["ipv4", "ipv6"].map(|format| JSONSchemaProps {
        format: Some(format.into()),
        ..JSONSchemaProps::default()
    });
    JSONSchemaProps {
        any_of: Some(families.into()),
        ..text(description)
    }
}

pub(crate) fn integer(description: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        format: Some("int64".into()),
        ..typed("integer", description)
    }
}

pub(crate) fn boolean(description: &str) -> JSONSchemaProps {
    typed("boolean", description)
}

/// A list that its writer replaces as a whole.
pub(crate) fn list(description: &str, items: JSONSchemaProps) -> JSONSchemaProps {
    JSONSchemaProps {
        items: Some(JSONSchemaPropsOrArray::Schema(Box::new(items))),
        x_kubernetes_list_type: Some("atomic".into()),
        ..typed("array", description)
    }
}

/// A list with one entry for each value of a member, of which several writers may
/// each own some.
pub(crate) fn map_list(description: &str, key: &str, items: JSONSchemaProps) -> JSONSchemaProps {
    JSONSchemaProps {
        x_kubernetes_list_type: Some("map".into()),
        x_kubernetes_list_map_keys: Some(vec![key.into()]),
        ..list(description, items)
    }
}

pub(crate) fn nullable(schema: JSONSchemaProps) -> JSONSchemaProps {
    JSONSchemaProps {
        nullable: Some(true),
        ..schema
    }
}

/// Any value, which is kept as it is.
pub(crate) fn anything(description: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        description: Some(description.into()),
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..JSONSchemaProps::default()
    }
}

/// A CEL rule with what it tells when it does not hold.
pub(crate) fn rule(rule: String, message: &str) -> Rule {
    ValidationRule {
        rule,
        message: Some(message.into()),
        ..ValidationRule::default()
    }
}

/// A text that a pattern describes as a whole.
pub(crate) fn pattern(description: &str, pattern: &str, longest: i64) -> JSONSchemaProps {
    JSONSchemaProps {
        pattern: Some(format!("^({pattern})$")),
        max_length: Some(longest),
        ..text(description)
    }
}

/// One of a few words.
pub(crate) fn word(description: &str, words: &[&str]) -> JSONSchemaProps {
    let words = words.iter().map(|&word| JSON(word.into()));
    JSONSchemaProps {
        enum_: Some(words.collect()),
        ..text(description)
    }
}

/// An integer from 0 on.
pub(crate) fn up_to(description: &str, highest: i32) -> JSONSchemaProps {
    JSONSchemaProps {
        minimum: Some(0.0),
        maximum: Some(highest.into()),
        ..integer(description)
    }
}

/// An integer from 0 on, as large as it likes.
pub(crate) fn natural(description: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        minimum: Some(0.0),
        ..integer(description)
    }
}

/// A number from 0 on, also with a fraction.
pub(crate) fn number(description: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        minimum: Some(0.0),
        ..typed("number", description)
    }
}

/// A text that exactly one of some patterns describes.
pub(crate) fn one_of(schema: JSONSchemaProps, patterns: &[String]) -> JSONSchemaProps {
    let patterns = patterns.iter().map(|pattern| JSONSchemaProps {
        pattern: Some(pattern.clone()),
        ..JSONSchemaProps::default()
    });
    JSONSchemaProps {
        one_of: Some(patterns.collect()),
        ..schema
    }
}

/// A list that its writer replaces as a whole and that is not empty.
pub(crate) fn some(description: &str, items: JSONSchemaProps, most: i64) -> JSONSchemaProps {
    JSONSchemaProps {
        min_items: Some(1),
        ..at_most(most, list(description, items))
    }
}

pub(crate) fn at_most(most: i64, list: JSONSchemaProps) -> JSONSchemaProps {
    JSONSchemaProps {
        max_items: Some(most),
        ..list
    }
}

/// An object whose members have any names.
pub(crate) fn map(description: &str, members: JSONSchemaProps) -> JSONSchemaProps {
    let members = JSONSchemaPropsOrBool::Schema(Box::new(members));
    JSONSchemaProps {
        additional_properties: Some(members),
        ..typed("object", description)
    }
}

/// The same, of which the server does not note who wrote which member: that would be more
/// than the members.
pub(crate) fn untracked(map: JSONSchemaProps) -> JSONSchemaProps {
    JSONSchemaProps {
        x_kubernetes_map_type: Some("atomic".into()),
        ..map
    }
}

/// What the server stores where nobody says anything.
pub(crate) fn default(value: Value, schema: JSONSchemaProps) -> JSONSchemaProps {
    JSONSchemaProps {
        default: Some(JSON(value)),
        ..schema
    }
}

fn typed(kind: &str, description: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some(kind.into()),
        description: Some(description.into()),
        ..JSONSchemaProps::default()
    }
}
