//! Reads JSON that comes from the network, from annotations and from files into types.
//!
//! serde's derived types also accept an array in place of an object and take its elements
//! as members, in the order of the type. A body of the wrong shape then means something
//! that its sender did not write: `[[{"ip":…}]]` would release an address. [`decode`] is
//! the one way in; it accepts only an object where a type has members, at every depth.
//!
//! Its errors are for users: they name the place in the text, what is expected there and
//! what was found, and no type of this program.

use std::fmt;

use serde::{Deserialize, de::IgnoredAny};

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
#[error("{0}")]
pub struct JsonError(String);

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
    .map_err(|failure| JsonError(told(text, &failure)))
}

fn read<'de, T: Deserialize<'de>>(text: &'de [u8], context: &Context) -> Result<T, Failure> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = T::deserialize(Decoder::new(&mut json, context))?;
    json.end().map_err(Failure::foreign)?;
    Ok(value)
}

/// What is wrong with the text as JSON, or else with what it says.
fn told(text: &[u8], failure: &Failure) -> String {
    if text.iter().all(u8::is_ascii_whitespace) {
        return "the text is empty".into();
    }
    let Err(error) = serde_json::from_slice::<IgnoredAny>(text) else {
        return failure.to_string();
    };
    let place = Place(&error);
    if error.is_eof() {
        return format!("the JSON text ends too early, at {place}");
    }
    // serde_json has no category for this one.
    if error.to_string().starts_with("trailing characters") {
        return format!("there is more text after the JSON value, at {place}");
    }
    format!("syntax error in JSON at {place}")
}

struct Place<'a>(&'a serde_json::Error);

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {} column {}", self.0.line(), self.0.column())
    }
}

#[cfg(test)]
mod tests;
