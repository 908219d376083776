use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn range(text: &str) -> IpRange {
    text.parse().unwrap()
}

fn set(ranges: &[&str]) -> IpSet {
    ranges.iter().map(|text| range(text)).collect()
}

#[test]
fn single_addresses_join_and_split_ranges() {
    let mut set = IpSet::new();
    for last in [115, 123, 122, 117, 125, 116] {
        assert!(set.insert(ip(&format!("10.166.141.{last}"))));
    }
    let all = "10.166.141.115~10.166.141.117, 10.166.141.122~10.166.141.123, 10.166.141.125";
    assert_eq!(set.to_string(), all);
    assert!(!set.insert(ip("10.166.141.116")));
    assert_eq!(set.to_string(), all);

    let mut remove = |last: u8, expected: &str| {
        assert!(set.remove(ip(&format!("10.166.141.{last}"))));
        assert!(!set.remove(ip(&format!("10.166.141.{last}"))));
        let left = set.to_string().replace("10.166.141", "");
        assert_eq!(left, expected);
    };
    remove(116, ".115, .117, .122~.123, .125");
    remove(122, ".115, .117, .123, .125");
    remove(115, ".117, .123, .125");
    remove(125, ".117, .123");
    remove(123, ".117");
    remove(117, "");
    assert!(set.is_empty());
    assert_eq!(
        (set.len(), set.first(), set.last(), set.nth(0)),
        (0, None, None, None)
    );
}

#[test]
fn huge_ranges_cost_nothing() {
    let mut set = set(&[
        "10.0.0.0~10.255.255.255",
        "fd00::~fd00::ffff:ffff:ffff:ffff",
    ]);
    assert_eq!(set.len_v4(), 1 << 24);
    assert_eq!(set.len_v6(), 1 << 64);
    assert_eq!(set.len(), (1 << 24) + (1 << 64));
    assert_eq!(set.nth((1 << 24) - 1), Some(ip("10.255.255.255")));
    assert_eq!(set.nth((1 << 24) + (1 << 63)), Some(ip("fd00::8000:0:0:0")));
    assert_eq!(set.nth((1 << 24) + (1 << 64)), None);
    set.remove_range(&range("10.0.0.0~10.128.0.4"));
    assert_eq!(
        set.first_in(&range("0.0.0.0~255.255.255.255")),
        Some(ip("10.128.0.5"))
    );
    assert_eq!(set.first_in(&range("10.0.0.0~10.128.0.4")), None);
    set.remove_range(&range("fd00::1~fd00::ffff:ffff:ffff:fffe"));
    assert_eq!(
        set.first_in(&range("fd00::1~ffff::")),
        Some(ip("fd00::ffff:ffff:ffff:ffff"))
    );
    assert_eq!(set.len_v6(), 2);
}

#[test]
fn the_ends_of_each_family() {
    let top4 = "255.255.255.255";
    let top6 = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    for (low, top) in [("0.0.0.0", top4), ("::", top6)] {
        let (low, top) = (ip(low), ip(top));
        let mut set: IpSet = [low, top].into_iter().collect();
        assert_eq!(
            (set.first(), set.last(), set.len()),
            (Some(low), Some(top), 2)
        );
        assert_eq!(set.first_in(&IpRange::single(top)), Some(top));
        assert!(set.remove(top));
        assert_eq!(set.first_in(&IpRange::single(top)), None);
        assert!(set.remove(low));
        assert!(set.is_empty());
    }
    let all = set(&[
        "0.0.0.0~255.255.255.255",
        "::~::fffe:ffff:ffff",
        "::1:0:0:0~ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ]);
    // One more than the type can hold.
    assert_eq!(all.len(), u128::MAX);
    assert_eq!(all.nth(u128::MAX), Some(ip(top6)));
    assert_eq!(all.nth(1 << 32), Some(ip("::")));
}

#[test]
fn mapped_addresses_are_v4() {
    let mut set = IpSet::new();
    assert!(set.insert(ip("::ffff:10.0.0.1")));
    assert!(!set.insert(ip("10.0.0.1")));
    assert!(set.contains(ip("10.0.0.1")) && set.contains(ip("::ffff:10.0.0.1")));
    assert_eq!(set.to_string(), "10.0.0.1");
    assert!(set.remove(ip("::ffff:10.0.0.1")));
    assert!(set.is_empty());
}

#[test]
fn json_is_a_list_of_ranges() {
    let set = set(&["fd00::1", "10.0.0.3", "10.0.0.1~10.0.0.2", "10.0.0.9"]);
    let json = serde_json::to_string(&set).unwrap();
    assert_eq!(json, r#"["10.0.0.1~10.0.0.3","10.0.0.9","fd00::1"]"#);
    assert_eq!(format!("{set:?}"), "{10.0.0.1~10.0.0.3, 10.0.0.9, fd00::1}");
}

/// Where arithmetic can go wrong: both ends of both families, and both sides
/// of the IPv4-mapped block.
const REGIONS: [&str; 6] = [
    "0.0.0.0",
    "255.255.255.240",
    "::",
    "::fffe:ffff:fff0",
    "0:0:0:0:1::",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0",
];

/// The addresses that a test range spans; each region has sixteen.
fn members(region: usize, a: u8, b: u8) -> Vec<IpAddr> {
    let at = |offset| match ip(REGIONS[region]) {
        IpAddr::V4(ip) => IpAddr::from(Ipv4Addr::from_bits(ip.to_bits() + u32::from(offset))),
        IpAddr::V6(ip) => IpAddr::from(Ipv6Addr::from_bits(ip.to_bits() + u128::from(offset))),
    };
    (a.min(b)..=a.max(b)).map(at).collect()
}

fn spanned(members: &[IpAddr]) -> IpRange {
    IpRange::new(members[0], members[members.len() - 1]).unwrap()
}

fn spans() -> impl Strategy<Value = Vec<IpAddr>> {
    (0..REGIONS.len(), 0_u8..16, 0_u8..16).prop_map(|(region, a, b)| members(region, a, b))
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<IpAddr>),
    Remove(Vec<IpAddr>),
    InsertOne(IpAddr),
    RemoveOne(IpAddr),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        spans().prop_map(Step::Insert),
        spans().prop_map(Step::Remove),
        spans().prop_map(|span| Step::InsertOne(span[0])),
        spans().prop_map(|span| Step::RemoveOne(span[0])),
    ];
    prop::collection::vec(step, 0..40)
}

/// Takes the steps on a set and on its model, which must agree all the way.
fn play(steps: Vec<Step>) -> (IpSet, BTreeSet<IpAddr>) {
    let (mut set, mut model) = (IpSet::new(), BTreeSet::new());
    for step in steps {
        match step {
            Step::Insert(span) => {
                set.insert_range(&spanned(&span));
                model.extend(span);
            }
            Step::Remove(span) => {
                set.remove_range(&spanned(&span));
                model.retain(|ip| !span.contains(ip));
            }
            Step::InsertOne(ip) => assert_eq!(set.insert(ip), model.insert(ip)),
            Step::RemoveOne(ip) => assert_eq!(set.remove(ip), model.remove(&ip)),
        }
        assert_eq!(set.len(), model.len() as u128);
    }
    (set, model)
}

/// The addresses of a small set in order, the slow way.
fn listed(set: &IpSet) -> Vec<IpAddr> {
    (0..set.len()).map(|n| set.nth(n).unwrap()).collect()
}

proptest! {
    #[test]
    fn a_set_is_like_a_tree_of_addresses(steps in steps(), span in spans()) {
        let (set, model) = play(steps);
        prop_assert_eq!(listed(&set), model.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(set.nth(set.len()), None);
        prop_assert_eq!(set.is_empty(), model.is_empty());
        prop_assert_eq!(set.first(), model.first().copied());
        prop_assert_eq!(set.last(), model.last().copied());
        for region in 0..REGIONS.len() {
            for ip in members(region, 0, 15) {
                prop_assert_eq!(set.contains(ip), model.contains(&ip));
            }
        }
        let first = span.iter().find(|ip| model.contains(ip)).copied();
        prop_assert_eq!(set.first_in(&spanned(&span)), first);
        // Ranges are in order, apart from each other, and make the set again.
        let ranges: Vec<_> = set.ranges().collect();
        prop_assert_eq!(ranges.iter().copied().collect::<IpSet>(), set.clone());
        prop_assert_eq!(ranges.iter().map(IpRange::len).sum::<u128>(), set.len());
        prop_assert!(ranges.is_sorted_by(|a, b| a.last() < b.first()));
        prop_assert_eq!(model.into_iter().collect::<IpSet>(), set);
    }

    #[test]
    fn sets_combine_like_trees(a in steps(), b in steps()) {
        let ((a, model_a), (b, model_b)) = (play(a), play(b));
        prop_assert_eq!(a.union(&b), (&model_a | &model_b).into_iter().collect());
        prop_assert_eq!(a.difference(&b), (&model_a - &model_b).into_iter().collect());
        let common = &model_a & &model_b;
        prop_assert_eq!(a.overlaps(&b), !common.is_empty());
        prop_assert_eq!(a.intersection(&b), common.into_iter().collect());
    }
}
