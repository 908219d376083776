use serde_json::json;

use super::*;

fn finding(reason: &'static str) -> Finding {
    Finding::at("spec", reason, "text")
}

#[test]
fn a_finding_says_reason_place_and_text() {
    assert_eq!(finding("Reason").to_string(), "Reason: spec: text");
    let whole = Finding::at("", "Reason", "text");
    assert_eq!(whole.to_string(), "Reason: text");
}

#[test]
fn what_was_wrong_before_is_only_told() {
    let before = Verdict {
        refusals: vec![finding("Old")],
        warnings: vec![finding("Risk")],
    };
    let now = Verdict {
        refusals: vec![finding("New"), finding("Old")],
        warnings: vec![finding("Risk")],
    };
    let verdict = now.forgive(&before);
    assert_eq!(verdict.refusals, [finding("New")]);
    assert_eq!(verdict.warnings, [finding("Old"), finding("Risk")]);
    assert_eq!(verdict.reason(), Some("New"));
    assert!(!verdict.is_allowed());
    assert!(Verdict::default().is_allowed());
}

#[test]
fn an_object_that_goes_is_on_its_way_out() {
    let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let there = json!({ "metadata": {} });
    let update = Write::Update {
        new: &going,
        old: &there,
    };
    assert!(update.is_farewell());
    assert!(!Write::Create(&there).is_farewell());
    assert!(!Write::Delete(&going).is_farewell());
    assert!(Write::Delete(&there).wanted().is_none());
}
