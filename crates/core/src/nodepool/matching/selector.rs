//! Label selectors in the writing of Kubernetes: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
//!
//! Whatever Kubernetes accepts is accepted here and means the same, and the rest is refused:
//! the same text goes to the API server, to filter what is watched.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use words::{Word, words};

mod names;
mod words;

/// Conditions on labels that all have to hold. The empty selector selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

/// Why a text is no selector.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectorError {
    /// Something else should stand there.
    #[error("found {found}, expected {expected}")]
    Unexpected {
        /// What stands there.
        found: String,
        /// What should.
        expected: &'static str,
    },
    /// No label can have this key.
    #[error("{key:?} is not a label key: {problem}")]
    Key {
        /// The key.
        key: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// No label can have this value.
    #[error("{value:?} is not a label value (of key {key:?}): {problem}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// There is nothing between the brackets.
    #[error("the list of values of key {key:?} is empty")]
    NoValues {
        /// The key.
        key: String,
    },
    /// `<` and `>` compare numbers.
    #[error("{value:?} is not a whole number, to compare key {key:?} with")]
    NoNumber {
        /// The key.
        key: String,
        /// What stands there.
        value: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

impl Selector {
    /// Reads a selector.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut reader = Reader {
            words: words(text),
            at: 0,
        };
        let mut requirements = Vec::new();
        if reader.look() == Word::End {
            return Ok(Self::default());
        }
        loop {
            requirements.push(reader.requirement()?);
            match reader.next() {
                Word::End => return Ok(Self { requirements }),
                Word::Sign(",") => {}
                found @ (Word::Text(_) | Word::Sign(_)) => {
                    return Err(found.instead_of("a comma or the end"));
                }
            }
        }
    }

    /// Whether labels are as it says.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|it| it.holds(labels))
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|it| it.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => value.is_some_and(|it| values.contains(it)),
            // A label that is not there has none of the values.
            Test::NotIn(values) => value.is_none_or(|it| !values.contains(it)),
            Test::Above(limit) => number().is_some_and(|it| it > *limit),
            Test::Below(limit) => number().is_some_and(|it| it < *limit),
        }
    }
}

/// Goes through the words of a text.
struct Reader<'a> {
    words: Vec<Word<'a>>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn look(&self) -> Word<'a> {
        self.words.get(self.at).copied().unwrap_or(Word::End)
    }

    fn next(&mut self) -> Word<'a> {
        let word = self.look();
        self.at += 1;
        word
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let negated = self.look() == Word::Sign("!");
        if negated {
            self.at += 1;
        }
        let key = match self.next() {
            Word::Text(key) => key.to_owned(),
            found @ (Word::Sign(_) | Word::End) if negated => {
                return Err(found.instead_of("a label key"));
            }
            found @ (Word::Sign(_) | Word::End) => {
                return Err(found.instead_of("a label key or \"!\""));
            }
        };
        if let Err(problem) = names::check_key(&key) {
            return Err(SelectorError::Key { key, problem });
        }
        let test = if negated {
            Test::Absent
        } else if matches!(self.look(), Word::End | Word::Sign(",")) {
            Test::Exists
        } else {
            self.test(&key)?
        };
        Ok(Requirement { key, test })
    }

    fn test(&mut self, key: &str) -> Result<Test, SelectorError> {
        Ok(match self.next() {
            Word::Sign("=" | "==") => Test::In(self.one_value(key)?),
            Word::Sign("!=") => Test::NotIn(self.one_value(key)?),
            Word::Text("in") => Test::In(self.values(key)?),
            Word::Text("notin") => Test::NotIn(self.values(key)?),
            Word::Sign(">") => Test::Above(self.number(key)?),
            Word::Sign("<") => Test::Below(self.number(key)?),
            found @ (Word::Text(_) | Word::Sign(_) | Word::End) => {
                return Err(found.instead_of("one of =, ==, !=, in, notin, <, >, a comma"));
            }
        })
    }

    /// What stands after an equals sign; nothing is the empty value.
    fn one_value(&mut self, key: &str) -> Result<BTreeSet<String>, SelectorError> {
        let value = match self.look() {
            Word::End | Word::Sign(",") => "",
            Word::Text(text) => {
                self.at += 1;
                text
            }
            found @ Word::Sign(_) => return Err(found.instead_of("a label value")),
        };
        checked(key, [value.to_owned()].into())
    }

    /// What stands in brackets. Nothing before, between or after commas is the empty value.
    fn values(&mut self, key: &str) -> Result<BTreeSet<String>, SelectorError> {
        match self.next() {
            Word::Sign("(") => {}
            found @ (Word::Text(_) | Word::Sign(_) | Word::End) => {
                return Err(found.instead_of("\"(\""));
            }
        }
        let mut values = BTreeSet::new();
        if self.look() == Word::Sign(")") {
            return Err(SelectorError::NoValues {
                key: key.to_owned(),
            });
        }
        loop {
            match self.look() {
                Word::Text(text) => {
                    self.at += 1;
                    values.insert(text.to_owned());
                }
                Word::Sign("," | ")") => {
                    values.insert(String::new());
                }
                found @ (Word::Sign(_) | Word::End) => {
                    return Err(found.instead_of("a label value, a comma or \")\""));
                }
            }
            match self.next() {
                Word::Sign(",") => {}
                Word::Sign(")") => return checked(key, values),
                found @ (Word::Text(_) | Word::Sign(_) | Word::End) => {
                    return Err(found.instead_of("a comma or \")\""));
                }
            }
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, SelectorError> {
        let values = self.one_value(key)?;
        let value = values.first().cloned().unwrap_or_default();
        value.parse().map_err(|_| SelectorError::NoNumber {
            key: key.to_owned(),
            value,
        })
    }
}

fn checked(key: &str, values: BTreeSet<String>) -> Result<BTreeSet<String>, SelectorError> {
    for value in &values {
        if let Err(problem) = names::check_value(value) {
            return Err(SelectorError::Value {
                key: key.to_owned(),
                value: value.clone(),
                problem,
            });
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests;
