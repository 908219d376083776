use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::{
    config::fixture,
    ipam::{
        owner::AppKind,
        policy::ReleasePolicy::{Immutable, Never, OnDelete},
        workload::{Scale, State},
    },
};

fn record(ip: &str, key: &str, policy: ReleasePolicy, uid: &str) -> Record {
    Record {
        ip: ip.parse().unwrap(),
        key: key.into(),
        policy,
        node: if uid.is_empty() { "" } else { "n1" }.into(),
        uid: uid.into(),
        updated: Timestamp::UNIX_EPOCH,
        reserved: false,
        workload_note: None,
    }
}

fn ledger(records: &[Record]) -> Ledger {
    let mut ledger = Ledger::new(fixture::t());
    for record in records {
        ledger.observe(record.clone());
    }
    ledger
}

fn workload(kind: AppKind, name: &str, state: State) -> Workload {
    Workload {
        app: App {
            kind,
            namespace: "ns1".into(),
            name: name.into(),
        },
        scale: Scale::Yes,
        state,
    }
}

fn exists(replicas: u32) -> State {
    State::Exists {
        replicas: Some(replicas),
        first_ordinal: 0,
    }
}

fn foo() -> AppKind {
    AppKind::Custom("Foo.test.org".parse().unwrap())
}

fn step_of(records: &[Record], departure: Departure, workload: &Workload) -> (Step, Cause) {
    let ledger = ledger(records);
    let left = Left {
        record: &records[0],
        departure,
        workload,
    };
    let mut settled = settle(&ledger, &[left]);
    let settlement = settled.pop().unwrap();
    (settlement.step, settlement.verdict.cause)
}

#[test]
fn what_resync_does_with_vanished_pods() {
    let rest = |key: &str| Step::Rest(key.into());
    let step = |key: &str, policy, uid: &str, app: &Workload| {
        step_of(
            &[record("10.0.70.2", key, policy, uid)],
            Departure::Missing,
            app,
        )
    };
    let gone = workload(AppKind::Deployment, "a", State::Gone);
    let pooled = "pool__pool1_dp_ns1_a_a-x-y";
    assert_eq!(step(pooled, Never, "u", &gone).0, rest("pool__pool1_"));
    assert_eq!(step("dp_ns1_a_a-x-y", Immutable, "u", &gone).0, Step::Free);

    for (kind, prefix) in [(AppKind::StatefulSet, "sts"), (foo(), "foo")] {
        let key = format!("{prefix}_ns1_a_a-0");
        let app = |state| workload(kind.clone(), "a", state);
        for policy in [OnDelete, Immutable] {
            assert_eq!(step(&key, policy, "u", &app(State::Gone)).0, Step::Free);
        }
        assert_eq!(step(&key, Immutable, "u", &app(exists(1))).0, rest(&key));
        assert_eq!(step(&key, Immutable, "u", &app(exists(0))).0, Step::Free);
        for state in [exists(0), exists(1), State::Gone] {
            assert_eq!(step(&key, Never, "u", &app(state.clone())).0, rest(&key));
            // One that is kept already stays as it is.
            assert_eq!(step(&key, Never, "", &app(state)).0, Step::Leave);
        }
        assert_eq!(step(&key, Immutable, "", &app(exists(1))).0, Step::Leave);
        assert_eq!(step(&key, Immutable, "", &app(exists(0))).0, Step::Free);
        let nobody_can_tell = app(State::Unreadable { why: "x".into() });
        assert_eq!(step(&key, Immutable, "u", &nobody_can_tell).0, rest(&key));
    }
}

#[test]
fn an_address_outside_of_the_configuration_is_freed_with_its_holder() {
    let app = workload(AppKind::StatefulSet, "a", exists(1));
    let step = |policy, uid: &str| {
        let records = [record("10.99.0.1", "sts_ns1_a_a-0", policy, uid)];
        step_of(&records, Departure::Missing, &app)
    };
    for policy in [OnDelete, Immutable, Never] {
        let freed = (Step::Free, Cause::OutsideConfiguration);
        assert_eq!(step(policy, "u"), freed);
    }
    // What waits without a pod stays: the configuration may be mended.
    assert_eq!(step(Immutable, ""), (Step::Leave, Cause::StillWanted));
    assert_eq!(step(Never, ""), (Step::Leave, Cause::PolicyNever));
}

#[test]
fn reserved_records_and_strange_keys_are_not_settled() {
    let app = workload(AppKind::StatefulSet, "a", State::Gone);
    let reserved = Record {
        reserved: true,
        ..record("10.0.70.2", "sts_ns1_a_a-0", OnDelete, "u")
    };
    let strange = record("10.0.70.3", "by hand", OnDelete, "u");
    let spare = record("10.0.70.4", "dp_ns1_a_", OnDelete, "");
    let records = [reserved, strange, spare];
    let ledger = ledger(&records);
    let left = records.each_ref().map(|record| Left {
        record,
        departure: Departure::Missing,
        workload: &app,
    });
    assert_eq!(settle(&ledger, &left), []);
}

/// Pods of a Deployment with two addresses each.
fn pairs(pods: &[&str]) -> Vec<Record> {
    let mut records = Vec::new();
    for (number, pod) in pods.iter().enumerate() {
        for half in 0..2 {
            let ip = format!("10.0.70.{}", 2 + 2 * number + half);
            let key = format!("dp_ns1_a_{pod}");
            let uid = if pod.is_empty() { "" } else { "u" };
            records.push(record(&ip, &key, Immutable, uid));
        }
    }
    records
}

fn freed(records: &[Record], replicas: u32) -> usize {
    let ledger = ledger(records);
    let app = workload(AppKind::Deployment, "a", exists(replicas));
    let left: Vec<Left<'_>> = records[..2]
        .iter()
        .map(|record| Left {
            record,
            departure: Departure::Deleted,
            workload: &app,
        })
        .collect();
    let settled = settle(&ledger, &left);
    settled.iter().filter(|it| it.step == Step::Free).count()
}

#[test]
fn a_pod_with_two_addresses_leaves_both_or_none() {
    assert_eq!(freed(&pairs(&["a-1", "a-2", "a-3"]), 3), 0);
    assert_eq!(freed(&pairs(&["a-1", "a-2", "a-3"]), 2), 2);
    // The last one: what it holds tells how many each pod asks for.
    assert_eq!(freed(&pairs(&["a-1", "", ""]), 3), 0);
    assert_eq!(freed(&pairs(&["a-1", "", ""]), 2), 2);
    assert_eq!(freed(&pairs(&["a-1"]), 0), 2);
    // Only as many as are too many.
    let mut odd = pairs(&["a-1", "a-2"]);
    odd.push(record("10.0.70.20", "dp_ns1_a_", Immutable, ""));
    assert_eq!(freed(&odd, 2), 1);
}

#[test]
fn spares_go_when_the_workload_shrinks_or_goes() {
    let count = |records: &[Record], state: State| {
        let app = workload(AppKind::Deployment, "a", state);
        leftovers(&ledger(records), &app).spares.len()
    };
    let some = pairs(&["a-1", "", ""]);
    assert_eq!(count(&some, exists(3)), 0);
    assert_eq!(count(&some, exists(2)), 2);
    assert_eq!(count(&some, exists(1)), 4);
    assert_eq!(count(&some, State::Gone), 4);
    assert_eq!(count(&some, State::Unreadable { why: "x".into() }), 0);
    // With nobody there, nobody can tell how many each pod asks for.
    let all_idle = pairs(&["", "", ""]);
    assert_eq!(count(&all_idle, exists(1)), 0);
    assert_eq!(count(&all_idle, exists(0)), 6);
    assert_eq!(count(&all_idle, State::Gone), 6);

    let never = all_idle.iter().map(|it| Record {
        policy: Never,
        ..it.clone()
    });
    let never: Vec<Record> = never.collect();
    assert_eq!(count(&never, State::Gone), 0);
    let outside = |policy| [record("10.99.0.1", "dp_ns1_a_", policy, "")];
    assert_eq!(count(&outside(Never), State::Gone), 0);
    assert_eq!(count(&outside(Immutable), exists(3)), 0);
    assert_eq!(count(&outside(Immutable), exists(0)), 1);
    assert_eq!(count(&outside(Immutable), State::Gone), 1);
    let reserved = all_idle.iter().map(|it| Record {
        reserved: true,
        ..it.clone()
    });
    let reserved: Vec<Record> = reserved.collect();
    assert_eq!(count(&reserved, State::Gone), 0);
}

#[test]
fn families_are_counted_on_their_own() {
    let both = r#"[
        {"nodeSubnets":["10.0.0.0/16"],"ips":["10.0.70.2~10.0.70.9"],"subnet":"10.0.70.0/24",
         "gateway":"10.0.70.1"},
        {"nodeSubnets":["10.0.0.0/16"],"ips":["fd00::2~fd00::9"],"subnet":"fd00::/64",
         "gateway":"fd00::1"}]"#;
    let mut ledger = Ledger::new(fixture::config(both));
    let key = HolderKey::from("dp_ns1_a_");
    for (ip, key, uid) in [
        ("10.0.70.2", "dp_ns1_a_a-1", "u"),
        ("fd00::2", "dp_ns1_a_a-1", "u"),
        ("10.0.70.3", "dp_ns1_a_", ""),
        ("10.0.70.4", "dp_ns1_a_", ""),
        ("fd00::3", "dp_ns1_a_", ""),
    ] {
        ledger.observe(record(ip, key, Immutable, uid));
    }
    let of = |family| standing(&ledger, &key, family);
    assert_eq!(of(Family::V4).records, 3);
    assert_eq!(of(Family::V6).records, 2);
    assert_eq!(of(Family::V4).per_pod, NonZeroU32::MIN);
    let app = workload(AppKind::Deployment, "a", exists(2));
    let spares = leftovers(&ledger, &app).spares;
    assert_eq!(spares.len(), 1);
    assert_eq!(spares[0].0.ip.to_string(), "10.0.70.3");
}

#[test]
fn promised_spares_are_left_to_the_pod() {
    let records = pairs(&["", ""]);
    let mut ledger = ledger(&records);
    ledger.promise(
        "new",
        crate::ipam::ledger::Promise {
            group: "dp_ns1_a_".into(),
            namespace: "ns1".into(),
            app_prefix: "dp_ns1_a_".into(),
            places: 1,
            addresses: [records[1].ip].into(),
            until: Timestamp::MAX,
        },
    );
    let app = workload(AppKind::Deployment, "a", State::Gone);
    let spares = leftovers(&ledger, &app).spares;
    assert_eq!(spares.len(), 3);
    assert!(spares.iter().all(|(record, _)| *record != records[1]));
}

#[test]
fn kept_addresses_that_are_not_wanted_name_their_pods() {
    let pods = |policy, state: State| {
        let records: Vec<Record> = (0..4)
            .map(|number| {
                let ip = format!("10.0.70.{}", 2 + number);
                let uid = if number == 3 { "u" } else { "" };
                record(&ip, &format!("sts_ns1_a_a-{number}"), policy, uid)
            })
            .collect();
        let app = workload(AppKind::StatefulSet, "a", state);
        let found = leftovers(&ledger(&records), &app);
        assert_eq!(found.spares, []);
        found.pods.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(pods(Immutable, exists(4)), "");
    assert_eq!(pods(Immutable, exists(1)), "a-1 a-2");
    assert_eq!(pods(Immutable, State::Gone), "a-0 a-1 a-2");
    assert_eq!(pods(Never, State::Gone), "");
}

#[test]
fn kinds_of_one_name_are_told_apart_by_their_notes() {
    let noted = |ip, note: Option<&str>| Record {
        workload_note: note.map(str::to_owned),
        ..record(ip, "sts_ns1_a_a-0", Immutable, "")
    };
    let found = |note| {
        let app = workload(AppKind::StatefulSet, "a", State::Gone);
        leftovers(&ledger(&[noted("10.0.70.2", note)]), &app)
            .pods
            .len()
    };
    assert_eq!(found(None), 1);
    assert_eq!(found(Some("StatefulSet.apps.kruise.io")), 0);
}

proptest! {
    /// Nobody who runs loses an address by what a workload wants, and what is left
    /// over is never below what is wanted.
    #[test]
    fn leftovers_leave_enough(
        held in 0..6usize,
        spare in 0..8usize,
        replicas in 0..8u32,
    ) {
        let mut records = Vec::new();
        for number in 0..held + spare {
            let ip = format!("10.0.70.{}", 2 + number);
            let (key, uid) = if number < held {
                (format!("dp_ns1_a_a-{number}"), "u")
            } else {
                ("dp_ns1_a_".to_owned(), "")
            };
            records.push(record(&ip, &key, Immutable, uid));
        }
        let app = workload(AppKind::Deployment, "a", exists(replicas));
        let found = leftovers(&ledger(&records), &app);
        prop_assert!(found.spares.iter().all(|(record, _)| record.is_idle()));
        let rest = held + spare - found.spares.len();
        prop_assert!(rest >= held);
        let wanted = usize::try_from(replicas).unwrap();
        if held > 0 || wanted == 0 {
            prop_assert_eq!(rest, (held + spare).min(held.max(wanted)));
        } else {
            prop_assert_eq!(rest, spare);
        }
    }
}
