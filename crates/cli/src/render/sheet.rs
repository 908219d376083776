//! Everything about one thing, line by line, as `kubectl describe` does it.

use std::fmt::Write as _;

use super::{harmless, or_none};

/// Names with values, one a line, values below each other.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    lines: Vec<(String, String)>,
}

impl Sheet {
    /// Adds a line; an empty value is shown as none.
    pub fn line(&mut self, name: &str, value: impl AsRef<str>) -> &mut Self {
        let value = harmless(or_none(value.as_ref()));
        self.lines.push((format!("{name}:"), value));
        self
    }

    /// Adds a value with a line for each of its members.
    pub fn list(&mut self, name: &str, values: impl IntoIterator<Item = String>) -> &mut Self {
        let mut values = values.into_iter();
        self.line(name, values.next().unwrap_or_default());
        self.lines
            .extend(values.map(|value| (String::new(), harmless(&value))));
        self
    }

    /// The whole sheet.
    pub fn text(&self) -> String {
        let width = self
            .lines
            .iter()
            .map(|(name, _)| name.len())
            .max()
            .unwrap_or_default();
        let mut text = String::new();
        for (name, value) in &self.lines {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:width$}  {value}");
        }
        text
    }
}
