use super::*;

use ReleasePolicy::{Immutable, OnDelete};

fn new(addresses: &[&str]) -> Vec<Choice> {
    addresses.iter().map(|text| Choice::New(ip(text))).collect()
}

#[test]
fn bind_takes_an_address_of_the_nodes_subnet() {
    let mut world = World::t();
    let pod = sts("sts-0", OnDelete);
    let taken = world.bind(&pod, "n3");
    let [Choice::New(address)] = taken[..] else {
        panic!("{taken:?}");
    };
    assert!("10.49.27.0/24".parse::<IpNet>().unwrap().contains(&address));
    assert_eq!(world.held_by(&pod.key), address.to_string());
}

#[test]
fn a_kept_address_is_used_again_under_the_policy_of_the_pod() {
    let mut world = World::t();
    let pod = sts("sts-0", Immutable);
    world.hold("10.173.13.2", pod.key.as_str());
    assert_eq!(world.bind(&pod, "n4"), [Choice::Own(ip("10.173.13.2"))]);
    let record = world.ledger.record(ip("10.173.13.2")).unwrap();
    assert_eq!(record.policy, Immutable);
    assert_eq!(
        (record.node.as_str(), record.uid.as_str()),
        ("n4", "uid-sts-0")
    );
    let elsewhere = world.try_bind(&pod, "n3").unwrap_err();
    assert_eq!(elsewhere.reason(), "KeptAddressElsewhere");
}

#[test]
fn ranges_are_filled_in_order() {
    let table: [(&str, &[&str]); 6] = [
        ("10.49.27.216~10.49.27.218", &["10.49.27.216"]),
        (
            "10.49.27.217~10.49.27.218|10.49.27.217~10.49.27.218",
            &["10.49.27.217", "10.49.27.218"],
        ),
        ("10.49.27.218 10.49.27.205", &["10.49.27.205"]),
        (
            "10.49.27.218|10.49.27.205",
            &["10.49.27.218", "10.49.27.205"],
        ),
        (
            "10.49.27.205|10.49.27.218|10.49.27.216",
            &["10.49.27.205", "10.49.27.218", "10.49.27.216"],
        ),
        (
            "10.49.27.217~10.49.27.218|10.49.27.217",
            &["10.49.27.218", "10.49.27.217"],
        ),
    ];
    for (text, wanted) in table {
        let mut world = World::t();
        let mut pod = sts("sts-0", OnDelete);
        pod.wishes = ranges(text);
        assert_eq!(world.bind(&pod, "n3"), new(wanted), "{text}");
    }
}

#[test]
fn all_addresses_or_none() {
    let mut world = World::t();
    let mut pod = sts("sts-0", OnDelete);
    pod.wishes = ranges("10.49.27.216|10.50.0.1");
    let refusal = world.try_bind(&pod, "n3").unwrap_err();
    // It begins with galaxy's words.
    assert_eq!(
        refusal.to_string(),
        "no enough available ips left: list 2 of request_ip_range has no address of the \
         configuration in it"
    );
    assert_eq!(refusal.reason(), "RangeNotConfigured");
    assert!(world.ledger.is_free(ip("10.49.27.216")));
    pod.wishes = ranges("10.49.27.216");
    let refusal = world.try_bind(&pod, "n4").unwrap_err();
    assert_eq!(refusal, Refusal::NoAddressLeft);
}

#[test]
fn held_addresses_stay_at_their_lists() {
    let mut world = World::t();
    let mut pod = sts("sts-0", Immutable);
    pod.wishes = ranges("10.49.27.216|10.49.27.218");
    assert_eq!(
        world.bind(&pod, "n3"),
        new(&["10.49.27.216", "10.49.27.218"])
    );
    for address in ["10.49.27.216", "10.49.27.218"] {
        let record = world.ledger.record(ip(address)).unwrap();
        assert_eq!(
            (record.node.as_str(), record.uid.as_str()),
            ("n3", "uid-sts-0")
        );
        assert_eq!(record.policy, Immutable);
    }
    let own = |text: &str| Choice::Own(ip(text));
    let both = [own("10.49.27.216"), own("10.49.27.218")];
    assert_eq!(world.try_bind(&pod, "n3").unwrap().take, both);
    // A list in front for which nothing is held.
    pod.wishes = ranges("10.49.27.205|10.49.27.216|10.49.27.218");
    let all = [Choice::New(ip("10.49.27.205")), both[0], both[1]];
    assert_eq!(world.try_bind(&pod, "n3").unwrap().take, all);
    // One list only: what is not asked for any more is given back.
    pod.wishes = ranges("10.49.27.218");
    let grant = world.try_bind(&pod, "n3").unwrap();
    assert_eq!(grant.take, [both[1]]);
    assert_eq!(grant.promise, None);
    let given: Vec<(IpAddr, Fate)> = grant.give_back.iter().map(|it| (it.ip, it.fate)).collect();
    assert_eq!(given, [(ip("10.49.27.216"), Fate::Free)]);
    // Without ranges one is enough.
    pod.wishes = one_v4();
    assert_eq!(world.try_bind(&pod, "n3").unwrap().take, [both[0]]);
}

#[test]
fn a_range_that_is_added_later_adds_an_address() {
    let mut world = World::t();
    let mut pod = sts("sts-0", Immutable);
    pod.wishes = ranges("10.49.27.216~10.49.27.218");
    world.bind(&pod, "n3");
    world.release(&pod, Fate::Keep);
    pod.wishes = ranges("10.49.27.216~10.49.27.218|10.49.27.216~10.49.27.218");
    let taken = world.bind(&pod, "n3");
    let wanted = [
        Choice::Own(ip("10.49.27.216")),
        Choice::New(ip("10.49.27.217")),
    ];
    assert_eq!(taken, wanted);
}

#[test]
fn two_binds_at_once_choose_different_addresses() {
    let mut world = World::t();
    let (a, b) = (sts("sts-0", OnDelete), sts("sts-1", OnDelete));
    let first = world.try_bind(&a, "n3").unwrap();
    let promise = first.promise.clone().unwrap();
    world.ledger.promise(&a.uid, promise);
    let second = world.try_bind(&b, "n3").unwrap();
    assert_ne!(first.take, second.take);
    // Asked again, for instance after a timeout, it chooses the same.
    assert_eq!(world.try_bind(&a, "n3").unwrap().take, first.take);
}

#[test]
fn the_last_address_can_be_asked_for_again() {
    let mut world = World::t();
    let mut pod = sts("sts-0", OnDelete);
    pod.wishes = ranges("10.49.27.205");
    let grant = world.try_bind(&pod, "n3").unwrap();
    world
        .ledger
        .promise(&pod.uid, grant.promise.clone().unwrap());
    assert_eq!(world.try_bind(&pod, "n3").unwrap(), grant);
    // Another controller was faster.
    world.hold("10.49.27.205", "somebody else");
    assert_eq!(
        world.try_bind(&pod, "n3").unwrap_err(),
        Refusal::NoAddressLeft
    );
}

#[test]
fn one_address_of_each_family() {
    let text = r#"[
        {"nodeSubnets":["10.49.27.0/24"],"ips":["10.49.27.205"],"subnet":"10.49.27.0/24",
         "gateway":"10.49.27.1"},
        {"nodeSubnets":["10.49.27.0/24","10.173.13.0/24"],"ips":["fd00::2~fd00::ffff"],
         "subnet":"fd00::/64","gateway":"fd00::1"}]"#;
    let mut world = World::of(fixture::config(text));
    let mut pod = sts("sts-0", Immutable);
    pod.wishes = vec![Wish::Any(Family::V6), Wish::Any(Family::V4)];
    assert_eq!(world.fit(&pod, "n3 n4"), "n3");
    assert_eq!(world.bind(&pod, "n3"), new(&["fd00::2", "10.49.27.205"]));
    let mut next = sts("sts-1", Immutable);
    next.wishes = vec![Wish::Any(Family::V6)];
    assert_eq!(world.fit(&next, "n3 n4"), "n3 n4");
    assert_eq!(world.bind(&next, "n4"), new(&["fd00::3"]));
    next.wishes.push(Wish::Any(Family::V4));
    assert_eq!(
        world.unfit(&next, "n3 n4"),
        "n3:NoAddressLeft n4:NoAddressLeft"
    );
}
