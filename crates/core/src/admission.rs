//! What the API server is told about objects before it stores them.
//!
//! An object that can never work is refused when it is applied, with the reason that its
//! pods would have hung with. One that works, but maybe not as its author thinks, is
//! taken with a warning, which `kubectl` prints.
//!
//! - [`workload`]: pods, and the templates that they are made from.
//! - [`rollout`]: whether a Deployment can be updated.
//! - [`resource`]: floe's, galaxy's and FLIPOP's own kinds.
//! - [`configuration`]: the `ConfigMap` with the address configuration, and whom a change
//!   of it would hurt.
//! - [`gate`]: the scheduling gate of pods that wait for an address.
//!
//! Guarantee: nobody is refused for what was there before. Whoever scales, labels or
//! ends an object that is wrong since long can do so, and is warned.

use std::fmt;

use serde_json::Value;

pub mod configuration;
pub mod gate;
pub mod resource;
pub mod rollout;
pub mod workload;

/// Who writes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// floe itself, or a galaxy-ipam that leads instead of it.
    Floe,
    /// Anybody else.
    Other,
}

/// What is to be written.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// A new object.
    Create(&'a Value),
    /// Another content.
    Update {
        /// As it shall be.
        new: &'a Value,
        /// As it is.
        old: &'a Value,
    },
    /// An object goes.
    Delete(&'a Value),
}

impl<'a> Write<'a> {
    /// The object as it shall be; none if it goes.
    pub fn wanted(self) -> Option<&'a Value> {
        match self {
            Self::Create(object) | Self::Update { new: object, .. } => Some(object),
            Self::Delete(_) => None,
        }
    }

    /// Whether an object is only on its way out: whatever is still written then has to
    /// be possible.
    pub fn is_farewell(self) -> bool {
        let wanted = self.wanted();
        wanted.is_some_and(|object| object.pointer("/metadata/deletionTimestamp").is_some())
    }
}

/// Something that is wrong with an object, or risky, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The stable reason.
    pub reason: &'static str,
    /// The member that it is about; empty for the whole object.
    pub place: String,
    /// What is the matter.
    pub text: String,
}

impl Finding {
    /// A finding about one member.
    pub fn at(place: impl Into<String>, reason: &'static str, text: impl fmt::Display) -> Self {
        Self {
            reason,
            place: place.into(),
            text: text.to_string(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: ", self.reason)?;
        if !self.place.is_empty() {
            write!(out, "{}: ", self.place)?;
        }
        write!(out, "{}", self.text)
    }
}

/// What the API server is told. Without refusals the object is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why the object is not taken.
    pub refusals: Vec<Finding>,
    /// What its author should know.
    pub warnings: Vec<Finding>,
}

impl Verdict {
    /// Whether the object is taken.
    pub fn is_allowed(&self) -> bool {
        self.refusals.is_empty()
    }

    /// The stable reason of the first refusal.
    pub fn reason(&self) -> Option<&'static str> {
        self.refusals.first().map(|finding| finding.reason)
    }

    /// All refusals in one text.
    pub fn message(&self) -> String {
        let texts: Vec<String> = self.refusals.iter().map(Finding::to_string).collect();
        texts.join("; ")
    }

    fn refuse(&mut self, finding: Finding) {
        self.refusals.push(finding);
    }

    fn warn(&mut self, finding: Finding) {
        self.warnings.push(finding);
    }

    /// Takes back refusals that the object as it is would have got as well.
    fn forgive(mut self, before: &Self) -> Self {
        let (known, new) = self
            .refusals
            .drain(..)
            .partition(|finding| before.refusals.contains(finding));
        self.refusals = new;
        let mut known: Vec<Finding> = known;
        known.append(&mut self.warnings);
        self.warnings = known;
        self
    }
}

/// The text at a place of an object; empty if there is none.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let found = object.pointer(pointer);
    found.and_then(Value::as_str).unwrap_or_default()
}

/// The members of a list of texts, with their numbers.
fn texts<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = (usize, &'a str)> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    let list = list.into_iter().flatten().enumerate();
    list.map(|(number, it)| (number, it.as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests;
