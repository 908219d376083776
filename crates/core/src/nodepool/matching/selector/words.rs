//! The words of a selector.

use super::SelectorError;

/// A piece of a selector's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word<'a> {
    /// A key, a value, `in` or `notin`: what it is depends on where it stands.
    Text(&'a str),
    /// A sign, like `!=`.
    Sign(&'a str),
    /// Nothing more.
    End,
}

impl Word<'_> {
    pub fn instead_of(self, expected: &'static str) -> SelectorError {
        let found = match self {
            Self::Text(text) | Self::Sign(text) => format!("{text:?}"),
            Self::End => "the end".to_owned(),
        };
        SelectorError::Unexpected { found, expected }
    }
}

/// Takes a text apart.
pub(super) fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let (end, is_sign) = match sign(rest) {
            Some(length) => (length, true),
            None => (rest.find(ends_text).unwrap_or(rest.len()), false),
        };
        let (word, remainder) = rest.split_at(end);
        words.push(if is_sign {
            Word::Sign(word)
        } else {
            Word::Text(word)
        });
        rest = remainder.trim_start_matches(is_space);
    }
    words
}

/// How long the sign is that the text begins with.
fn sign(text: &str) -> Option<usize> {
    let two = ["==", "!="];
    if two.iter().any(|it| text.starts_with(it)) {
        return Some(2);
    }
    text.starts_with(is_sign).then_some(1)
}

fn ends_text(character: char) -> bool {
    is_space(character) || is_sign(character)
}

fn is_sign(character: char) -> bool {
    matches!(character, '=' | '!' | ',' | '(' | ')' | '<' | '>')
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}
