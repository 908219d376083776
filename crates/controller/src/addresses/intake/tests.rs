use super::*;

const GOOD: &str = r#"[{"nodeSubnets":["10.0.0.0/16"],"ips":["10.0.70.2~10.0.70.9"],"subnet":"10.0.70.0/24","gateway":"10.0.70.1"}]"#;
const SMALLER: &str = r#"[{"nodeSubnets":["10.0.0.0/16"],"ips":["10.0.70.2~10.0.70.5"],"subnet":"10.0.70.0/24","gateway":"10.0.70.1"}]"#;
/// galaxy takes it: the gateway is among the addresses.
const DOUBTFUL: &str = r#"[{"nodeSubnets":["10.0.0.0/16"],"ips":["10.0.70.1~10.0.70.9"],"subnet":"10.0.70.0/24","gateway":"10.0.70.1"}]"#;
const BAD: &str =
    r#"[{"nodeSubnets":["10.0.0.0/16"],"ips":["10.0.70.2"],"subnet":"10.0.70.0/24"}]"#;

fn text(text: &str) -> Offer {
    Offer::Text(text.into())
}

fn applied(outcome: Option<Outcome>) -> Applied {
    let Some(Outcome::Applied(applied)) = outcome else {
        panic!("not applied: {outcome:?}");
    };
    *applied
}

fn in_force(store: &Store) -> u128 {
    store.read(|books| books.ledger().topology().config().addresses().len())
}

#[test]
fn the_same_text_is_taken_once() {
    let mut intake = Intake::new(Store::default());
    assert!(intake.take(text(GOOD)).is_some());
    assert_eq!(intake.take(text(GOOD)), None);
    assert!(intake.take(text(BAD)).is_some());
    assert_eq!(intake.take(text(BAD)), None);
    assert!(intake.take(Offer::Nothing).is_some());
    assert_eq!(intake.take(Offer::Nothing), None);
    assert!(intake.take(text(GOOD)).is_some(), "it was gone in between");
}

#[test]
fn a_bad_change_leaves_the_old_configuration_in_force() {
    let store = Store::default();
    let mut intake = Intake::new(store.clone());
    intake.take(text(GOOD));
    for offer in [
        text(BAD),
        text(DOUBTFUL),
        text("{"),
        text(""),
        Offer::NoKey,
        Offer::Nothing,
    ] {
        let outcome = intake.take(offer.clone()).unwrap();
        let fallback = match outcome {
            Outcome::Applied(_) => panic!("{offer:?}"),
            Outcome::Refused { fallback, .. } | Outcome::Absent { fallback, .. } => fallback,
        };
        assert!(fallback, "{offer:?}");
        assert_eq!(in_force(&store), 8, "{offer:?}");
    }
    let smaller = applied(intake.take(text(SMALLER)));
    assert_eq!(smaller.change.removed.to_string(), "10.0.70.6~10.0.70.9");
    assert!(smaller.change.added.is_empty());
    assert_eq!((smaller.entries, smaller.addresses), (1, 4));
    assert_eq!(in_force(&store), 4);
}

#[test]
fn at_first_what_galaxy_takes_is_taken() {
    let store = Store::default();
    let mut intake = Intake::new(store.clone());
    let refused = intake.take(text(BAD)).unwrap();
    assert_eq!(refused.reason(), "ConfigurationRefused");
    assert_eq!(refused.problems()[0].reason(), "GatewayEmpty");
    assert!(matches!(
        refused,
        Outcome::Refused {
            fallback: false,
            ..
        }
    ));

    // Still nothing in force, so still lenient.
    let outcome = intake.take(text(DOUBTFUL)).unwrap();
    assert_eq!(outcome.reason(), "ConfigurationPartlyApplied");
    assert_eq!(outcome.problems()[0].reason(), "GatewayInIps");
    assert_eq!(in_force(&store), 8, "all but the gateway");
    assert_eq!(
        intake.take(text("[]")).unwrap().reason(),
        "ConfigurationEmpty"
    );
    assert_eq!(in_force(&store), 0);
    assert_eq!(
        intake.take(text(DOUBTFUL)).unwrap().reason(),
        "ConfigurationRefused",
        "an empty configuration is one to fall back to",
    );
}

#[test]
fn records_outside_are_counted_only_when_all_are_known() {
    let store = Store::default();
    let mut intake = Intake::new(store.clone());
    assert_eq!(applied(intake.take(text(GOOD))).outside, None);
    store.warm(|warmth| warmth.records = true);
    assert_eq!(applied(intake.take(text(SMALLER))).outside, Some(0));
}

#[test]
fn absence_has_its_reasons() {
    let mut intake = Intake::new(Store::default());
    assert_eq!(
        intake.take(Offer::Nothing).unwrap().reason(),
        "ConfigMapMissing"
    );
    assert_eq!(
        intake.take(Offer::NoKey).unwrap().reason(),
        "ConfigurationKeyMissing"
    );
}
