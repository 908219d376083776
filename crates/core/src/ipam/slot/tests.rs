use proptest::prelude::*;

use super::*;
use crate::ipam::owner::App;

use Fate::{Free, Keep, Spare as Spared};
use ReleasePolicy::{Immutable, Never, OnDelete};

const ONE: NonZeroU32 = NonZeroU32::MIN;

fn workload(kind: AppKind, scale: Scale, state: State) -> Workload {
    Workload {
        app: App {
            kind,
            namespace: "ns1".into(),
            name: "app".into(),
        },
        scale,
        state,
    }
}

fn exists(replicas: u32) -> State {
    State::Exists {
        replicas: Some(replicas),
        first_ordinal: 0,
    }
}

fn unreadable() -> State {
    State::Unreadable {
        why: "timeout".into(),
    }
}

fn foo() -> AppKind {
    AppKind::Custom("Foo.test.org".parse().unwrap())
}

fn sts(state: State) -> Workload {
    workload(AppKind::StatefulSet, Scale::No, state)
}

fn scalable(state: State) -> Workload {
    workload(foo(), Scale::Yes, state)
}

fn not_scalable(state: State) -> Workload {
    workload(foo(), Scale::No, state)
}

fn deployment(state: State) -> Workload {
    workload(AppKind::Deployment, Scale::No, state)
}

fn verdict(workload: &Workload, policy: ReleasePolicy, pod: &str, records: usize) -> Verdict {
    judge(&Slot {
        departure: Departure::Deleted,
        policy,
        pooled: false,
        workload,
        pod,
        group: Group {
            records,
            per_pod: ONE,
        },
    })
}

fn fate(workload: &Workload, policy: ReleasePolicy, pod: &str) -> Fate {
    verdict(workload, policy, pod, 1).fate
}

fn pooled(workload: &Workload, policy: ReleasePolicy, pod: &str) -> Fate {
    judge(&Slot {
        departure: Departure::Missing,
        policy,
        pooled: true,
        workload,
        pod,
        group: Group {
            records: 1,
            per_pod: ONE,
        },
    })
    .fate
}

#[test]
fn release_matrix_after_bind_and_unbind() {
    for app in [sts, scalable] {
        assert_eq!(fate(&app(exists(1)), OnDelete, "app-0"), Free);
        assert_eq!(fate(&app(exists(1)), Immutable, "app-0"), Keep);
        assert_eq!(fate(&app(exists(0)), Immutable, "app-0"), Free);
        assert_eq!(fate(&app(exists(0)), Never, "app-0"), Keep);
        assert_eq!(fate(&app(exists(1)), Never, "app-0"), Keep);
    }
    let app = not_scalable(exists(1));
    assert_eq!(fate(&app, OnDelete, "app-0"), Free);
    assert_eq!(fate(&app, Immutable, "app-0"), Free);
    assert_eq!(fate(&app, Never, "app-0"), Keep);
    assert_eq!(fate(&app, Never, "app-xb1"), Free);

    let pod = "app-5d4f-x2k9q";
    assert_eq!(fate(&deployment(exists(1)), OnDelete, pod), Free);
    assert_eq!(fate(&deployment(exists(1)), Immutable, pod), Spared);
    assert_eq!(fate(&deployment(exists(0)), Immutable, pod), Free);
    for replicas in [0, 1] {
        assert_eq!(fate(&deployment(exists(replicas)), Never, pod), Spared);
        // The pool overrules whatever policy the record has.
        for policy in [OnDelete, Immutable, Never] {
            assert_eq!(pooled(&deployment(exists(replicas)), policy, pod), Spared);
        }
    }
}

#[test]
fn resync_of_vanished_pods_without_apps() {
    let app = deployment(State::Gone);
    assert_eq!(pooled(&app, Never, "app-1-2"), Spared);
    assert_eq!(fate(&app, Immutable, "app-1-2"), Free);
    assert_eq!(fate(&app, OnDelete, "app-1-2"), Free);
    assert_eq!(fate(&app, Never, "app-1-2"), Spared);
}

#[test]
fn resync_of_numbered_pods() {
    let found = |uid| Sighting::Found {
        uid,
        finished: false,
    };
    assert_eq!(Departure::seen("u1", found("u1")), None);
    assert_eq!(Departure::seen("", found("u1")), None);
    assert_eq!(Departure::seen("u1", Sighting::Unreadable), None);
    for app in [sts, scalable] {
        // (policy, what is left of the app, fate)
        let table = [
            (OnDelete, State::Gone, Free),
            (Immutable, State::Gone, Free),
            (OnDelete, exists(1), Free),
            (Immutable, exists(1), Keep),
            (Immutable, exists(0), Free),
            (Never, exists(0), Keep),
            (Never, exists(1), Keep),
            (Never, State::Gone, Keep),
        ];
        for (policy, state, wanted) in table {
            let departure = Departure::seen("u1", Sighting::NotFound).unwrap();
            let workload = app(state);
            let verdict = judge(&Slot {
                departure,
                policy,
                pooled: false,
                workload: &workload,
                pod: "app-0",
                group: Group {
                    records: 1,
                    per_pod: ONE,
                },
            });
            assert_eq!(verdict.departure, Departure::Missing);
            assert_eq!(verdict.fate, wanted, "{policy} {:?}", workload.state);
        }
        // Failed and Succeeded pods are both finished.
        let finished = Sighting::Found {
            uid: "u1",
            finished: true,
        };
        assert_eq!(Departure::seen("u1", finished), Some(Departure::Finished));
        assert_eq!(fate(&app(exists(1)), OnDelete, "app-0"), Free);
    }
    // Another pod of the same name: the key stays, node and uid are cleared.
    let departure = Departure::seen("u1", found("u2"));
    assert_eq!(departure, Some(Departure::Replaced));
    assert_eq!(fate(&sts(exists(1)), Immutable, "app-0"), Keep);
}

#[test]
fn every_row_of_the_event_table() {
    let rollout = |scale, state| {
        let kind = AppKind::ReplicaSetOf("Rollout.argoproj.io".parse().unwrap());
        workload(kind, scale, state)
    };
    let bare = |kind| workload(kind, Scale::Yes, exists(3));
    // workload, policy, pod, records of the group, fate, cause
    #[rustfmt::skip]
    let table = [
        (deployment(exists(3)), Immutable, "app-x-y", 3, Spared, Cause::StillWanted),
        (deployment(exists(2)), Immutable, "app-x-y", 3, Free, Cause::GroupScaledDown),
        (deployment(exists(0)), Immutable, "app-x-y", 0, Free, Cause::GroupScaledDown),
        (deployment(State::Gone), Immutable, "app-x-y", 1, Free, Cause::WorkloadGone),
        (deployment(unreadable()), Immutable, "app-x-y", 9, Spared, Cause::WorkloadUnreadable),
        (deployment(exists(2)), Never, "app-x-y", 9, Spared, Cause::PolicyNever),
        (deployment(exists(2)), OnDelete, "app-x-y", 1, Free, Cause::PolicyOnDelete),
        (workload(AppKind::ReplicaSet, Scale::No, exists(2)), Immutable, "app-x", 2, Spared, Cause::StillWanted),
        (workload(AppKind::ReplicaSet, Scale::No, exists(1)), Immutable, "app-x", 2, Free, Cause::GroupScaledDown),
        (rollout(Scale::Yes, exists(2)), Immutable, "app-x", 2, Spared, Cause::StillWanted),
        (rollout(Scale::No, exists(2)), Immutable, "app-x", 2, Free, Cause::NoReplicas),
        (rollout(Scale::No, exists(2)), Never, "app-x", 2, Spared, Cause::PolicyNever),
        (rollout(Scale::Unreadable { why: "x".into() }, exists(1)), Immutable, "app-x", 2, Spared, Cause::WorkloadUnreadable),
        (sts(exists(3)), Immutable, "app-2", 9, Keep, Cause::StillWanted),
        (sts(exists(3)), Immutable, "app-3", 1, Free, Cause::ScaledDown),
        (sts(exists(3)), Immutable, "app-x", 1, Free, Cause::PodNameWithoutIndex),
        (sts(exists(0)), Immutable, "app-0", 1, Free, Cause::ScaledDown),
        (sts(State::Gone), Immutable, "app-0", 1, Free, Cause::WorkloadGone),
        (sts(unreadable()), Immutable, "app-9", 1, Keep, Cause::WorkloadUnreadable),
        (sts(exists(0)), Never, "app-9", 1, Keep, Cause::PolicyNever),
        (scalable(exists(3)), Immutable, "app-2", 1, Keep, Cause::StillWanted),
        (scalable(exists(3)), Immutable, "app-3", 1, Free, Cause::ScaledDown),
        // Unlike in galaxy, whose key-wide index has no number here.
        (scalable(exists(3)), Immutable, "123", 1, Free, Cause::ScaledDown),
        (scalable(exists(3)), Immutable, "2", 1, Keep, Cause::StillWanted),
        (scalable(exists(3)), Immutable, "app-x", 1, Free, Cause::PodNameWithoutIndex),
        (scalable(State::Gone), Immutable, "app-0", 1, Free, Cause::WorkloadGone),
        (not_scalable(exists(3)), Immutable, "app-0", 1, Free, Cause::NoReplicas),
        (not_scalable(State::Gone), Never, "app-0", 1, Keep, Cause::PolicyNever),
        (not_scalable(State::Gone), Never, "app-x", 1, Free, Cause::PodNameWithoutIndex),
        (bare(AppKind::Bare), Immutable, "pod-0", 1, Free, Cause::NoReplicas),
        (bare(AppKind::Bare), Never, "pod-0", 1, Keep, Cause::PolicyNever),
        (bare(AppKind::Bare), Never, "pod", 1, Free, Cause::PodNameWithoutIndex),
        (bare(AppKind::Job), Never, "job-x", 1, Free, Cause::PodNameWithoutIndex),
        (bare(AppKind::DaemonSet), OnDelete, "ds-0", 1, Free, Cause::PolicyOnDelete),
    ];
    for (workload, policy, pod, records, fate, cause) in table {
        let got = verdict(&workload, policy, pod, records);
        assert_eq!(
            (got.fate, got.cause),
            (fate, cause),
            "{workload:?} {policy} {pod} {records}"
        );
    }
}

#[test]
fn a_stateful_set_may_count_from_elsewhere() {
    let state = State::Exists {
        replicas: Some(3),
        first_ordinal: 5,
    };
    let table = [
        ("app-4", Free),
        ("app-5", Keep),
        ("app-7", Keep),
        ("app-8", Free),
    ];
    for (pod, wanted) in table {
        assert_eq!(fate(&sts(state.clone()), Immutable, pod), wanted, "{pod}");
    }
    // Custom workloads count from zero.
    assert_eq!(fate(&scalable(state.clone()), Immutable, "app-2"), Keep);
    assert_eq!(fate(&scalable(state), Immutable, "app-5"), Free);
    // The end of the range does not wrap.
    let edge = State::Exists {
        replicas: Some(u32::MAX),
        first_ordinal: u32::MAX,
    };
    assert_eq!(fate(&sts(edge), Immutable, "app-4294967300"), Keep);
}

#[test]
fn a_missing_replicas_field_keeps_the_first_pod() {
    let state = || State::Exists {
        replicas: None,
        first_ordinal: 0,
    };
    for app in [sts, scalable] {
        assert_eq!(fate(&app(state()), Immutable, "app-0"), Keep);
        assert_eq!(fate(&app(state()), Immutable, "app-1"), Free);
    }
    assert_eq!(
        verdict(&deployment(state()), Immutable, "a-b", 1).fate,
        Spared
    );
    assert_eq!(
        verdict(&deployment(state()), Immutable, "a-b", 2).fate,
        Free
    );
}

#[test]
fn pods_with_several_addresses_count_by_address() {
    let workload = deployment(exists(2));
    let fate = |records| {
        let group = Group {
            records,
            per_pod: NonZeroU32::new(2).unwrap(),
        };
        judge(&Slot {
            departure: Departure::Deleted,
            policy: Immutable,
            pooled: false,
            workload: &workload,
            pod: "a-b",
            group,
        })
        .fate
    };
    assert_eq!(fate(4), Spared);
    assert_eq!(fate(5), Free);
}

fn spare(last: u8, second: i64, policy: ReleasePolicy) -> Spare {
    Spare {
        ip: IpAddr::from([10, 0, 0, last]),
        policy,
        updated: Timestamp::from_second(second).unwrap(),
    }
}

fn freed(workload: &Workload, records: usize, spares: &[Spare]) -> Vec<(u8, Cause)> {
    let group = Group {
        records,
        per_pod: ONE,
    };
    surplus(workload, false, group, spares)
        .into_iter()
        .map(|(ip, cause)| match ip {
            IpAddr::V4(ip) => (ip.octets()[3], cause),
            IpAddr::V6(_) => unreachable!("all spares of these tests are IPv4"),
        })
        .collect()
}

#[test]
fn spares_of_vanished_or_shrunk_immutable_deployments_are_freed() {
    let spares = [
        spare(1, 30, Immutable),
        spare(2, 10, Immutable),
        spare(3, 10, Immutable),
        spare(4, 5, Never),
    ];
    let gone = |last| (last, Cause::WorkloadGone);
    let down = |last| (last, Cause::GroupScaledDown);
    // workload, records of the group, freed
    let table = [
        (deployment(State::Gone), 4, vec![gone(2), gone(3), gone(1)]),
        (deployment(exists(0)), 4, vec![down(2), down(3), down(1)]),
        (deployment(exists(6)), 6, vec![]),
        (deployment(exists(4)), 6, vec![down(2), down(3)]),
        (deployment(exists(5)), 6, vec![down(2)]),
        // Those that may never be freed count, but stay.
        (deployment(exists(1)), 6, vec![down(2), down(3), down(1)]),
        (deployment(unreadable()), 9, vec![]),
        (sts(State::Gone), 4, vec![]),
    ];
    for (workload, records, wanted) in table {
        let got = freed(&workload, records, &spares);
        assert_eq!(got, wanted, "{workload:?} {records}");
    }
    let group = Group {
        records: 4,
        per_pod: ONE,
    };
    assert_eq!(surplus(&deployment(State::Gone), true, group, &spares), []);
}

#[test]
fn reasons_are_stable_and_galaxys_words_are_beside_them() {
    let table = [
        (
            Cause::PolicyOnDelete,
            "ReleasePolicyOnDelete",
            Some("deletedAndIPMutablePod"),
        ),
        (
            Cause::WorkloadGone,
            "WorkloadGone",
            Some("deletedAndParentAppNotExistPod"),
        ),
        (
            Cause::ScaledDown,
            "WorkloadScaledDown",
            Some("deletedAndScaledDownAppPod"),
        ),
        (
            Cause::GroupScaledDown,
            "GroupScaledDown",
            Some("deletedAndScaledDownDpPod"),
        ),
        (Cause::PolicyNever, "ReleasePolicyNever", None),
    ];
    for (cause, reason, galaxy) in table {
        assert_eq!((cause.reason(), cause.galaxy_text()), (reason, galaxy));
    }
    let verdict = verdict(&sts(State::Gone), Immutable, "app-0", 1);
    assert_eq!(
        verdict.to_string(),
        "pod deleted, address freed: WorkloadGone"
    );
}

proptest! {
    /// Scaling down and losing pods one by one ends within the replicas, and
    /// never frees what is still wanted.
    #[test]
    fn a_shrinking_group_ends_within_its_replicas(
        pods in 0usize..12,
        waiting in 0usize..12,
        replicas in 0u32..12,
    ) {
        let workload = deployment(exists(replicas));
        let wanted = usize::try_from(replicas).unwrap();
        let (mut held, mut spares) = (pods, waiting);
        while held > wanted {
            held -= 1;
            match verdict(&workload, Immutable, "a-b", held + 1 + spares).fate {
                Free => {}
                Spared => spares += 1,
                Keep => prop_assert!(false, "pods of a Deployment have no place of their own"),
            }
        }
        let list: Vec<Spare> = (0..spares)
            .map(|n| spare(u8::try_from(n).unwrap(), 0, Immutable))
            .collect();
        let before = held + spares;
        let after = before - freed(&workload, before, &list).len();
        prop_assert_eq!(after, before.min(wanted.max(held)));
    }

    #[test]
    fn never_and_unreadable_never_free_a_numbered_place(
        pod in "[a-z]{1,4}-[0-9]{1,4}",
        replicas in proptest::option::of(0u32..9),
    ) {
        let state = replicas.map_or(State::Gone, exists);
        for app in [sts, scalable, not_scalable] {
            prop_assert_eq!(fate(&app(state.clone()), Never, &pod), Keep);
        }
        for app in [sts, scalable] {
            prop_assert_eq!(fate(&app(unreadable()), Immutable, &pod), Keep);
        }
    }
}
