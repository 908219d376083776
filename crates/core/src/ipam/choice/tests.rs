use proptest::prelude::*;

use super::*;
use crate::config::fixture;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn choices(class: fn(IpAddr) -> Choice, lasts: &[u8]) -> Vec<Choice> {
    lasts.iter().map(|last| class(ip(*last))).collect()
}

#[test]
fn annotations_make_wishes() {
    let list = |args: Option<&str>, families: Option<&str>, config: &str| {
        let args = Args::parse(args).unwrap();
        let families = Families::from_annotation(families).unwrap();
        Wish::list(&args, families, &fixture::config(config))
    };
    let ranges = r#"{"request_ip_range":[["10.0.0.2~10.0.0.3","10.0.0.9"],["fd00::1"]]}"#;
    let only_v6 = r#"[{"nodeSubnets":["10.0.0.0/8"],"ips":["fd00::2"],"subnet":"fd00::/64",
        "gateway":"fd00::1"}]"#;
    let lists = list(Some(ranges), Some("v6"), fixture::T);
    assert_eq!(lists.len(), 2);
    assert!(lists[0].accepts(ip(9)) && !lists[0].accepts(ip(4)));
    assert!(lists[1].accepts("fd00::1".parse().unwrap()));
    let both = [Wish::Any(Family::V6), Wish::Any(Family::V4)];
    assert_eq!(list(None, Some("v6,v4"), fixture::T), both);
    assert_eq!(list(None, None, fixture::T), [Wish::Any(Family::V4)]);
    assert_eq!(list(None, None, "[]"), [Wish::Any(Family::V4)]);
    assert_eq!(list(None, None, only_v6), [Wish::Any(Family::V6)]);
}

#[test]
fn without_overlap_each_wish_gets_its_first() {
    let lists: [&[u8]; 3] = [&[5, 6], &[2, 3], &[9]];
    let mut matching = Matching::new(3);
    matching.add(|wish| choices(Choice::New, lists[wish]));
    let chosen = matching.finish().unwrap();
    assert_eq!(chosen, choices(Choice::New, &[5, 2, 9]));
}

#[test]
fn an_earlier_wish_moves_only_when_it_must() {
    let lists: [&[u8]; 3] = [&[2, 3], &[3, 4], &[2]];
    let mut matching = Matching::new(3);
    matching.add(|wish| choices(Choice::New, lists[wish]));
    // The third needs 2; so the first gets 3, and the second 4.
    let chosen = matching.finish().unwrap();
    assert_eq!(chosen, choices(Choice::New, &[3, 4, 2]));
}

#[test]
fn a_better_class_stays_in_use() {
    let mut matching = Matching::new(2);
    matching.add(|wish| choices(Choice::Own, [&[2], &[2]][wish]));
    assert_eq!(matching.filled(), 1);
    assert!(!matching.is_complete());
    // Only the first can have 3: the own address passes to the second.
    matching.add(|wish| choices(Choice::New, [&[3][..], &[]][wish]));
    let chosen = matching.finish().unwrap();
    assert_eq!(chosen, [Choice::New(ip(3)), Choice::Own(ip(2))]);
}

#[test]
fn what_cannot_be_filled_gives_nothing() {
    let mut matching = Matching::new(2);
    matching.add(|_| choices(Choice::New, &[2]));
    assert_eq!(matching.filled(), 1);
    assert_eq!(matching.finish(), None);
    assert_eq!(Matching::new(0).finish(), Some(Vec::new()));
}

/// The most own addresses, and then the most addresses, that a choice can have.
fn best(own: &[Vec<u8>], new: &[Vec<u8>], taken: &mut Vec<u8>) -> (usize, usize) {
    let (Some((first_own, own)), Some((first_new, new))) = (own.split_first(), new.split_first())
    else {
        return (0, 0);
    };
    let mut most = best(own, new, taken);
    let candidates = first_own.iter().map(|last| (last, 1));
    for (last, is_own) in candidates.chain(first_new.iter().map(|last| (last, 0))) {
        if taken.contains(last) {
            continue;
        }
        taken.push(*last);
        let rest = best(own, new, taken);
        taken.pop();
        most = most.max((rest.0 + is_own, rest.1 + 1));
    }
    most
}

proptest! {
    #[test]
    fn the_matching_is_as_good_as_any(
        lists in prop::collection::vec(
            (prop::collection::vec(0u8..5, 0..3), prop::collection::vec(10u8..15, 0..3)),
            0..5,
        ),
    ) {
        let (own, new): (Vec<_>, Vec<_>) = lists.into_iter().unzip();
        let mut matching = Matching::new(own.len());
        matching.add(|wish| choices(Choice::Own, &own[wish]));
        let filled = matching.filled();
        matching.add(|wish| choices(Choice::New, &new[wish]));
        let filling: Vec<Option<Choice>> = matching.seats.iter().map(|seat| seat.chosen).collect();
        let chosen: Vec<Choice> = filling.iter().flatten().copied().collect();
        for (wish, choice) in filling.iter().enumerate() {
            match choice {
                Some(Choice::Own(ip)) => {
                    prop_assert!(choices(Choice::Own, &own[wish]).contains(&Choice::Own(*ip)));
                }
                Some(choice) => prop_assert!(choices(Choice::New, &new[wish]).contains(choice)),
                None => {}
            }
        }
        let mut distinct: Vec<IpAddr> = chosen.iter().map(|choice| choice.ip()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), chosen.len());
        let owned = chosen.iter().filter(|it| matches!(it, Choice::Own(_))).count();
        prop_assert_eq!(owned, filled);
        prop_assert_eq!((owned, chosen.len()), best(&own, &new, &mut Vec::new()));
    }
}
