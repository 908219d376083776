//! The forms that answers and requests have in common: pages, labels, times.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Answer, objects::Fault};

/// The pages that the API gives when nobody asks for others, and the longest.
const PER_PAGE: usize = 25;
const LONGEST_PAGE: usize = 50;

/// A good answer with a body.
#[allow(
    clippy::unnecessary_wraps,
    reason = "it stands where answers are expected that may be bad"
)]
pub fn ok(body: Value) -> Answer {
    Ok((StatusCode::OK, Some(body)))
}

/// One page of many, with what the API says about pages.
pub fn page(key: &str, all: Vec<Value>, query: &[(String, String)]) -> Answer {
    let number = |name| query_of(query, name).and_then(|text| text.parse::<usize>().ok());
    let per_page = number("per_page")
        .unwrap_or(PER_PAGE)
        .clamp(1, LONGEST_PAGE);
    let page = number("page").unwrap_or(1).max(1);
    let total = all.len();
    let last = total.div_ceil(per_page).max(1);
    let shown: Vec<Value> = all
        .into_iter()
        .skip((page - 1) * per_page)
        .take(per_page)
        .collect();
    ok(json!({
        key: shown,
        "meta": { "pagination": {
            "page": page,
            "per_page": per_page,
            "previous_page": (page > 1).then(|| page - 1),
            "next_page": (page < last).then(|| page + 1),
            "last_page": last,
            "total_entries": total,
        }},
    }))
}

/// What a query says under a name.
pub fn query_of<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = query.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_str())
}

/// Labels as the API takes them: short words that begin and end with a letter or a digit.
pub fn labels_of(value: &Value) -> Result<BTreeMap<String, String>, Fault> {
    let invalid = || Fault::field("labels", "is invalid");
    let mut labels = BTreeMap::new();
    let none = serde_json::Map::new();
    let given = if value.is_null() {
        &none
    } else {
        value.as_object().ok_or_else(invalid)?
    };
    let word = |text: &str| {
        let inside = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let outside = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        text.len() <= 63
            && text.chars().all(inside)
            && outside(text.chars().next())
            && outside(text.chars().last())
    };
    for (key, value) in given {
        let value = value.as_str().ok_or_else(invalid)?;
        let (prefix, name) = key.split_once('/').unwrap_or(("", key));
        let prefix_fits = prefix.is_empty() || (prefix.len() <= 253 && prefix != "hetzner.cloud");
        if !prefix_fits || !word(name) || !(value.is_empty() || word(value)) {
            return Err(invalid());
        }
        labels.insert(key.clone(), value.to_owned());
    }
    Ok(labels)
}

/// The time, as the API writes it.
pub fn now() -> String {
    let now = Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string()
}
