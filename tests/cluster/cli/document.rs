//! The document: prose, and blocks of commands with what they print.
//!
//! In a block marked `console` a line that starts with `$ ` is a command, and the lines
//! up to the next one are what it prints, errors included.

use std::sync::LazyLock;

use anyhow::{Result, ensure};
use regex::Regex;

/// A document in its parts.
pub struct Document {
    parts: Vec<Part>,
}

enum Part {
    /// A line that stays as it is.
    Line(String),
    Step(Step),
}

/// A command with what it prints.
#[derive(Clone, Debug)]
pub struct Step {
    pub command: String,
    pub output: String,
}

impl Document {
    pub fn read(text: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut inside = false;
        for line in text.lines() {
            if line.starts_with("```") {
                inside = line == "```console";
                parts.push(Part::Line(line.to_owned()));
            } else if !inside {
                parts.push(Part::Line(line.to_owned()));
            } else if let Some(command) = line.strip_prefix("$ ") {
                parts.push(Part::Step(Step::new(command, "")));
            } else if let Some(Part::Step(step)) = parts.last_mut() {
                step.output.push_str(line);
                step.output.push('\n');
            }
        }
        let document = Self { parts };
        // Otherwise a rewrite could lose something.
        ensure!(document.text() == text, "a block starts without a command");
        Ok(document)
    }

    pub fn steps_mut(&mut self) -> impl Iterator<Item = &mut Step> {
        self.parts.iter_mut().filter_map(|part| match part {
            Part::Line(_) => None,
            Part::Step(step) => Some(step),
        })
    }

    pub fn text(&self) -> String {
        let parts = self.parts.iter().map(|part| match part {
            Part::Line(line) => format!("{line}\n"),
            Part::Step(step) => format!("$ {}\n{}", step.command, step.output),
        });
        parts.collect()
    }
}

impl Step {
    pub fn new(command: &str, output: &str) -> Self {
        Self {
            command: command.to_owned(),
            output: output.to_owned(),
        }
    }

    /// Whether something printed is what the document says.
    pub fn agrees(&self, printed: &str) -> bool {
        masked(&self.output) == masked(printed)
    }

    /// Whether it only looks, so that it can be asked until the cluster has settled.
    pub fn only_looks(&self) -> bool {
        const CHANGES: [&str; 12] = [
            " apply ",
            " create ",
            " delete ",
            " scale ",
            " wait ",
            " import ",
            " reserve ",
            " unreserve ",
            " release ",
            " move ",
            " set ",
            " --fix",
        ];
        let command = format!("{} ", self.command);
        !CHANGES.iter().any(|word| command.contains(word))
    }
}

/// What differs from run to run, and what stands for it.
static MASKS: LazyLock<[(Regex, &str); 7]> = LazyLock::new(|| {
    let regex = |text| Regex::new(text).expect("it was tried");
    [
        (regex(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}"), "UID"),
        (regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
        (regex(r"\b\d\d:\d\d:\d\dZ"), "TIME"),
        (regex(r"\b\d+[smhd](\d+[smh])?\b"), "AGE"),
        (regex(r#"(resourceVersion"?: )"?\d+"?"#), "${1}VERSION"),
        (regex(r"Version: v1\.\d+\.\d+"), "Version: KUBERNETES"),
        // Columns are as wide as what is in them.
        (regex(r" {2,}"), " "),
    ]
});

fn masked(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut line = line.trim_end().to_owned();
        for (mask, name) in MASKS.iter() {
            line = mask.replace_all(&line, *name).into_owned();
        }
        lines.push(line);
    }
    lines.join("\n")
}

#[test]
fn a_document_is_read_and_written_without_a_loss() {
    let text = "# A\n\n```console\n$ one\n$ two\n2\n\n3\n```\n\n```yaml\n$ no: command\n```\n";
    let mut document = Document::read(text).expect("it is sound");
    let steps: Vec<_> = document.steps_mut().map(|step| step.clone()).collect();
    assert_eq!(steps.len(), 2);
    assert_eq!(
        (steps[1].command.as_str(), steps[1].output.as_str()),
        ("two", "2\n\n3\n")
    );
    assert_eq!(document.text(), text);
    assert!(Document::read("```console\nno command\n```\n").is_err());
}

#[test]
fn only_what_differs_from_run_to_run_is_masked() {
    let says = |output| Step::new("x", output);
    assert!(says("web-0   Bound   12s\n").agrees("web-0  Bound  3m4s\n"));
    assert!(says("at 2026-01-01T00:00:00Z (5s ago)").agrees("at 2027-02-02T01:02:03Z (1h ago)"));
    assert!(!says("10.0.70.2 Bound 12s").agrees("10.0.70.3 Bound 12s"));
    assert!(!says("10.0.70.2 Bound 12s").agrees("10.0.70.2 Kept 12s"));
    assert!(!says("one\n").agrees("one\ntwo\n"));
}

#[test]
fn who_changes_something_is_not_asked_twice() {
    let looks = |command| Step::new(command, "").only_looks();
    assert!(looks("kubectl floe ip list -A"));
    assert!(looks("kubectl floe check"));
    assert!(!looks("kubectl floe check --fix"));
    assert!(!looks("kubectl floe ip release 10.0.70.2 --yes"));
    assert!(!looks("kubectl delete statefulset web"));
}
