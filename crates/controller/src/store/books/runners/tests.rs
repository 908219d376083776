use floe_api::galaxy::FloatingIP;
use floe_core::config::{AddressConfig, Mode};
use kube::Resource as _;
use serde_json::json;
use tokio::sync::broadcast;

use super::*;
use crate::store::Seen;

const CONFIG: &str = r#"[{"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.2~10.0.70.9"],
    "subnet": "10.0.70.0/24", "gateway": "10.0.70.1"}]"#;

fn books() -> Books {
    let mut books = Books::telling(broadcast::Sender::new(16));
    let config = AddressConfig::parse(CONFIG, Mode::Strict).unwrap().config;
    books.configure(config);
    books
}

fn ip() -> IpAddr {
    IpAddr::from([10, 0, 70, 2])
}

fn record(version: u32) -> Seen<FloatingIP> {
    let version = version.to_string();
    serde_json::from_value(json!({
        "metadata": { "name": ip().to_string(), "uid": "r", "resourceVersion": version },
        "spec": { "key": "sts_ns_a_a-0" },
    }))
    .unwrap()
}

#[test]
fn each_list_of_records_asks_for_a_round() {
    let mut books = books();
    let serving = books.serving();
    assert!(books.serves() && *serving.borrow());
    books.begin_records();
    assert!(books.serves(), "the list may break off");
    books.end_records();
    assert!(!books.serves() && !*serving.borrow());

    let round = books.round();
    books.begin_records();
    books.end_records();
    assert!(!books.round_over(round), "it began before the second list");
    assert!(!books.serves());
    assert!(books.round_over(books.round()));
    assert!(books.serves() && *serving.borrow());
    assert!(!books.round_over(books.round()), "no news");
}

#[test]
fn an_address_in_use_is_not_free_when_its_record_is_lost() {
    let mut books = books();
    books.record(&record(5));
    books.runs_with("u", &[ip()]);
    books.begin_records();
    books.end_records();
    assert_eq!(books.ledger().record(ip()), None);
    assert_eq!(books.ledger().promised_to(ip()), Some("adopt/u"));

    // It is adopted.
    books.record(&record(7));
    books.set_free("u");
    assert_eq!(books.ledger().promised_to(ip()), None);
    // The pod ends, and then its record.
    books.runs_without("u", &[ip()]);
    books.record_gone(record(8).meta());
    assert_eq!(books.ledger().record(ip()), None);
    assert_eq!(books.ledger().promised_to(ip()), None);
}

#[test]
fn what_is_set_aside_is_free_again_when_the_pod_is_gone_or_nobody_looks() {
    let mut books = books();
    let other = IpAddr::from([10, 0, 70, 3]);
    books.runs_with("u", &[ip()]);
    books.runs_with("u", &[other]);
    assert_eq!(books.ledger().promised_to(ip()), Some("adopt/u"));
    assert_eq!(books.ledger().promised_to(other), Some("adopt/u"));
    books.runs_without("u", &[ip(), other]);
    assert_eq!(books.ledger().promised_to(ip()), None);

    books.runs_with("v", &[ip()]);
    books.forget_runners();
    assert_eq!(books.ledger().promised_to(ip()), None);
    assert_eq!(books.runner(ip()), None);
}

#[test]
fn another_pod_with_the_same_address_keeps_it() {
    let mut books = books();
    books.runs_with("old", &[ip()]);
    books.runs_with("new", &[ip()]);
    books.runs_without("old", &[ip()]);
    assert_eq!(books.runner(ip()), Some("new"));
}
