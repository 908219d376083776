use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn info(ip: &str, vlan: u16, gateway: &str) -> IpInfo {
    IpInfo {
        ip: ip.parse().unwrap(),
        vlan,
        gateway: gateway.parse().unwrap(),
    }
}

fn parse(text: &str) -> Args {
    Args::parse(Some(text)).unwrap()
}

fn refuse(text: &str) -> ArgsError {
    let error = Args::parse(Some(text)).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("unmarshal pod cni args: "), "{message}");
    error
}

fn result() -> [IpInfo; 1] {
    [info("10.49.27.205/24", 2, "10.49.27.1")]
}

const PLAIN: &str =
    r#"{"common":{"ipinfos":[{"ip":"10.49.27.205/24","vlan":2,"gateway":"10.49.27.1"}]}}"#;

#[test]
fn the_result_without_foreign_members_is_galaxys() {
    for value in [
        None,
        Some(""),
        Some("{}"),
        Some("null"),
        Some(r#"{"common":null}"#),
    ] {
        assert_eq!(Args::parse(value).unwrap().with_result(&result()), PLAIN);
    }
    let ranged = r#" {"request_ip_range": [["10.49.27.205", "10.49.27.216~10.49.27.218"],
        ["10.49.27.218~10.49.27.218"]]}"#;
    let infos = [
        info("10.49.27.205/24", 2, "10.49.27.1"),
        info("10.49.27.218/24", 0, "10.49.27.1"),
    ];
    assert_eq!(
        parse(ranged).with_result(&infos),
        concat!(
            r#"{"request_ip_range":[["10.49.27.205","10.49.27.216~10.49.27.218"],["10.49.27.218"]],"#,
            r#""common":{"ipinfos":[{"ip":"10.49.27.205/24","vlan":2,"gateway":"10.49.27.1"},"#,
            r#"{"ip":"10.49.27.218/24","vlan":0,"gateway":"10.49.27.1"}]}}"#
        )
    );
    let v6 = [info("2001:db8::7/64", 0, "2001:db8::1")];
    assert_eq!(
        Args::default().with_result(&v6),
        r#"{"common":{"ipinfos":[{"ip":"2001:db8::7/64","vlan":0,"gateway":"2001:db8::1"}]}}"#
    );
}

#[test]
fn foreign_members_survive_as_they_were_written() {
    let text = concat!(
        r#"{"z":1e400,"common":{"b":{"y":1,"x":2},"ipinfos":[{"ip":"1.2.3.4/8"}],"a":[ 1 ]},"#,
        r#""a\"b":12345678901234567890123,"request_ip_range":[["10.0.0.1"]]}"#
    );
    let written = parse(text).with_result(&[info("10.0.0.1/24", 0, "10.0.0.254")]);
    assert_eq!(
        written,
        concat!(
            r#"{"request_ip_range":[["10.0.0.1"]],"#,
            r#""common":{"ipinfos":[{"ip":"10.0.0.1/24","vlan":0,"gateway":"10.0.0.254"}],"#,
            r#""b":{"y":1,"x":2},"a":[ 1 ]},"z":1e400,"a\"b":12345678901234567890123}"#
        )
    );
    // Another bind changes nothing but the result.
    assert_eq!(
        parse(&written).with_result(&[info("10.0.0.2/24", 0, "10.0.0.254")]),
        written.replace("10.0.0.1/24", "10.0.0.2/24")
    );
}

#[test]
fn a_claim_never_survives_in_any_spelling() {
    let table = [
        r#"{"common":{"ipinfos":"mine"}}"#,
        r#"{"common":{"ipinfos":1,"ipinfos":2}}"#,
        r#"{"common":{"IPInfos":[{"ip":"6.6.6.6/32"}]}}"#,
        r#"{"COMMON":{"ipinfos":[{"ip":"6.6.6.6/32"}]}}"#,
        r#"{"common":{},"Common":{"ipinfoſ":6}}"#,
        r#"{"\u0063ommon":{"ip\u0069nfos":6}}"#,
    ];
    for text in table {
        assert_eq!(parse(text).with_result(&result()), PLAIN, "{text}");
    }
    let joined = parse(r#"{"common":{"a":1},"Common":{"b":2,"a":3}}"#).with_result(&[]);
    assert_eq!(joined, r#"{"common":{"a":3,"b":2}}"#);
}

#[test]
fn claims_can_be_read_for_adoption() {
    assert_eq!(parse(PLAIN).claimed().unwrap(), result());
    let old = r#"{"common":{"ipinfos":[{"ip":"10.0.0.9/24","gateway":"10.0.0.1",
        "routable_subnet":"10.0.0.0/8"}]}}"#;
    assert_eq!(
        parse(old).claimed().unwrap(),
        [info("10.0.0.9/24", 0, "10.0.0.1")]
    );
    for nothing in ["{}", r#"{"common":{"ipinfos":null}}"#, r#"{"common":{}}"#] {
        assert_eq!(parse(nothing).claimed().unwrap(), []);
    }
    for bad in [
        r#""x""#,
        r#"[{"ip":"10.0.0.9","gateway":"10.0.0.1"}]"#,
        r#"[{"ip":"10.0.0.9/33","gateway":"10.0.0.1"}]"#,
        r#"[{"ip":"10.0.0.9/24"}]"#,
        r#"[{"ip":"10.0.0.9/24","gateway":"","vlan":70000}]"#,
        "[null]",
    ] {
        let text = format!(r#"{{"common":{{"ipinfos":{bad}}}}}"#);
        let error = parse(&text).claimed().unwrap_err();
        assert_eq!(error.reason(), "InvalidArgs", "{bad}");
    }
}

#[test]
fn the_members_of_an_address_are_read_in_any_case() {
    for text in [
        r#"{"IP":"10.0.0.9/24","Vlan":3,"GATEWAY":"10.0.0.1"}"#,
        r#"{"ip":"10.0.0.8/24","vlan":3,"gateway":"10.0.0.1","Ip":"10.0.0.9/24"}"#,
        r#"{"ip":"10.0.0.9/24","vlan":3,"gateway":"10.0.0.1","vlan":null,"ip":null}"#,
        r#"{"ip":"::ffff:10.0.0.9/120","vlan":3,"gateway":"::ffff:10.0.0.1","x":{"ip":1}}"#,
    ] {
        let read: IpInfo = serde_json::from_str(text).unwrap();
        assert_eq!(read, info("10.0.0.9/24", 3, "10.0.0.1"), "{text}");
    }
}

#[test]
fn ranges_are_read_in_order() {
    let args =
        parse(r#"{"request_ip_range":[["10.0.0.2~10.0.0.9","10.0.0.20"],["fd00::1~fd00::9"]]}"#);
    let texts: Vec<Vec<String>> = args
        .ranges()
        .iter()
        .map(|list| list.iter().map(ToString::to_string).collect())
        .collect();
    assert_eq!(
        texts,
        [
            vec!["10.0.0.2~10.0.0.9", "10.0.0.20"],
            vec!["fd00::1~fd00::9"]
        ]
    );
    let any_case = parse(r#"{"Request_IP_Range":[["10.0.0.2"]]}"#);
    assert_eq!(any_case.ranges().len(), 1);
    for none in [r#"{"request_ip_range":null}"#, r#"{"request_ip_range":[]}"#] {
        assert!(parse(none).ranges().is_empty());
        assert_eq!(parse(none).with_result(&result()), PLAIN);
    }
}

#[test]
fn bad_input_is_refused_with_its_reason() {
    let table = [
        ("{", "InvalidArgs"),
        ("[]", "InvalidArgs"),
        ("\"x\"", "InvalidArgs"),
        ("{} {}", "InvalidArgs"),
        (r#"{"common":5}"#, "InvalidArgs"),
        (r#"{"request_ip_range":"10.0.0.1"}"#, "InvalidArgs"),
        (r#"{"request_ip_range":["10.0.0.1"]}"#, "InvalidArgs"),
        (r#"{"request_ip_range":[[1]]}"#, "InvalidArgs"),
        (r#"{"request_ip_range":[[null]]}"#, "InvalidArgs"),
        (
            r#"{"request_ip_range":[["10.0.0.9~10.0.0.1"]]}"#,
            "InvalidRange",
        ),
        (r#"{"request_ip_range":[["10.0.0.0/24"]]}"#, "InvalidRange"),
        (r#"{"request_ip_range":[[""]]}"#, "InvalidRange"),
        (
            r#"{"request_ip_range":[["10.0.0.1"],[]]}"#,
            "EmptyRangeList",
        ),
        (r#"{"request_ip_range":[null]}"#, "EmptyRangeList"),
    ];
    for (text, reason) in table {
        assert_eq!(refuse(text).reason(), reason, "{text}");
    }
    let error = refuse(r#"{"request_ip_range":[["10.0.0.9~10.0.0.1"]]}"#);
    assert_eq!(
        error.to_string(),
        "unmarshal pod cni args: invalid ip range 10.0.0.9~10.0.0.1"
    );
}

#[test]
fn wishes_have_limits() {
    let lists = |lists: usize, ranges: usize| {
        let list = vec!["10.0.0.1"; ranges];
        json(&serde_json::json!({"request_ip_range": vec![list; lists]}))
    };
    assert_eq!(
        parse(&lists(MAX_LISTS, MAX_RANGES)).ranges().len(),
        MAX_LISTS
    );
    let error = refuse(&lists(MAX_LISTS + 1, 1));
    assert_eq!(error, ArgsError::TooManyLists { count: 9 });
    assert_eq!(error.reason(), "TooManyRanges");
    let error = refuse(&lists(2, MAX_RANGES + 1));
    assert_eq!(error, ArgsError::TooManyRanges { list: 1, count: 65 });
    // Nobody fills the log through an error text.
    for long in ["9".repeat(100_000), "é".repeat(100_000)] {
        let error = refuse(&format!(r#"{{"request_ip_range":[["{long}"]]}}"#));
        assert!(error.to_string().len() < 400);
        let error = refuse(&format!(r#"{{"common":"{long}"}}"#));
        assert!(error.to_string().len() < 400);
    }
    let deep = "[".repeat(100_000);
    assert_eq!(refuse(&format!(r#"{{"x":{deep}"#)).reason(), "InvalidArgs");
}

fn any_range() -> impl Strategy<Value = IpRange> {
    prop_oneof![
        (any::<u32>(), any::<u32>())
            .prop_map(|(a, b)| (IpAddr::V4(a.min(b).into()), IpAddr::V4(a.max(b).into()))),
        (any::<u64>(), any::<u64>()).prop_map(|(a, b)| {
            let net = 0xfd00_u128 << 112;
            (
                IpAddr::V6((net | u128::from(a.min(b))).into()),
                IpAddr::V6((net | u128::from(a.max(b))).into()),
            )
        }),
    ]
    .prop_map(|(first, last)| IpRange::new(first, last).unwrap())
}

fn any_info() -> impl Strategy<Value = IpInfo> {
    let v4 = (any::<[u8; 4]>(), 0u8..=32, any::<[u8; 4]>())
        .prop_map(|(ip, length, gateway)| (IpAddr::from(ip), length, IpAddr::from(gateway)));
    let v6 = (any::<[u8; 15]>(), 0u8..=128).prop_map(|(tail, length)| {
        let mut bytes = [0xfd; 16];
        bytes[1..].copy_from_slice(&tail);
        (IpAddr::from(bytes), length, IpAddr::from(bytes))
    });
    (prop_oneof![v4, v6], any::<u16>()).prop_map(|((ip, length, gateway), vlan)| IpInfo {
        ip: IpNet::new(ip, length).unwrap(),
        vlan,
        gateway,
    })
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        ranges in prop::collection::vec(prop::collection::vec(any_range(), 1..5), 0..=MAX_LISTS),
        infos in prop::collection::vec(any_info(), 0..4),
        foreign in prop::collection::btree_map("[a-z\"\\\\é ]{0,5}", any_json(), 0..4),
        common in prop::collection::btree_map("[a-z\"\\\\é ]{0,5}", any_json(), 0..4),
    ) {
        let mut given = serde_json::json!({"request_ip_range": ranges, "common": common});
        for (name, value) in &foreign {
            given[name] = value.clone();
        }
        let text = parse(&given.to_string()).with_result(&infos);
        let again = parse(&text);
        prop_assert_eq!(again.ranges(), &ranges);
        prop_assert_eq!(again.claimed().unwrap(), infos.clone());
        prop_assert_eq!(again.with_result(&infos), text.clone());

        let written: Value = serde_json::from_str(&text).unwrap();
        for (name, value) in &foreign {
            prop_assert_eq!(&written[name], value);
        }
        for (name, value) in &common {
            prop_assert_eq!(&written["common"][name], value);
        }
        let known = usize::from(!ranges.is_empty()) + 1;
        prop_assert_eq!(written.as_object().unwrap().len(), known + foreign.len());
    }

    #[test]
    fn no_text_is_too_strange(text in ".*|[\\[\\]{}\":,a-z0-9]*") {
        if let Ok(args) = Args::parse(Some(&text)) {
            let written = args.with_result(&result());
            prop_assert_eq!(parse(&written).claimed().unwrap(), result());
        }
    }
}

#[test]
fn what_the_author_says_to_plugins_is_told_apart_from_the_claim() {
    let args = Args::parse(Some(r#"{"common":{"mtu":1400,"IPinfos":[],"x":{"a": 1}}}"#)).unwrap();
    let common: Vec<_> = args.common().collect();
    assert_eq!(common, [("mtu", "1400"), ("x", r#"{"a": 1}"#)]);
    assert!(args.has_claim());
    assert!(!Args::parse(Some("{}")).unwrap().has_claim());
}

#[test]
fn a_wrong_form_is_named_in_the_words_of_the_annotation() {
    let told = |text: &str| {
        let error = Args::parse(Some(text)).and_then(|args| args.claimed());
        let told = error.unwrap_err().to_string();
        told.strip_prefix("unmarshal pod cni args: ")
            .unwrap()
            .to_owned()
    };
    assert_eq!(told("not json"), "syntax error in JSON at line 1 column 2");
    assert_eq!(
        told("{"),
        "the JSON text ends too early, at line 1 column 1"
    );
    assert_eq!(told("[]"), "the annotation must be a JSON object");
    assert_eq!(told(r#"{"common": []}"#), "common must be an object");
    for ranges in [r#""10.0.0.2""#, r#"["10.0.0.2"]"#, "[[1]]", "{}"] {
        assert_eq!(
            told(&format!(r#"{{"request_ip_range": {ranges}}}"#)),
            "request_ip_range must be a list of lists of addresses and ranges, such as \
             [[\"10.0.0.2~10.0.0.9\"]]",
            "{ranges}"
        );
    }
    for infos in ["{}", r#"[{"ip": "x"}]"#, r#"[{"vlan": "2"}]"#] {
        assert_eq!(
            told(&format!(r#"{{"common": {{"ipinfos": {infos}}}}}"#)),
            "common.ipinfos must be a list of objects with ip, vlan and gateway",
            "{infos}"
        );
    }
}
