use super::*;
use crate::ipam::policy::ReleasePolicy::{self, Immutable, Never, OnDelete};

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
    let pod = pod.map(|(uid, finished)| Cached { uid, finished });
    match suspicion(record, pod) {
        None => "-".into(),
        Some(Suspicion::Pod { namespace, pod }) => format!("pod {namespace}/{pod}"),
        Some(Suspicion::App(app)) => format!("app {}", app.name),
    }
}

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
        (sts, OnDelete, "u@n", alive, "-"),
        (sts, OnDelete, "u@n", finished, "pod ns1/a-0"),
        (sts, OnDelete, "u@n", None, "pod ns1/a-0"),
        (sts, Never, "u@n", other, "pod ns1/a-0"),
        (dp, Immutable, "u@n", alive, "-"),
        (dp, Immutable, "u@n", None, "pod ns1/a-x-y"),
        (pooled, Never, "u@n", None, "pod ns1/a-x-y"),
        // Half of a bind, and records of galaxy without uid.
        (sts, Never, "u@", None, "pod ns1/a-0"),
        (sts, Never, "@n", other, "-"),
        (sts, Never, "@n", None, "pod ns1/a-0"),
        // Kept.
        (sts, Never, "", None, "-"),
        (sts, Never, "", alive, "-"),
        (sts, Immutable, "", None, "app a"),
        (sts, Immutable, "", alive, "-"),
        (sts, OnDelete, "", None, "pod ns1/a-0"),
        ("pool__p_sts_ns1_a_a-0", Never, "", None, "-"),
        (dp, Never, "", None, "pod ns1/a-x-y"),
        // Spares.
        ("dp_ns1_a_", Immutable, "", None, "app a"),
        ("dp_ns1_a_", Never, "", None, "-"),
        ("pool__p_", Never, "", None, "-"),
        ("pool__p_dp_ns1_a_", Immutable, "", None, "-"),
        ("sts_ns1_a_", Immutable, "", None, "-"),
        // Nonsense.
        ("", OnDelete, "u@n", None, "-"),
        ("by hand", OnDelete, "", None, "-"),
        ("pool__a_b_c", OnDelete, "u@n", None, "-"),
    ];
    for (key, policy, place, pod, wanted) in table {
        let case = format!("{key} {policy} {place:?} {pod:?}");
        let record = record("10.0.70.2", key, policy, place);
        assert_eq!(of(&record, pod), wanted, "{case}");
        let reserved = Record {
            reserved: true,
            ..record
        };
        assert_eq!(of(&reserved, pod), "-", "{case} reserved");
    }
}
