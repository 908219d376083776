//! For tests: `docs/metrics.md`, made from what the programs serve at `/metrics`.
//!
//! A program is scraped after everything in it was counted once, so that every metric shows
//! itself with its labels. Names that stand in the sources and not in the scrape are an
//! error: nobody can add a metric and forget the document.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that asks for what cannot be shall fail, also when it lies in another crate"
)]

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

/// With what names of metrics begin.
const BEGINNINGS: [&str; 3] = ["floe_", "galaxy_", "flipop_"];

/// A metric as its users know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name to ask for; of a histogram without `_bucket`, `_sum` and `_count`.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// Its labels, in their order.
    pub labels: Vec<String>,
    /// What it tells.
    pub help: String,
}

/// The metrics of a scrape, by name.
///
/// # Panics
/// If one of them has no value, so that nobody knows its labels.
pub fn metrics(scrape: &str) -> Vec<Metric> {
    let mut found: Vec<Metric> = Vec::new();
    let mut helps = Vec::new();
    for line in scrape.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            helps.push(rest.split_once(' ').unwrap());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let (_, help) = helps.iter().find(|it| it.0 == name).unwrap();
            found.push(Metric {
                name: format!("{name}{}", ending(kind)),
                kind: kind.to_owned(),
                labels: Vec::new(),
                help: help.trim_end_matches('.').to_owned(),
            });
            let values = scrape.lines().find_map(|line| of(line, name));
            let values = values.unwrap_or_else(|| panic!("{name} is not counted in the test"));
            found.last_mut().unwrap().labels = labels(values);
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Compares a program's part of the document with what it serves, or writes it anew with
/// `FLOE_BLESS=1`.
///
/// # Panics
/// If they differ, or if the sources have a name that is not served.
pub fn hold(crate_folder: &str, program: &str, scrape: &str, sources: &[&str]) {
    let served = metrics(scrape);
    for name in sources.iter().flat_map(|it| names(it)) {
        let is_served = served.iter().any(|it| {
            let bare = it.name.strip_suffix(ending(&it.kind)).unwrap_or(&it.name);
            bare == name
        });
        assert!(is_served, "{name} is not counted in the test");
    }
    let file = Path::new(crate_folder).join("../../docs/metrics.md");
    let committed = fs::read_to_string(&file).unwrap_or_default();
    let wanted = replaced(&committed, program, &table(&served));
    if std::env::var_os("FLOE_BLESS").is_some_and(|value| value == "1") {
        fs::write(&file, &wanted).unwrap();
        return;
    }
    assert!(
        committed == wanted,
        "docs/metrics.md is not what {program} serves; \
         `FLOE_BLESS=1 cargo test -p {program} metrics` writes it anew"
    );
}

fn table(metrics: &[Metric]) -> String {
    let mut text = "| name | type | labels | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    for Metric {
        name,
        kind,
        labels,
        help,
    } in metrics
    {
        let labels: Vec<String> = labels.iter().map(|it| format!("`{it}`")).collect();
        let labels = labels.join(", ");
        writeln!(text, "| `{name}` | {kind} | {labels} | {help} |").unwrap();
    }
    text
}

/// The document with another table below the heading of a program.
fn replaced(document: &str, program: &str, table: &str) -> String {
    let heading = format!("## {program}\n");
    let Some((before, rest)) = document.split_once(&heading) else {
        return format!("{}\n\n{heading}\n{table}", document.trim_end());
    };
    let after = rest.find("\n## ").map_or("", |at| &rest[at..]);
    format!("{before}{heading}\n{table}{after}")
}

/// What a scrape adds to the name of a metric.
fn ending(kind: &str) -> &'static str {
    match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    }
}

/// What follows the name, if the line is a value of this metric.
fn of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(name)?;
    let endings = ["_total", "_info", "_bucket", "_sum", "_count"];
    let rest = endings
        .iter()
        .find_map(|it| rest.strip_prefix(it))
        .unwrap_or(rest);
    rest.starts_with(['{', ' ']).then_some(rest)
}

/// The names of labels in `{one="…",other="…"} 1`. The bounds of a histogram are none.
fn labels(values: &str) -> Vec<String> {
    let mut labels = Vec::new();
    let Some(mut rest) = values.strip_prefix('{') else {
        return labels;
    };
    while let Some((name, value)) = rest.split_once("=\"") {
        labels.push(name.to_owned());
        let mut escaped = false;
        let end = value.find(|it: char| {
            let is_end = it == '"' && !escaped;
            escaped = it == '\\' && !escaped;
            is_end
        });
        rest = value[end.unwrap() + 1..].trim_start_matches(',');
        if rest.starts_with('}') {
            break;
        }
    }
    labels.retain(|it| it != "le");
    labels
}

/// The names of metrics that stand in a source as literals of their own.
fn names(source: &str) -> BTreeSet<&str> {
    let literals = source.split('"').skip(1).step_by(2);
    let is_word = |it: &str| it.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
    literals
        .filter(|it| BEGINNINGS.iter().any(|beginning| it.starts_with(beginning)))
        .filter(|it| is_word(it))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRAPE: &str = "\
# HELP floe_calls Calls, by what came of them.
# TYPE floe_calls counter
floe_calls_total{call=\"a \\\"b\\\", c=\",status=\"200\"} 1
# HELP floe_build What was built.
# TYPE floe_build info
floe_build_info{version=\"1\"} 1
# HELP floe_seconds Seconds.
# TYPE floe_seconds histogram
floe_seconds_sum{func=\"x\"} 0.1
floe_seconds_bucket{le=\"0.1\",func=\"x\"} 1
# HELP floe_leads Whether it leads.
# TYPE floe_leads gauge
floe_leads 1
# EOF
";

    #[test]
    fn a_scrape_tells_names_types_labels_and_help() {
        assert_eq!(
            table(&metrics(SCRAPE)),
            "| name | type | labels | meaning |\n\
             | --- | --- | --- | --- |\n\
             | `floe_build_info` | info | `version` | What was built |\n\
             | `floe_calls_total` | counter | `call`, `status` | Calls, by what came of them |\n\
             | `floe_leads` | gauge |  | Whether it leads |\n\
             | `floe_seconds` | histogram | `func` | Seconds |\n"
        );
    }

    #[test]
    #[should_panic(expected = "floe_never is not counted in the test")]
    fn a_metric_without_a_value_is_an_error() {
        metrics("# HELP floe_never X.\n# TYPE floe_never gauge\n# EOF\n");
    }

    #[test]
    fn names_in_sources_are_found_and_other_words_are_not() {
        let source = r#"register("floe_calls", "Help for floe_calls"); "floe.dev"; "x floe_y""#;
        assert_eq!(Vec::from_iter(names(source)), ["floe_calls"]);
    }

    #[test]
    fn only_the_part_of_the_program_is_replaced() {
        let document = "# M\n\n## a\n\nold\n\n## b\n\nother\n";
        assert_eq!(
            replaced(document, "a", "new\n"),
            "# M\n\n## a\n\nnew\n\n## b\n\nother\n"
        );
        assert_eq!(
            replaced(document, "b", "new\n"),
            "# M\n\n## a\n\nold\n\n## b\n\nnew\n"
        );
        assert_eq!(replaced("# M\n", "c", "new\n"), "# M\n\n## c\n\nnew\n");
    }
}
