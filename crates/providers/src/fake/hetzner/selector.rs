//! Label selectors: `key`, `!key`, `key=value`, `key==value`, `key!=value`,
//! `key in (a,b)`, `key notin (a,b)`, and several of them with commas between.

use std::collections::BTreeMap;

/// Whether labels fit a selector; `None` when it is no selector.
pub fn fits(selector: &str, labels: &BTreeMap<String, String>) -> Option<bool> {
    split(selector)
        .into_iter()
        .map(|term| term_fits(term.trim(), labels))
        .try_fold(true, |all, one| Some(all & one?))
}

/// Commas in brackets stand between values.
fn split(selector: &str) -> Vec<&str> {
    let (mut terms, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, character) in selector.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                terms.push(&selector[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&selector[start..]);
    terms
}

fn term_fits(term: &str, labels: &BTreeMap<String, String>) -> Option<bool> {
    let has = |key: &str, value: &str| labels.get(key.trim()).is_some_and(|v| v == value.trim());
    if let Some((key, value)) = term.split_once("!=") {
        return Some(!has(key, value));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Some(has(key, value));
    }
    if let Some((head, values)) = term.split_once('(') {
        let values = values.strip_suffix(')')?;
        let any = |key: &str| values.split(',').any(|value| has(key, value));
        let head = head.trim();
        if let Some(key) = head.strip_suffix(" notin") {
            return Some(!any(key));
        }
        return head.strip_suffix(" in").map(any);
    }
    if let Some(key) = term.strip_prefix('!') {
        return Some(!labels.contains_key(key.trim()));
    }
    (!term.is_empty() && !term.contains(' ')).then(|| labels.contains_key(term))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_documentation_is_understood() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        for (selector, expected) in [
            ("a", Some(true)),
            ("!a", Some(false)),
            ("b", Some(false)),
            ("a=1", Some(true)),
            ("a==1,!b", Some(true)),
            ("a!=1", Some(false)),
            ("b!=1", Some(true)),
            ("a in (0,1)", Some(true)),
            ("a notin (0,1),a", Some(false)),
            ("a in 1", None),
            ("", None),
        ] {
            assert_eq!(fits(selector, &labels), expected, "{selector}");
        }
    }
}
