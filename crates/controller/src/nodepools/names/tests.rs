use std::sync::Arc;

use super::*;
use crate::nodepools::fakes::FakeDns;

fn keeper(empties: bool) -> Keeper {
    let plan = DnsPlan {
        provider: "fake".into(),
        dns: Arc::new(FakeDns::default()),
        zone: "example.com".into(),
        name: "www".into(),
        ttl: 60,
        empties,
    };
    Keeper::new(plan, "me".into(), Duration::from_secs(1))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn ips(last: &[u8]) -> BTreeSet<IpAddr> {
    last.iter().map(|it| [10, 0, 0, *it].into()).collect()
}

#[test]
fn nothing_is_written_before_the_addresses_are_known_and_never_nothing() {
    let mut keeper = keeper(false);
    keeper.want(None, at(0));
    assert_eq!((keeper.poll(at(9)), keeper.wake()), (None, None));
    keeper.want(Some(&ips(&[])), at(9));
    assert_eq!(keeper.poll(at(99)), None);
    assert_eq!(keeper.standing(), Standing::Nothing);
    keeper.want(Some(&ips(&[1])), at(100));
    assert_eq!(keeper.poll(at(101)).unwrap().addresses, ips(&[1]));
}

#[test]
fn a_name_for_which_no_address_is_left_says_so_and_is_still_looked_after() {
    let mut keeper = keeper(false);
    keeper.want(Some(&ips(&[1])), at(0));
    let set = keeper.poll(at(1)).unwrap();
    keeper.want(Some(&ips(&[])), at(1));
    assert_eq!(keeper.standing(), Standing::Waiting);
    keeper.ended(set, Ok(()), at(1));
    assert_eq!(keeper.standing(), Standing::Kept);
    keeper.want(None, at(2));
    assert_eq!(keeper.standing(), Standing::Kept, "nothing is known anew");
    let again = keeper.poll(at(601)).expect("it may have been changed");
    assert_eq!(again.addresses, ips(&[1]));
    keeper.ended(again, Ok(()), at(601));
    keeper.want(Some(&ips(&[1])), at(602));
    assert_eq!(keeper.standing(), Standing::Current(1));
    let mut next = self::keeper(false);
    next.has_said(&["10.0.0.1".to_owned()]);
    assert_eq!(next.standing(), Standing::Nothing, "it has not looked yet");
    next.want(Some(&ips(&[])), at(0));
    assert_eq!(next.standing(), Standing::Kept);
}

#[test]
fn whoever_asks_for_an_empty_name_gets_one() {
    let mut keeper = keeper(true);
    keeper.want(None, at(0));
    assert_eq!(keeper.poll(at(9)), None);
    keeper.want(Some(&ips(&[])), at(9));
    assert_eq!(keeper.poll(at(10)).unwrap().addresses, ips(&[]));
}

#[test]
fn a_family_belongs_to_it_as_long_as_it_has_or_had_addresses_of_it() {
    let mut keeper = keeper(false);
    keeper.about([Family::V4].into());
    keeper.want(Some(&ips(&[1])), at(0));
    let set = keeper.poll(at(1)).unwrap();
    assert!(set.keeps(Family::V4) && !set.keeps(Family::V6));
    keeper.ended(set, Ok(()), at(1));
    // It had addresses of both, and has been given one of IPv4 only since.
    keeper.has_said(&["2001:db8::1".to_owned()]);
    keeper.want(Some(&ips(&[2])), at(2));
    let set = keeper.poll(at(3)).unwrap();
    assert!(set.keeps(Family::V6));
    keeper.ended(set, Ok(()), at(3));
    assert_eq!(keeper.standing(), Standing::Current(1));
    assert_eq!(keeper.poll(at(9)), None);
    keeper.want(Some(&ips(&[3])), at(10));
    assert!(!keeper.poll(at(11)).unwrap().keeps(Family::V6));
}

#[test]
fn a_name_that_leaves_is_removed_once_and_says_nothing_more() {
    let mut keeper = keeper(false);
    keeper.about([Family::V4].into());
    keeper.has_said(&["2001:db8::1".to_owned()]);
    keeper.want(Some(&ips(&[1])), at(0));
    let set = keeper.poll(at(1)).unwrap();
    assert_eq!(keeper.leave(at(1)), None, "it is being written");
    keeper.ended(set, Ok(()), at(1));
    keeper.want(Some(&ips(&[2])), at(2));
    assert_eq!(keeper.poll(at(9)), None);
    let set = keeper.leave(at(9)).unwrap();
    assert!(set.addresses.is_empty() && set.keeps(Family::V4));
    assert_eq!(keeper.leave(at(9)), None, "it is under way");
    keeper.left(Err(Refusal::new(Class::Unavailable, "no")), at(9));
    assert!(matches!(keeper.standing(), Standing::Failed(_)));
    assert_eq!((keeper.leave(at(9)), keeper.wake()), (None, Some(at(10))));
    assert!(keeper.leave(at(10)).is_some());
    keeper.left(Ok(()), at(10));
    assert!(keeper.is_gone());
    assert_eq!((keeper.leave(at(99)), keeper.wake()), (None, None));
    // What is not its own is not removed, and not waited for.
    for class in [Class::HeldElsewhere, Class::ZoneUnknown] {
        let mut keeper = self::keeper(false);
        assert!(keeper.leave(at(0)).is_some());
        keeper.left(Err(Refusal::new(class, "not yours")), at(0));
        assert!(keeper.is_gone());
    }
}

#[test]
fn changes_that_come_together_are_one_write() {
    let mut keeper = keeper(false);
    for last in 1..4 {
        keeper.want(Some(&ips(&[last])), at(0));
    }
    assert_eq!(keeper.poll(at(0)), None);
    assert_eq!(keeper.wake(), Some(at(1)));
    let set = keeper.poll(at(1)).unwrap();
    assert_eq!(set.addresses, ips(&[3]));
    assert_eq!((keeper.poll(at(5)), keeper.wake()), (None, None));
    keeper.ended(set, Ok(()), at(5));
    assert_eq!(keeper.standing(), Standing::Current(1));
    keeper.want(Some(&ips(&[3])), at(6));
    assert_eq!(keeper.poll(at(604)), None);
    // Somebody else may have changed it.
    assert!(keeper.poll(at(605)).is_some());
}

#[test]
fn pauses_grow_with_failures_also_when_something_changes() {
    let mut keeper = keeper(false);
    keeper.want(Some(&ips(&[1])), at(0));
    let mut now = at(1);
    let mut pauses = Vec::new();
    for last in 0..4 {
        let set = keeper.poll(now).unwrap();
        keeper.ended(set, Err(Refusal::new(Class::Unavailable, "no")), now);
        keeper.want(Some(&ips(&[last])), at(1));
        let wake = keeper.wake().unwrap();
        pauses.push(wake.as_second() - now.as_second());
        now = wake;
    }
    assert_eq!(pauses, [1, 1, 5, 5]);
    assert!(matches!(keeper.standing(), Standing::Failed(_)));
    let set = keeper.poll(now).unwrap();
    keeper.ended(set, Ok(()), now);
    assert_eq!(keeper.standing(), Standing::Current(1));
}
