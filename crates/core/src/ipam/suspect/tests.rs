use super::*;
use crate::{
    config::{AddressConfig, fixture},
    ipam::policy::ReleasePolicy::{self, Immutable, Never, OnDelete},
};

/// `uid@node`, or nothing for an idle record.
fn record(ip: &str, key: &str, policy: ReleasePolicy, place: &str) -> Record {
    let (uid, node) = place.split_once('@').unwrap_or_default();
    Record {
        ip: ip.parse().unwrap(),
        key: key.into(),
        policy,
        node: node.into(),
        uid: uid.into(),
        updated: jiff::Timestamp::UNIX_EPOCH,
        reserved: false,
        workload_note: None,
    }
}

fn of(record: &Record, pod: Option<(&str, bool)>) -> String {
    let ledger = Ledger::new(fixture::t());
    let pod = pod.map(|(uid, finished)| Cached { uid, finished });
    match suspicion(&ledger, record, pod) {
        None => "-".into(),
        Some(Suspicion::Pod { namespace, pod }) => format!("pod {namespace}/{pod}"),
        Some(Suspicion::App(app)) => format!("app {}", app.name),
    }
}

const INSIDE: &str = "10.0.70.2";
const OUTSIDE: &str = "10.99.0.1";

#[test]
fn what_is_looked_at() {
    let sts = "sts_ns1_a_a-0";
    let dp = "dp_ns1_a_a-x-y";
    let pooled = "pool__p_dp_ns1_a_a-x-y";
    let alive = Some(("u", false));
    let finished = Some(("u", true));
    let other = Some(("v", false));
    let table = [
        // Bound.
        (sts, OnDelete, "u@n", alive, "-", "-"),
        (sts, OnDelete, "u@n", finished, "pod ns1/a-0", "pod ns1/a-0"),
        (sts, OnDelete, "u@n", None, "pod ns1/a-0", "pod ns1/a-0"),
        (sts, Never, "u@n", other, "pod ns1/a-0", "pod ns1/a-0"),
        (dp, Immutable, "u@n", alive, "-", "-"),
        (dp, Immutable, "u@n", None, "pod ns1/a-x-y", "pod ns1/a-x-y"),
        (pooled, Never, "u@n", None, "pod ns1/a-x-y", "pod ns1/a-x-y"),
        // Half of a bind, and records of galaxy without uid.
        (sts, Never, "u@", None, "pod ns1/a-0", "pod ns1/a-0"),
        (sts, Never, "@n", other, "-", "-"),
        (sts, Never, "@n", None, "pod ns1/a-0", "pod ns1/a-0"),
        // Kept.
        (sts, Never, "", None, "-", "pod ns1/a-0"),
        (sts, Never, "", alive, "-", "-"),
        (sts, Immutable, "", None, "app a", "pod ns1/a-0"),
        (sts, Immutable, "", alive, "-", "-"),
        (sts, OnDelete, "", None, "pod ns1/a-0", "pod ns1/a-0"),
        ("pool__p_sts_ns1_a_a-0", Never, "", None, "-", "pod ns1/a-0"),
        (dp, Never, "", None, "pod ns1/a-x-y", "pod ns1/a-x-y"),
        // Spares.
        ("dp_ns1_a_", Immutable, "", None, "app a", "app a"),
        ("dp_ns1_a_", Never, "", None, "-", "app a"),
        ("pool__p_", Never, "", None, "-", "-"),
        ("pool__p_dp_ns1_a_", Immutable, "", None, "-", "-"),
        ("sts_ns1_a_", Immutable, "", None, "-", "-"),
        // Nonsense.
        ("", OnDelete, "u@n", None, "-", "-"),
        ("by hand", OnDelete, "", None, "-", "-"),
        ("pool__a_b_c", OnDelete, "u@n", None, "-", "-"),
    ];
    for (key, policy, place, pod, inside, outside) in table {
        let case = format!("{key} {policy} {place:?} {pod:?}");
        let inside_record = record(INSIDE, key, policy, place);
        assert_eq!(of(&inside_record, pod), inside, "{case}");
        let outside_record = record(OUTSIDE, key, policy, place);
        assert_eq!(of(&outside_record, pod), outside, "{case} outside");
        let reserved = Record {
            reserved: true,
            ..outside_record
        };
        assert_eq!(of(&reserved, pod), "-", "{case} reserved");
    }
}

#[test]
fn without_a_configuration_nothing_is_outside_of_it() {
    let ledger = Ledger::new(AddressConfig::default());
    let kept = record(OUTSIDE, "sts_ns1_a_a-0", Never, "");
    assert_eq!(suspicion(&ledger, &kept, None), None);
}
