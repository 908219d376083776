//! Reads JSON that comes from the network, from annotations and from files into types.
//!
//! serde's derived types also accept an array in place of an object and take its elements
//! as members, in the order of the type. A body of the wrong shape then means something
//! that its sender did not write: `[[{"ip":…}]]` would release an address. [`decode`] is
//! the one way in, with [`from_value`] for parts; it accepts only an object where a type has members, at every depth.
//!
//! Its errors are for users: they name the place in the text, what is expected there and
//! what was found, and no type of this program.

use std::fmt;

use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::Value;

use self::{context::Context, decoder::Decoder, failure::Failure};

mod access;
mod context;
mod decoder;
mod failure;
mod object;

/// How names of members are compared with those of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// A name must match exactly, and a member that occurs twice is an error.
    Exact,
    /// As Go's `encoding/json` does, which reads the same texts elsewhere: in any case, the
    /// last of several members with one name counts, and `null` is an object without members.
    Go,
}

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct JsonError {
    text: String,
    is_syntax: bool,
}

impl JsonError {
    /// Whether the text is no JSON at all, as opposed to JSON of another form.
    pub fn is_syntax(&self) -> bool {
        self.is_syntax
    }
}

/// Reads a text that has exactly one JSON value.
pub fn decode<'de, T: Deserialize<'de>>(text: &'de [u8], names: Names) -> Result<T, JsonError> {
    let context = Context::new(names);
    let read = read(text, &context);
    match read {
        // A derived type takes each member once. Most texts have no member twice, so the
        // members are kept apart only for those that do.
        Err(_) if names == Names::Go && context.has_repeated() => {
            self::read(text, &context.collecting())
        }
        read => read,
    }
    .map_err(|failure| error(text, &failure))
}

/// Reads a part of a text that was read before, with names that match exactly.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, JsonError> {
    let context = Context::new(Names::Exact);
    let read = T::deserialize(Decoder::new(value, &context));
    read.map_err(|failure| JsonError {
        text: failure.to_string(),
        is_syntax: false,
    })
}

fn read<'de, T: Deserialize<'de>>(text: &'de [u8], context: &Context) -> Result<T, Failure> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = T::deserialize(Decoder::new(&mut json, context))?;
    json.end().map_err(Failure::foreign)?;
    Ok(value)
}

/// What is wrong with the text as JSON, or else with what it says.
fn error(text: &[u8], failure: &Failure) -> JsonError {
    let (text, is_syntax) = match syntax_error(text) {
        Some(error) => (error, true),
        None => (failure.to_string(), false),
    };
    JsonError { text, is_syntax }
}

fn syntax_error(text: &[u8]) -> Option<String> {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Some("the text is empty".into());
    }
    let error = serde_json::from_slice::<IgnoredAny>(text).err()?;
    let place = Place(&error);
    if error.is_eof() {
        return Some(format!("the JSON text ends too early, at {place}"));
    }
    // serde_json has no category for this one.
    if error.to_string().starts_with("trailing characters") {
        return Some(format!(
            "there is more text after the JSON value, at {place}"
        ));
    }
    Some(format!("syntax error in JSON at {place}"))
}

struct Place<'a>(&'a serde_json::Error);

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {} column {}", self.0.line(), self.0.column())
    }
}

#[cfg(test)]
mod tests;
