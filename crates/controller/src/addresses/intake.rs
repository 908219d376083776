//! Takes texts and decides what comes of each.

use floe_core::config::{
    AddressConfig, Change, Loaded, Mode,
    problem::{Problem, Refused},
};

use crate::store::Store;

/// What a source has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// A text.
    Text(String),
    /// The `ConfigMap` exists without the key.
    NoKey,
    /// There is no `ConfigMap`.
    Nothing,
}

/// What came of an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The configuration is in force.
    Applied(Box<Applied>),
    /// Nothing changed, because of these problems.
    Refused {
        /// What is wrong.
        refused: Refused,
        /// Whether an older configuration stays in force.
        fallback: bool,
    },
    /// Nothing changed, because there is no text.
    Absent {
        /// Whether at least the `ConfigMap` exists.
        object: bool,
        /// Whether an older configuration stays in force.
        fallback: bool,
    },
}

/// A configuration that was put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// How many entries it has.
    pub entries: usize,
    /// How many addresses it has.
    pub addresses: u128,
    /// What is different from the one before.
    pub change: Change,
    /// What was left out and why.
    pub problems: Vec<Problem>,
    /// How many records are in no entry; `None` while not all are known.
    pub outside: Option<u64>,
}

impl Applied {
    /// Whether pods had addresses to choose from before, and have none any more.
    pub fn removes_all(&self) -> bool {
        self.addresses == 0 && !self.change.removed.is_empty()
    }
}

impl Outcome {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Applied(applied) if !applied.problems.is_empty() => "ConfigurationPartlyApplied",
            Self::Applied(applied) if applied.removes_all() => "ConfigurationEmpty",
            Self::Applied(_) => "ConfigurationApplied",
            Self::Refused { .. } => "ConfigurationRefused",
            Self::Absent { object: true, .. } => "ConfigurationKeyMissing",
            Self::Absent { object: false, .. } => "ConfigMapMissing",
        }
    }

    /// Everything that is wrong.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Applied(applied) => &applied.problems,
            Self::Refused { refused, .. } => &refused.problems,
            Self::Absent { .. } => &[],
        }
    }
}

/// The memory of what was taken.
#[derive(Debug)]
pub struct Intake {
    store: Store,
    last: Option<Offer>,
    in_force: bool,
}

impl Intake {
    /// Nothing is in force yet.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            last: None,
            in_force: false,
        }
    }

    /// Takes an offer; `None` when it is the same as the last one.
    ///
    /// As long as nothing is in force, what galaxy would accept is accepted, with
    /// the offending addresses left out. Later there is something to fall back
    /// to, and any problem refuses the whole text.
    pub fn take(&mut self, offer: Offer) -> Option<Outcome> {
        if self.last.as_ref() == Some(&offer) {
            return None;
        }
        let outcome = match &offer {
            Offer::Text(text) => self.read(text),
            Offer::NoKey | Offer::Nothing => Outcome::Absent {
                object: offer == Offer::NoKey,
                fallback: self.in_force,
            },
        };
        self.last = Some(offer);
        Some(outcome)
    }

    /// Puts a configuration in force.
    pub fn apply(&mut self, loaded: Loaded) -> Outcome {
        self.in_force = true;
        let Loaded { config, problems } = loaded;
        let (entries, addresses) = (config.entries().len(), config.addresses().len());
        let complete = self.store.warmth().borrow().records;
        let (change, outside) = self
            .store
            .change(|books| (books.configure(config), books.outside()));
        Outcome::Applied(Box::new(Applied {
            entries,
            addresses,
            change,
            problems,
            outside: complete.then_some(outside),
        }))
    }

    fn read(&mut self, text: &str) -> Outcome {
        let mode = if self.in_force {
            Mode::Strict
        } else {
            Mode::Lenient
        };
        match AddressConfig::parse(text, mode) {
            Ok(loaded) => self.apply(loaded),
            Err(refused) => Outcome::Refused {
                refused,
                fallback: self.in_force,
            },
        }
    }
}

#[cfg(test)]
mod tests;
