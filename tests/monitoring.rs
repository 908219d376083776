//! What `deploy/monitoring` has: alerts, scrapes and the dashboard. Everything that they
//! name exists, and the alerts fire when they should, as Prometheus' own promtool says.

#![allow(
    clippy::unwrap_used,
    reason = "what is not there shall fail the test, also in its helpers"
)]

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use floe_testbed::packages::{self, Need};
use regex::Regex;
use serde_json::Value;

const ALERTS: &str = include_str!("../deploy/monitoring/alerts.yaml");
const SCRAPES: &str = include_str!("../deploy/monitoring/pod-monitors.yaml");
const DASHBOARD: &str = include_str!("../deploy/monitoring/dashboard.json");
const CASES: &str = include_str!("monitoring/alerts.yaml");
const LIST: &str = include_str!("../docs/metrics.md");

/// Debian's Prometheus has promtool; its daemon is not started.
const PROMTOOL: Need = Need {
    program: "promtool",
    package: "prometheus",
};

/// The metrics that floe has, as they are asked for.
fn known() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in LIST.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`');
        if cells[2] == "histogram" {
            for ending in ["bucket", "sum", "count"] {
                names.insert(format!("{name}_{ending}"));
            }
        } else {
            names.insert(name.to_owned());
        }
    }
    names
}

/// The metrics of floe that a text names.
fn named(text: &str) -> BTreeSet<&str> {
    let name = Regex::new(r"\b(?:floe|galaxy|flipop)_[a-z_]+\b").unwrap();
    name.find_iter(text).map(|found| found.as_str()).collect()
}

fn alerts() -> BTreeSet<&'static str> {
    let names = ALERTS
        .lines()
        .filter_map(|it| it.trim().strip_prefix("- alert: "));
    names.collect()
}

/// The rules alone, as Prometheus reads them.
fn rules() -> String {
    let (_, spec) = ALERTS.split_once("\nspec:\n").unwrap();
    let lines = spec.lines().map(|it| it.strip_prefix("  ").unwrap_or(it));
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// The name of a heading in a link, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|it| it.is_alphanumeric() || " -_".contains(*it));
    kept.map(|it| if it == ' ' { '-' } else { it }).collect()
}

#[test]
fn alerts_and_dashboard_name_metrics_that_exist() {
    let known = known();
    assert!(known.contains("floe_ip_free") && known.contains("floe_agent_conflicts"));
    for (file, text) in [
        ("alerts.yaml", ALERTS),
        ("dashboard.json", DASHBOARD),
        ("tests/monitoring/alerts.yaml", CASES),
    ] {
        let named = named(text);
        assert!(named.len() > 10, "{file} names too little: {named:?}");
        for name in named {
            assert!(known.contains(name), "{file}: there is no {name}");
        }
    }
}

#[test]
fn every_alert_has_a_case_and_a_page_that_tells_what_to_do() {
    let alerts = alerts();
    assert!(alerts.len() > 20, "{alerts:?}");
    for alert in &alerts {
        // With what it says when it fires.
        let case = format!("alertname: {alert}\n        exp_alerts:");
        assert!(CASES.contains(&case), "{alert} never fires in a test");
    }
    let mut pages = 0;
    for line in ALERTS.lines() {
        let Some(link) = line.trim().strip_prefix("runbook: ") else {
            continue;
        };
        let (page, wanted) = link.split_once('#').unwrap();
        let file = format!("{}/../{page}", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(&file).unwrap_or_else(|it| panic!("{page}: {it}"));
        let headings = text.lines().filter(|it| it.starts_with('#'));
        let mut anchors = headings.map(|it| anchor(it.trim_start_matches('#')));
        assert!(anchors.any(|it| it == wanted), "{link} leads nowhere");
        pages += 1;
    }
    assert_eq!(pages, alerts.len());
}

#[test]
fn the_dashboard_is_whole() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            let is_ours = !named(expression).is_empty() || expression.contains("up{job=\"floe-");
            assert!(is_ours, "{expression}");
        }
    }
}

#[test]
fn what_is_scraped_is_deployed() {
    for (program, port) in [("floe-controller", "health"), ("floe-agent", "metrics")] {
        let file = program.replace("floe-", "");
        let file = format!("{}/../deploy/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
        let manifest = fs::read_to_string(file).unwrap();
        let label = format!("app.kubernetes.io/name: {program}\n");
        assert!(SCRAPES.contains(&label) && manifest.contains(&label));
        assert!(SCRAPES.contains(&format!("- port: {port}\n")));
        assert!(manifest.contains(&format!("- name: {port}\n")), "{port}");
    }
}

#[test]
#[ignore = "needs promtool: cargo xtask test --only monitoring"]
fn prometheus_takes_the_rules_and_the_alerts_fire() {
    packages::ensure(&[PROMTOOL]).unwrap();
    let promtool = packages::find(PROMTOOL.program).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yaml"), rules()).unwrap();
    fs::write(folder.path().join("alerts.yaml"), CASES).unwrap();
    // Every expression of the dashboard as a rule of its own, to be read by Prometheus.
    fs::write(folder.path().join("dashboard.yaml"), dashboard_rules()).unwrap();
    for arguments in [
        ["check", "rules", "rules.yaml"],
        ["check", "rules", "dashboard.yaml"],
        ["test", "rules", "alerts.yaml"],
    ] {
        let mut command = Command::new(&promtool);
        let output = command.args(arguments).current_dir(folder.path()).output();
        let output = output.unwrap();
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told).into_owned();
        assert!(output.status.success(), "{arguments:?}: {told}");
        assert!(told.contains("SUCCESS"), "{arguments:?}: {told}");
    }
}

fn dashboard_rules() -> String {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|it| it["targets"].as_array().into_iter().flatten());
    let rules: Vec<Value> = targets
        .enumerate()
        .map(|(number, it)| serde_json::json!({ "record": format!("r{number}"), "expr": it["expr"] }))
        .collect();
    // JSON is YAML.
    serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] }).to_string()
}
