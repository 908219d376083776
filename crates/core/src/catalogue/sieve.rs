//! Which lines a filter admits.

use std::{borrow::Cow, collections::BTreeSet, ops::Range};

use memchr::memmem::Finder;

use super::{
    Filter,
    line::Line,
    listing::number,
    texts::{SEPARATOR, Texts},
};
use crate::{
    addr::IpSet,
    ipam::{
        key::{HolderKey, KeyParts},
        policy::ReleasePolicy,
        state::State,
    },
};

/// A filter, prepared to look at many lines.
#[derive(Debug)]
pub(super) struct Sieve<'a> {
    filter: &'a Filter,
    /// The text in small letters; none if every address has it.
    text: Option<String>,
    finder: Finder<'a>,
    keyword: Option<Finder<'a>>,
    selector: Option<&'a HolderKey>,
    states: Option<&'a BTreeSet<State>>,
    policy: Option<ReleasePolicy>,
    outside: Option<bool>,
    needs_parts: bool,
}

impl<'a> Sieve<'a> {
    pub fn new(filter: &'a Filter) -> Self {
        let text = filter.text.as_deref().map(str::to_lowercase);
        let text = text.filter(|text| !text.is_empty());
        let wanted = text.as_deref().unwrap_or_default();
        Self {
            finder: Finder::new(wanted).into_owned(),
            text,
            keyword: filter.keyword.as_deref().map(Finder::new),
            selector: (filter.selector.as_ref()).filter(|selector| !selector.as_str().is_empty()),
            states: filter.states.as_ref(),
            policy: filter.policy,
            outside: filter.outside,
            needs_parts: [
                &filter.pool,
                &filter.kind,
                &filter.namespace,
                &filter.app,
                &filter.pod,
            ]
            .into_iter()
            .any(Option::is_some),
            filter,
        }
    }

    /// The numbers of the lines that the filter admits, ascending.
    pub fn admitted(&self, lines: &[Line], texts: &Texts) -> Vec<u32> {
        let admitted = |piece: Range<usize>| {
            let numbers = number(piece.start)..;
            let lines = numbers.zip(&lines[piece]);
            let passing = lines.filter(|(_, line)| self.admits(line, texts));
            passing.map(|(number, _)| number)
        };
        match &self.filter.within {
            Some(within) => pieces(lines, within).flat_map(admitted).collect(),
            None => admitted(0..lines.len()).collect(),
        }
    }

    /// The free addresses that the filter admits as far as their text allows; `None`
    /// if it admits none.
    pub fn free<'b>(&self, configured: &'b IpSet) -> Option<Cow<'b, IpSet>> {
        let filter = self.filter;
        let asks_for_record = self.needs_parts
            || filter.keyword.is_some()
            || self.selector.is_some()
            || filter.node.is_some()
            || filter.policy.is_some();
        let admits = !asks_for_record
            && filter.outside != Some(true)
            && self
                .states
                .is_none_or(|states| states.contains(&State::Free));
        admits.then(|| match &filter.within {
            Some(within) => Cow::Owned(configured.intersection(within)),
            None => Cow::Borrowed(configured),
        })
    }

    /// The text that all addresses must have somewhere, in small letters.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Whether a line passes, apart from where its address is. What costs least
    /// comes first.
    fn admits(&self, line: &Line, texts: &Texts) -> bool {
        let filter = self.filter;
        self.outside.is_none_or(|outside| outside == line.outside)
            && self.policy.is_none_or(|policy| policy == line.policy)
            && (self.states).is_none_or(|states| states.contains(&line.state))
            && (self.text.as_deref()).is_none_or(|text| self.has(line, texts, text))
            && (filter.node.as_deref()).is_none_or(|node| node == texts.node(line))
            && self.selector.is_none_or(|selector| {
                texts.key(line).starts_with(selector.as_str())
                    && line.row.key.is_selected_by(selector)
            })
            && (self.keyword.as_ref())
                .is_none_or(|keyword| keyword.find(texts.key(line).as_bytes()).is_some())
            && (!self.needs_parts || self.admits_parts(&texts.parts(line)))
    }

    fn has(&self, line: &Line, texts: &Texts, text: &str) -> bool {
        if self.finder.find(texts.of(line).as_bytes()).is_none() {
            return false;
        }
        // What has a separator in it may lie across two fields.
        !text.contains(SEPARATOR) || {
            let has = |field: &str| field.to_lowercase().contains(text);
            has(texts.key(line)) || has(texts.node(line))
        }
    }

    fn admits_parts(&self, parts: &KeyParts<'_>) -> bool {
        let filter = self.filter;
        let is = |wanted: &Option<String>, part| wanted.as_deref().is_none_or(|text| text == part);
        is(&filter.namespace, parts.namespace)
            && is(&filter.app, parts.app)
            && is(&filter.pod, parts.pod)
            && is(&filter.kind, parts.kind)
            && is(&filter.pool, parts.pool.unwrap_or_default())
    }
}

/// Which of all lines have addresses of a set.
fn pieces(lines: &[Line], set: &IpSet) -> impl Iterator<Item = Range<usize>> {
    set.ranges().map(|range| {
        let start = lines.partition_point(|line| line.ip < range.first());
        start..start + lines[start..].partition_point(|line| line.ip <= range.last())
    })
}
