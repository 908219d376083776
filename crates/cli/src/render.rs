//! How things are shown.
//!
//! - [`table`]: columns for people.
//! - [`json`], [`yaml`]: the objects themselves.
//! - [`bars`]: how full something is.
//! - [`age`]: how long ago something was.
//! - [`sheet`]: everything about one thing, line by line.

use kube::{ResourceExt as _, api::DynamicObject};
use serde::Serialize;

use crate::{args::Format, failure::Failure};

pub mod age;
pub mod bars;
pub mod json;
pub mod sheet;
pub mod table;
pub mod yaml;

/// What kubectl shows where there is nothing.
pub const NONE: &str = "<none>";

/// The text, or that there is none.
pub fn or_none(text: &str) -> &str {
    if text.is_empty() { NONE } else { text }
}

/// The text without what a terminal would obey: records can have any text in them.
pub fn harmless(text: &str) -> String {
    let shown = |letter: char| if letter.is_control() { '?' } else { letter };
    text.chars().map(shown).collect()
}

/// Whether a format shows the objects themselves, which nothing must be found out about.
pub fn is_raw(format: Option<Format>) -> bool {
    match format {
        Some(Format::Json | Format::Yaml | Format::Name) => true,
        Some(Format::Wide) | None => false,
    }
}

/// Objects as kubectl shows them: one as itself, several or a list as a `List`.
pub fn objects<'a>(
    format: Format,
    resource: &str,
    found: impl IntoIterator<Item = &'a DynamicObject>,
    is_list: bool,
) -> Result<String, Failure> {
    let mut found: Vec<_> = found.into_iter().cloned().collect();
    if format == Format::Name {
        let lines = found
            .iter()
            .map(|it| format!("{resource}/{}\n", it.name_any()));
        return Ok(lines.collect());
    }
    for object in &mut found {
        // Long and of no use to people; kubectl leaves them out as well.
        object.metadata.managed_fields = None;
    }
    match found.as_slice() {
        [one] if !is_list => value(format, one),
        all => value(format, &json::list(all)),
    }
}

/// A value of floe's own as JSON or YAML.
pub fn value(format: Format, value: &impl Serialize) -> Result<String, Failure> {
    if format == Format::Yaml {
        yaml::text(value)
    } else {
        json::text(value)
    }
}

#[cfg(test)]
mod tests;
