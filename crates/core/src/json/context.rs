//! What all parts of one reading share.

use std::{
    cell::{Cell, RefCell},
    fmt::Write as _,
};

use serde::de;

use super::{Names, failure::Failure};

/// The state of one reading: where it is, and the failure that is on its way up.
///
/// A failure passes through the parser, whose error type has no room for it; it waits here
/// meanwhile.
pub(super) struct Context {
    names: Names,
    collects: bool,
    repeated: Cell<bool>,
    path: RefCell<Vec<Step>>,
    held: RefCell<Option<Failure>>,
}

/// One step into the text.
pub(super) enum Step {
    Member(String),
    Element(usize),
}

impl Context {
    pub fn new(names: Names) -> Self {
        Self {
            names,
            collects: false,
            repeated: Cell::new(false),
            path: RefCell::default(),
            held: RefCell::default(),
        }
    }

    /// For a second reading that takes the last of several members.
    pub fn collecting(&self) -> Self {
        Self {
            collects: true,
            ..Self::new(self.names)
        }
    }

    pub fn names(&self) -> Names {
        self.names
    }

    /// Whether all members of an object are gathered before any is taken.
    pub fn collects(&self) -> bool {
        self.collects
    }

    /// Notes that an object has a member twice.
    pub fn repeat(&self) {
        self.repeated.set(true);
    }

    pub fn has_repeated(&self) -> bool {
        self.repeated.get()
    }

    /// Reads something that lies deeper.
    pub fn within<T>(&self, step: Step, read: impl FnOnce() -> T) -> T {
        self.path.borrow_mut().push(step);
        let result = read();
        self.path.borrow_mut().pop();
        result
    }

    /// Keeps a failure, and gives an error that the parser takes in its place.
    pub fn hold<E: de::Error>(&self, failure: Failure) -> E {
        *self.held.borrow_mut() = Some(failure.at(|| self.path()));
        E::custom("refused")
    }

    /// The failure behind an error of the parser.
    pub fn failure<E: de::Error>(&self, error: E) -> Failure {
        let held = self.held.borrow_mut().take();
        held.unwrap_or_else(|| Failure::foreign(error).at(|| self.path()))
    }

    fn path(&self) -> String {
        let mut text = String::new();
        for step in &*self.path.borrow() {
            match step {
                Step::Member(name) if text.is_empty() => text.push_str(name),
                Step::Member(name) => {
                    text.push('.');
                    text.push_str(name);
                }
                Step::Element(index) => {
                    write!(text, "[{index}]").expect("a string takes everything");
                }
            }
        }
        text
    }
}
