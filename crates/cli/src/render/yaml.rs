//! YAML.

use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;

/// A value as a YAML document.
pub fn text(value: &impl Serialize) -> Result<String, Failure> {
    let unprintable = |told: String| Failure::Unprintable(told);
    // By way of JSON, so that both have the same members.
    let value: Value =
        serde_json::to_value(value).map_err(|error| unprintable(error.to_string()))?;
    let options = serde_saphyr::ser_options! {
        compact_list_indent: true,
        prefer_block_scalars: false,
    };
    serde_saphyr::to_string_with_options(&value, options)
        .map_err(|error| unprintable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let strange = json!({
            "number": "2", "boolean": "true", "null": "null", "empty": "", "yes": "yes", "on": "on",
            "float": "1.0", "time": "2026-01-01T00:00:00Z", "json": "{\"NodeName\":\"\",\"Uid\":\"\"}",
            "colon": "a: b", "hash": "a #b", "dash": "- a", "lines": "a\nb\n", "quote": "it's \"so\"",
            "address": "fd00:70::5", "star": "*a", "list": [1, {"a": []}], "none": {}, "minus": -3,
            "octal": "010", "hex": "0x10", "exponent": "1e3", "tab": "a\tb", "long": "word ".repeat(60),
        });
        let text = text(&strange).unwrap();
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, strange, "{text}");
    }

    #[test]
    fn words_that_older_readers_take_for_something_else_are_quoted() {
        for word in [
            "yes", "no", "on", "off", "y", "n", "Yes", "NO", "~", "1_000", "0o10", "010",
        ] {
            let text = text(&json!({ "a": word })).unwrap();
            assert_eq!(text, format!("a: \"{word}\"\n"));
        }
    }
}
