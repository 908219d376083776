use std::path::PathBuf;

use floe_core::announce::Mac;

use super::*;

fn id(name: &str) -> VipId {
    VipId {
        namespace: "shop".into(),
        name: name.into(),
    }
}

fn lent(name: &str, netns: PathBuf, until: Duration) -> Lent {
    let room = Room {
        netns,
        link: 2,
        links: Links::new(),
        mac: Mac([2, 0, 0, 0, 0, 1]),
        lower: None,
        nets: Vec::new(),
    };
    Lent {
        loan: Loan {
            id: id(name),
            room,
            ip: IpAddr::from([10, 9, 0, 100]),
        },
        until,
        over: Some(Arc::default()),
    }
}

/// One that is never changed: the host's own.
fn broken() -> PathBuf {
    "/proc/self/ns/net".into()
}

#[test]
fn what_cannot_be_taken_back_concerns_its_object_only_and_only_for_its_time() {
    let path = broken();
    let later = boottime::now() + Duration::from_mins(1);
    let gone = PathBuf::from("/proc/self/ns/gone");
    let mut loans = Loans {
        lent: vec![
            lent("stuck", path.clone(), later),
            lent("gone", gone, later),
            lent("over", path, boottime::now()),
        ],
        ..Loans::default()
    };
    for _ in 0..2 {
        let failures = loans.end_others(&[]);
        let ids: Vec<VipId> = failures.into_keys().collect();
        assert_eq!(ids, [id("stuck")]);
    }
    let left: Vec<&VipId> = loans.lent.iter().map(|it| &it.loan.id).collect();
    assert_eq!(left, [&id("stuck")]);
    loans.lent[0].until = boottime::now();
    assert!(loans.end_others(&[]).is_empty());
    assert!(loans.lent.is_empty());
}

#[test]
fn a_pod_whose_namespace_cannot_be_guarded_gets_nothing() {
    let wanted = lent("stuck", broken(), Duration::ZERO).loan;
    let deadline = Deadline::default();
    deadline.set(boottime::now() + Duration::from_mins(1));
    let guarded = Guarded {
        ids: BTreeSet::from([id("stuck"), id("prepared")]),
        ..Guarded::default()
    };
    let guarded = BTreeMap::from([(broken(), guarded)]);
    let mut loans = Loans::default();
    let failures = loans.lend(&[&wanted], &guarded, &deadline);
    let ids: Vec<VipId> = failures.into_keys().collect();
    assert_eq!(ids, [id("prepared"), id("stuck")]);
    assert!(loans.end_others(&[]).is_empty());
}

#[test]
fn what_a_pod_may_have_got_although_lending_failed_is_taken_back_later() {
    let wanted = lent("stuck", broken(), Duration::ZERO).loan;
    let mut loans = Loans::default();
    let failed = loans.lend_one(&wanted, Duration::from_mins(1), &Deadline::default());
    assert!(failed.is_err());
    let ids: Vec<VipId> = loans.end_others(&[]).into_keys().collect();
    assert_eq!(ids, [id("stuck")]);
}
