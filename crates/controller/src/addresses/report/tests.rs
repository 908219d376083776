use super::*;
use crate::{
    addresses::intake::{Intake, Offer},
    store::Store,
};

fn entry(ips: &str) -> String {
    format!(
        r#"[{{"nodeSubnets":["10.0.0.0/16"],"ips":[{ips}],"subnet":"10.0.70.0/24","gateway":"10.0.70.1"}}]"#
    )
}

fn stories(offers: &[Offer]) -> Vec<String> {
    let store = Store::default();
    store.warm(|warmth| warmth.records = true);
    let mut intake = Intake::new(store);
    let outcomes = offers
        .iter()
        .map(|offer| intake.take(offer.clone()).unwrap());
    outcomes.map(|outcome| story(&outcome)).collect()
}

#[test]
fn changes_are_told_with_what_they_add_and_remove() {
    let first = Offer::Text(entry(r#""10.0.70.2~10.0.70.9""#));
    let second = Offer::Text(entry(r#""10.0.70.4~10.0.70.12""#));
    assert_eq!(
        stories(&[first, second]),
        [
            "in force: entries 1, addresses 8; added 10.0.70.2~10.0.70.9",
            "in force: entries 1, addresses 9; added 10.0.70.10~10.0.70.12; removed 10.0.70.2~10.0.70.3",
        ]
    );
}

#[test]
fn problems_are_told_with_entry_field_and_what_was_left_out() {
    let doubtful = Offer::Text(entry(r#""10.0.70.0~10.0.70.9""#));
    let bad = Offer::Text(entry(r#""10.0.70.9~10.0.70.2""#));
    assert_eq!(
        stories(&[bad.clone(), doubtful, bad]),
        [
            "refused, no address is configured: entry [0], field ips: invalid ip range 10.0.70.9~10.0.70.2",
            "with problems: entry [0], field ips: 10.0.70.0 is the network address of 10.0.70.0/24 (left out: 10.0.70.0); entry [0], field ips: 10.0.70.1 is the gateway of entry [0] (left out: 10.0.70.1). in force: entries 1, addresses 8; added 10.0.70.2~10.0.70.9",
            "refused, the configuration before stays in force: entry [0], field ips: invalid ip range 10.0.70.9~10.0.70.2",
        ]
    );
}

#[test]
fn absence_is_told() {
    assert_eq!(
        stories(&[Offer::Nothing, Offer::NoKey]),
        [
            "there is no such ConfigMap, no address is configured",
            "the ConfigMap does not have the key, no address is configured",
        ]
    );
}

#[test]
fn addresses_that_lost_their_range_are_told() {
    let applied = Applied {
        entries: 1,
        addresses: 0,
        change: floe_core::config::Change::default(),
        problems: Vec::new(),
        outside: Some(2),
    };
    let outcome = Outcome::Applied(Box::new(applied));
    assert_eq!(
        story(&outcome),
        "in force: entries 1, addresses 0; outside of the configuration, and free once the holder goes: addresses 2"
    );
    assert!(!is_warning(&outcome));
}

#[test]
fn a_configuration_that_removes_every_address_is_a_warning_that_frees_nothing() {
    let store = Store::default();
    store.warm(|warmth| warmth.records = true);
    let mut intake = Intake::new(store);
    let first = intake.take(Offer::Text(entry(r#""10.0.70.2~10.0.70.9""#)));
    assert!(!is_warning(&first.unwrap()));
    let outcome = intake.take(Offer::Text("[]".into())).unwrap();
    assert_eq!(outcome.reason(), "ConfigurationEmpty");
    assert!(is_warning(&outcome));
    assert_eq!(
        story(&outcome),
        "in force: entries 0, addresses 0; removed 10.0.70.2~10.0.70.9; no pod gets an address until some are configured again"
    );
    let Outcome::Applied(mut applied) = outcome else {
        panic!("it was applied");
    };
    applied.outside = Some(2);
    let told = story(&Outcome::Applied(applied));
    let end = "; records stay with their holders as their policies say: addresses 2";
    assert!(told.ends_with(end), "{told}");
    // Nothing was there to be removed.
    let mut fresh = Intake::new(Store::default());
    let outcome = fresh.take(Offer::Text("[]".into())).unwrap();
    assert_eq!(outcome.reason(), "ConfigurationApplied");
    assert!(!is_warning(&outcome));
}
