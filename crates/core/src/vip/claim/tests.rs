use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn read(value: &str) -> Claim {
    Claim::of(|name| (name == ANNOTATION).then_some(value))
}

/// The addresses as texts.
fn taken(claim: &Claim) -> Vec<String> {
    claim.addresses.iter().map(IpAddr::to_string).collect()
}

/// The only problem of a value that asks for nothing: its reason and text.
fn refused(value: &str) -> (&'static str, String) {
    let claim = read(value);
    assert_eq!(taken(&claim), [""; 0], "{value}");
    let [problem] = &claim.problems[..] else {
        panic!("{value}: {:?}", claim.problems);
    };
    let text = problem.to_string();
    let start = format!("annotation {ANNOTATION}: ");
    (
        problem.reason(),
        text.strip_prefix(&start).unwrap().to_owned(),
    )
}

#[test]
fn a_list_of_addresses_of_both_families_is_taken_in_its_order() {
    let claim = read(r#" ["10.0.0.9", "fd00:0::1","10.0.0.1"] "#);
    assert_eq!(taken(&claim), ["10.0.0.9", "fd00::1", "10.0.0.1"]);
    assert_eq!(claim.problems, []);
    assert!(!claim.is_empty());
}

#[test]
fn an_absent_or_empty_annotation_asks_for_nothing() {
    assert!(Claim::of(|_| None).is_empty());
    for value in ["", "  ", "null", "[]", " [ ] ", "\n"] {
        assert!(read(value).is_empty(), "{value:?}");
    }
}

#[test]
fn both_annotations_count_together_and_may_say_the_same() {
    let claim = Claim::of(|name| match name {
        ANNOTATION => Some(r#"["10.0.0.1","10.0.0.2"]"#),
        ALIAS => Some(r#"["10.0.0.3","::ffff:10.0.0.1"]"#),
        _ => None,
    });
    assert_eq!(taken(&claim), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(claim.problems, []);
}

#[test]
fn a_bad_annotation_does_not_hide_the_other() {
    let both = |first: &'static str, second: &'static str| {
        Claim::of(move |name| Some(if name == ANNOTATION { first } else { second }))
    };
    for (claim, bad) in [
        (both("x", r#"["10.0.0.3"]"#), ANNOTATION),
        (both(r#"["10.0.0.3"]"#, "x"), ALIAS),
    ] {
        assert_eq!(taken(&claim), ["10.0.0.3"]);
        let names: Vec<_> = claim.problems.iter().map(|it| it.annotation).collect();
        assert_eq!(names, [bad]);
    }
}

#[test]
fn who_forgets_brackets_or_quotes_is_told_what_to_write() {
    for (value, suggestion) in [
        ("10.0.0.1", r#"'["10.0.0.1"]'"#),
        (r#""10.0.0.1""#, r#"'["10.0.0.1"]'"#),
        ("[10.0.0.1]", r#"'["10.0.0.1"]'"#),
        ("['10.0.0.1', 'fd00::1']", r#"'["10.0.0.1","fd00::1"]'"#),
        ("10.0.0.1,10.0.0.2", r#"'["10.0.0.1","10.0.0.2"]'"#),
        ("- 10.0.0.1\n- 10.0.0.2", r#"'["10.0.0.1","10.0.0.2"]'"#),
        ("web.example.com", r#"'["10.0.0.1"]'"#),
        (r#"{"ip":"10.0.0.7"}"#, r#"'["10.0.0.7"]'"#),
        ("true", r#"'["10.0.0.1"]'"#),
    ] {
        let (reason, text) = refused(value);
        assert_eq!(reason, "InvalidAnnotation", "{value}");
        let expected = format!("{value:?} is not a JSON list of addresses: write {suggestion}");
        assert_eq!(text, expected);
        // What is suggested is what is understood.
        let claim = read(suggestion.trim_matches('\''));
        assert!(claim.problems.is_empty() && !claim.addresses.is_empty());
    }
}

#[test]
fn an_entry_that_is_no_address_is_told_with_its_place() {
    for (value, expected) in [
        (
            r#"["10.0.0.0/24"]"#,
            r#"entry 1, "10.0.0.0/24", is a range: write a single address, or use a VirtualIP with spec.ranges to get one out of a range"#,
        ),
        (
            r#"["10.0.0.1~10.0.0.9"]"#,
            r#"entry 1, "10.0.0.1~10.0.0.9", is a range: write a single address, or use a VirtualIP with spec.ranges to get one out of a range"#,
        ),
        (
            r#"["web.example.com"]"#,
            r#"entry 1, "web.example.com", is not an IP address: host names, ports, zones and spaces are not allowed"#,
        ),
        ("[7]", "entry 1 is 7, not an address in quotes"),
        ("[null]", "entry 1 is null, not an address in quotes"),
        (
            r#"["0.0.0.0"]"#,
            "entry 1, 0.0.0.0, is the unspecified address, which cannot be shared",
        ),
        (
            r#"["::ffff:127.0.0.5"]"#,
            "entry 1, 127.0.0.5, is a loopback address, which cannot be shared",
        ),
        (
            r#"["ff02::1"]"#,
            "entry 1, ff02::1, is a multicast address, which cannot be shared",
        ),
        (
            r#"["255.255.255.255"]"#,
            "entry 1, 255.255.255.255, is the broadcast address, which cannot be shared",
        ),
    ] {
        assert_eq!(refused(value), ("InvalidAddress", expected.to_owned()));
    }
    for entry in [
        "",
        " 10.0.0.1",
        "10.0.0.1:80",
        "[fd00::1]",
        "fe80::1%eth0",
        "010.0.0.1",
        "10.0.0",
        "10.0.0.0/33",
    ] {
        let (reason, text) = refused(&serde_json::to_string(&[entry]).unwrap());
        assert_eq!(reason, "InvalidAddress", "{entry}");
        assert!(text.contains("is not an IP address"), "{text}");
    }
}

#[test]
fn special_addresses_of_both_families_cannot_be_shared() {
    for (text, kind) in [
        ("0.0.0.0", Some(Special::Unspecified)),
        ("::", Some(Special::Unspecified)),
        ("127.255.0.1", Some(Special::Loopback)),
        ("::1", Some(Special::Loopback)),
        ("224.0.0.1", Some(Special::Multicast)),
        ("239.255.255.255", Some(Special::Multicast)),
        ("ff05::2", Some(Special::Multicast)),
        ("255.255.255.255", Some(Special::Broadcast)),
        ("10.255.255.255", None),
        ("fd00::ff02", None),
    ] {
        assert_eq!(Special::of(ip(text)), kind, "{text}");
    }
}

#[test]
fn an_address_that_is_there_twice_counts_once_and_is_told() {
    let claim = read(r#"["10.0.0.1","fd00::1","::ffff:10.0.0.1","FD00:0::1"]"#);
    assert_eq!(taken(&claim), ["10.0.0.1", "fd00::1"]);
    let told: Vec<_> = claim.problems.iter().map(|it| &it.fault).collect();
    let twice = |entry, address| Fault::Twice {
        entry,
        address: ip(address),
    };
    assert_eq!(told, [&twice(3, "10.0.0.1"), &twice(4, "fd00::1")]);
    assert_eq!(claim.problems[0].reason(), "InvalidAnnotation");
}

#[test]
fn only_so_many_addresses_count_in_both_annotations_together() {
    let list = |count: usize, net: u8| -> String {
        let all: Vec<_> = (0..count).map(|it| format!("10.0.{net}.{it}")).collect();
        serde_json::to_string(&all).unwrap()
    };
    let values = BTreeMap::from([(ANNOTATION, list(40, 1)), (ALIAS, list(40, 2))]);
    let claim = Claim::of(|name| values.get(name).map(String::as_str));
    assert_eq!(claim.addresses.len(), MAX_ADDRESSES);
    assert_eq!(claim.addresses[MAX_ADDRESSES - 1], ip("10.0.2.23"));
    let expected = Problem {
        annotation: ALIAS,
        fault: Fault::TooMany { left: 16 },
    };
    assert_eq!(claim.problems, [expected]);
    // Just as many as are allowed.
    assert_eq!(read(&list(MAX_ADDRESSES, 1)).problems, []);
}

#[test]
fn floods_of_problems_and_long_texts_are_cut() {
    let mut entries = vec!["x"; 1000];
    entries.push("10.0.0.1");
    let claim = read(&serde_json::to_string(&entries).unwrap());
    assert_eq!(taken(&claim), ["10.0.0.1"]);
    assert_eq!(claim.problems.len(), MAX_PROBLEMS + 1);
    let last = claim.problems.last().unwrap();
    let count = 1000 - MAX_PROBLEMS;
    assert_eq!(last.fault, Fault::More { count });
    assert_eq!(last.reason(), "InvalidAnnotation");

    let long = "10.0.0.1 ".repeat(1000);
    let (_, text) = refused(&long);
    assert!(text.len() < 400, "{text}");
    // In quotes each of these is ten characters.
    let (_, text) = refused(&"\u{10ffff}".repeat(1000));
    assert!(text.len() < 400, "{text}");
    let (_, text) = refused(&format!("[{}1{}]", "[".repeat(100), "]".repeat(100)));
    assert!(text.len() < 400, "{text}");
}

#[test]
fn a_value_that_nests_without_end_is_refused() {
    let (reason, _) = refused(&"[".repeat(100_000));
    assert_eq!(reason, "InvalidAnnotation");
}

#[test]
fn a_floating_address_is_served_by_the_pods_address_of_its_family() {
    let pod = [ip("10.1.0.5"), ip("fd01::5")];
    assert_eq!(pair(ip("10.0.0.1"), &pod), Ok(ip("10.1.0.5")));
    assert_eq!(pair(ip("fd00::1"), &pod), Ok(ip("fd01::5")));
    assert_eq!(pair(ip("::ffff:10.0.0.1"), &pod), Ok(ip("10.1.0.5")));
    let several = [ip("10.1.0.5"), ip("fd01::5"), ip("10.1.0.6")];
    assert_eq!(pair(ip("10.0.0.1"), &several), Ok(ip("10.1.0.6")));
    let mapped = [ip("::ffff:10.1.0.5")];
    assert_eq!(pair(ip("10.0.0.1"), &mapped), Ok(ip("10.1.0.5")));
}

#[test]
fn a_pod_without_the_family_is_told_so() {
    let missing = pair(ip("fd00::1"), &[ip("10.1.0.5")]).unwrap_err();
    assert_eq!(missing.reason(), "FamilyMissing");
    assert_eq!(
        missing.to_string(),
        "the pod has no IPv6 address to serve fd00::1"
    );
    let missing = pair(ip("10.0.0.1"), &[]).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "the pod has no IPv4 address to serve 10.0.0.1"
    );
}

#[test]
fn addresses_that_stay_together_are_served_together_or_not_at_all() {
    let floating = [ip("fd00::1"), ip("10.0.0.1")];
    let pod = [ip("10.1.0.5"), ip("fd01::5")];
    let expected = vec![
        (ip("fd00::1"), ip("fd01::5")),
        (ip("10.0.0.1"), ip("10.1.0.5")),
    ];
    assert_eq!(pairs(&floating, &pod), Ok(expected));
    let address = ip("fd00::1");
    assert_eq!(pairs(&floating, &pod[..1]), Err(FamilyMissing { address }));
}

fn good() -> impl Strategy<Value = IpAddr> {
    let four = (1_u32..0x7f00_0000).prop_map(|it| IpAddr::V4(it.into()));
    let six = any::<u64>().prop_map(|it| IpAddr::V6((0xfd00_u128 << 112 | u128::from(it)).into()));
    prop_oneof![four, six]
}

fn bad() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        "[a-z]{1,9}\\.example".prop_map(Value::from),
        Just(Value::from("10.0.0.0/8")),
        Just(Value::from("::1")),
        Just(serde_json::json!(["10.0.0.1"])),
    ]
}

proptest! {
    #[test]
    fn a_bad_entry_never_hides_a_good_one(
        entries in prop::collection::vec(prop_oneof![
            good().prop_map(Ok),
            bad().prop_map(Err),
        ], 0..40),
    ) {
        let mut wanted: Vec<IpAddr> = Vec::new();
        let mut wrong = 0;
        for entry in &entries {
            match entry {
                Ok(ip) if !wanted.contains(ip) => wanted.push(*ip),
                _ => wrong += 1,
            }
        }
        let list: Vec<Value> = entries
            .into_iter()
            .map(|it| it.map_or_else(|value| value, |ip| ip.to_string().into()))
            .collect();
        let claim = read(&Value::from(list).to_string());
        prop_assert_eq!(claim.addresses, wanted);
        let told: usize = claim.problems.iter().map(|it| {
            if let Fault::More { count } = it.fault { count } else { 1 }
        }).sum();
        prop_assert_eq!(told, wrong);
    }

    #[test]
    fn any_text_is_read_and_either_taken_or_told(value in ".{0,60}") {
        let claim = read(&value);
        let is_nothing = matches!(value.trim(), "" | "null")
            || serde_json::from_str::<[u8; 0]>(&value).is_ok();
        prop_assert_eq!(claim.is_empty(), is_nothing);
    }
}
