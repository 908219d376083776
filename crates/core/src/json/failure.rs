//! An error on its way up, in words for users.

use std::fmt;

use serde::de::{Error, Expected, Unexpected};

use crate::ipam::args::shortened;

/// Why a value does not fit, and where it is once that is known.
#[derive(Debug)]
pub(super) struct Failure {
    path: Option<String>,
    text: String,
}

impl Failure {
    /// An error of the parser itself.
    pub fn foreign(error: impl fmt::Display) -> Self {
        Self {
            path: None,
            text: error.to_string(),
        }
    }

    /// The failure with its place, unless a deeper one is known already.
    pub fn at(mut self, path: impl FnOnce() -> String) -> Self {
        self.path.get_or_insert_with(path);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_deref() {
            None | Some("") => out.write_str(&self.text),
            Some(path) => write!(out, "{path}: {}", self.text),
        }
    }
}

impl std::error::Error for Failure {}

impl Error for Failure {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::foreign(text)
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = wanted(&expected.to_string());
        Self::foreign(format_args!("expected {expected}, found {}", Found(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        let expected = wanted(&expected.to_string());
        Self::foreign(format_args!("expected {expected}, found {length} elements"))
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        let found = shortened(found);
        Self::foreign(format_args!(
            "{found:?} is not one of: {}",
            expected.join(", ")
        ))
    }

    fn unknown_field(found: &str, expected: &'static [&'static str]) -> Self {
        let found = shortened(found);
        let known = expected.join(", ");
        Self::foreign(format_args!(
            "there is no member {found:?}; the members are: {known}"
        ))
    }

    fn missing_field(name: &'static str) -> Self {
        Self::foreign(format_args!("the member {name:?} is missing"))
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self::foreign(format_args!("the member {name:?} occurs more than once"))
    }
}

/// serde's name for what a type takes, in words of JSON.
fn wanted(expected: &str) -> String {
    let words = match expected {
        "a sequence" => "an array",
        "a map" => "an object",
        "a boolean" => "true or false",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "u128" | "usize" => "a whole number that is not negative",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "unit" => "null",
        other if other.starts_with("struct ") => "an object",
        other if other.starts_with("enum ") => "a string",
        other => other,
    };
    words.into()
}

struct Found<'a>(Unexpected<'a>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Unexpected::Bool(value) => write!(out, "{value}"),
            Unexpected::Unsigned(number) => write!(out, "the number {number}"),
            Unexpected::Signed(number) => write!(out, "the number {number}"),
            Unexpected::Float(number) => write!(out, "the number {number}"),
            Unexpected::Str(text) => write!(out, "the string {:?}", shortened(text)),
            Unexpected::Unit | Unexpected::Option => out.write_str("null"),
            Unexpected::Seq => out.write_str("an array"),
            Unexpected::Map => out.write_str("an object"),
            Unexpected::Char(_)
            | Unexpected::Bytes(_)
            | Unexpected::NewtypeStruct
            | Unexpected::Enum
            | Unexpected::UnitVariant
            | Unexpected::NewtypeVariant
            | Unexpected::TupleVariant
            | Unexpected::StructVariant
            | Unexpected::Other(_) => write!(out, "{}", self.0),
        }
    }
}
