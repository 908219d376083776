use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::{config::fixture, ipam::policy::ReleasePolicy};

const KEY: &str = "floatingips";

/// One entry with these ranges.
fn entries(ips: &str, more: &str) -> String {
    format!(
        r#"[{{"nodeSubnets":["10.0.1.0/24"],"ips":["{ips}"],"subnet":"10.0.70.0/24","gateway":"10.0.70.1"{more}}}]"#
    )
}

fn map(text: &str) -> Value {
    json!({ "metadata": { "name": "floatingip-config" }, "data": { KEY: text } })
}

fn record(ip: &str, key: &str, uid: &str) -> Record {
    Record {
        ip: ip.parse().unwrap(),
        key: key.into(),
        policy: ReleasePolicy::Never,
        node: String::new(),
        uid: uid.into(),
        updated: Timestamp::UNIX_EPOCH,
        reserved: false,
        workload_note: None,
    }
}

/// What is in force, with somebody on .2, a spare on .3 and a shared address on .30.
fn ledger() -> Ledger {
    let text = entries("10.0.70.2~10.0.70.9", r#","shared":["10.0.70.30"]"#);
    let mut ledger = Ledger::new(fixture::config(&text));
    ledger.observe(record("10.0.70.2", "dp_shop_web_web-1", "u"));
    ledger.observe(record("10.0.70.3", "dp_shop_web_", ""));
    ledger.observe(record("10.0.70.30", "vip__shop_front_", ""));
    ledger
}

fn judged(object: &Value) -> Verdict {
    read(KEY, Write::Create(object)).unwrap().judge(&ledger())
}

fn reasons(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|it| it.reason).collect()
}

#[test]
fn a_text_that_cannot_be_used_is_refused_with_all_its_problems() {
    let text = r#"[{"nodeSubnets":["10.0.1.0/24"],"subnet":"10.0.70.0/24"},{"ips":["x"]}]"#;
    let verdict = read(KEY, Write::Create(&map(text))).unwrap_err();
    assert_eq!(verdict.reason(), Some("GatewayEmpty"));
    assert!(verdict.refusals.len() > 2, "{verdict:?}");
    let told = verdict.message();
    let begin = "GatewayEmpty: data.floatingips: entry [0], field gateway: gateway is empty; ";
    assert!(told.starts_with(begin), "{told}");
    assert!(told.contains("entry [1], field ips: "), "{told}");
}

#[test]
fn an_old_text_with_problems_may_stay() {
    let bad = map("[{}]");
    let mut labelled = bad.clone();
    labelled["metadata"]["labels"] = json!({ "a": "b" });
    let write = Write::Update {
        new: &labelled,
        old: &bad,
    };
    let verdict = read(KEY, write).unwrap_err();
    assert!(verdict.is_allowed());
    assert!(!verdict.warnings.is_empty());
    let good = map(&entries("10.0.70.2", ""));
    let write = Write::Update {
        new: &good,
        old: &good,
    };
    assert_eq!(read(KEY, write), Err(Verdict::default()));
}

#[test]
fn a_text_that_goes_is_told() {
    let good = map(&entries("10.0.70.2", ""));
    let verdict = read(KEY, Write::Delete(&good)).unwrap_err();
    assert!(verdict.is_allowed());
    assert_eq!(reasons(&verdict.warnings), ["ConfigMapMissing"]);
    let empty = json!({ "data": { "other": "x" } });
    let write = Write::Update {
        new: &empty,
        old: &good,
    };
    let verdict = read(KEY, write).unwrap_err();
    assert!(verdict.is_allowed());
    assert_eq!(reasons(&verdict.warnings), ["ConfigurationKeyMissing"]);
}

#[test]
fn more_addresses_hurt_nobody() {
    let text = entries("10.0.70.2~10.0.70.20", r#","shared":["10.0.70.30"]"#);
    assert_eq!(judged(&map(&text)), Verdict::default());
    // Neither do those that go and that nobody has.
    let text = entries("10.0.70.2~10.0.70.3", r#","shared":["10.0.70.30"]"#);
    assert_eq!(judged(&map(&text)), Verdict::default());
}

#[test]
fn taking_addresses_from_pods_has_to_be_said_twice() {
    let text = entries("10.0.70.5~10.0.70.9", "");
    let mut object = map(&text);
    let verdict = judged(&object);
    assert_eq!(reasons(&verdict.refusals), ["ConfigurationHarms"]);
    assert_eq!(reasons(&verdict.warnings), ["OutsideConfiguration"]);
    let told = verdict.message();
    let both = "10.0.70.2 of pod shop/web-1, 10.0.70.30 of VirtualIP shop/front";
    assert!(told.contains(both), "{told}");
    let (_, after) = told.split_once("floe.dev/accept-harm=").unwrap();
    let mark = after.split(' ').next().unwrap();

    object["metadata"]["annotations"] = json!({ ACCEPT: mark });
    let verdict = judged(&object);
    assert!(verdict.is_allowed());
    let told = ["ConfigurationHarms", "OutsideConfiguration"];
    assert_eq!(reasons(&verdict.warnings), told);
    // It was said of that text alone.
    let mut other = map(&entries("10.0.70.6~10.0.70.9", ""));
    other["metadata"]["annotations"] = json!({ ACCEPT: mark });
    assert!(!judged(&other).is_allowed());
    for sloppy in ["true", "", "*"] {
        object["metadata"]["annotations"] = json!({ ACCEPT: sloppy });
        assert!(!judged(&object).is_allowed());
    }
}

#[test]
fn another_network_for_pods_that_run_is_told() {
    let more = r#","vlan":7,"shared":["10.0.70.30"]"#;
    let verdict = judged(&map(&entries("10.0.70.2~10.0.70.9", more)));
    assert!(verdict.is_allowed());
    assert_eq!(reasons(&verdict.warnings), ["NetworkAltered"]);
    let told = verdict.warnings[0].to_string();
    assert!(told.ends_with(": 10.0.70.2 of pod shop/web-1"), "{told}");
}

#[test]
fn long_lists_are_cut() {
    let text = entries("10.0.70.2~10.0.70.50", "");
    let mut ledger = Ledger::new(fixture::config(&text));
    for host in 2..32 {
        let ip = format!("10.0.70.{host}");
        ledger.observe(record(&ip, &format!("dp_shop_web_web-{host}"), "u"));
    }
    let draft = read(KEY, Write::Create(&map("[]"))).unwrap();
    let told = draft.judge(&ledger).message();
    assert!(told.contains("pod shop/web-21 and 10 more. If"), "{told}");
    assert!(told.len() < 2_000, "{told}");
}

#[test]
fn a_configuration_without_any_address_is_a_warning() {
    let unused = Ledger::new(fixture::config(&entries("10.0.70.2~10.0.70.9", "")));
    let draft = read(KEY, Write::Create(&map("[]"))).unwrap();
    let verdict = draft.judge(&unused);
    assert!(verdict.is_allowed());
    assert_eq!(reasons(&verdict.warnings), ["ConfigurationEmpty"]);
    // There was none before either.
    let verdict = draft.judge(&Ledger::new(fixture::config("[]")));
    assert_eq!(verdict, Verdict::default());
}

#[test]
fn a_prefix_length_of_zero_is_refused() {
    let text = entries("10.0.70.2", "").replace("/24\",\"gateway", "/0\",\"gateway");
    let verdict = read(KEY, Write::Create(&map(&text))).unwrap_err();
    assert_eq!(verdict.reason(), Some("PrefixLengthZero"));
}
