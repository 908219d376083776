//! Every problem: its place, its words, and what is left without it.

use super::*;

/// One way to break an entry.
#[derive(Clone, Copy)]
struct Case {
    /// Members that override those of the sound entry.
    members: &'static str,
    field: &'static str,
    reason: &'static str,
    sentence: &'static str,
    /// The addresses that a lenient reading keeps; `None` when it keeps no
    /// entry. Only for what galaxy accepts.
    kept: Option<&'static str>,
}

const fn case(
    members: &'static str,
    field: &'static str,
    reason: &'static str,
    sentence: &'static str,
) -> Case {
    Case {
        members,
        field,
        reason,
        sentence,
        kept: None,
    }
}

const fn keeps(case: Case, addresses: &'static str) -> Case {
    Case {
        kept: Some(addresses),
        ..case
    }
}

fn refusal(text: &str, mode: Mode) -> Refused {
    match AddressConfig::parse(text, mode) {
        Ok(loaded) => panic!("{mode:?} accepts {text} as {loaded:?}"),
        Err(refused) => refused,
    }
}

/// The parts of the only problem.
fn only(problems: &[Problem]) -> &Problem {
    assert_eq!(problems.len(), 1, "{problems:#?}");
    &problems[0]
}

fn check_place_and_words(case: &Case, problem: &Problem) {
    assert_eq!(problem.entry, Some(0), "{}", case.members);
    assert_eq!(problem.field, Some(case.field), "{}", case.members);
    assert_eq!(problem.reason(), case.reason, "{}", case.members);
    assert_eq!(problem.fault.to_string(), case.sentence, "{}", case.members);
}

/// What galaxy refuses.
const REFUSED: &[Case] = &[
    case(
        r#""nodeSubnets": []"#,
        "nodeSubnets",
        "NodeSubnetEmpty",
        "node subnet is empty",
    ),
    case(
        r#""nodeSubnets": null"#,
        "nodeSubnets",
        "NodeSubnetEmpty",
        "node subnet is empty",
    ),
    case(
        r#""nodeSubnets": ["10.0.0.1"]"#,
        "nodeSubnets",
        "InvalidSubnet",
        "invalid CIDR address: 10.0.0.1",
    ),
    case(
        r#""nodeSubnets": ["10.0.0.0/33"]"#,
        "nodeSubnets",
        "InvalidSubnet",
        "invalid CIDR address: 10.0.0.0/33",
    ),
    case(
        r#""routableSubnet": "x""#,
        "routableSubnet",
        "InvalidSubnet",
        "invalid CIDR address: x",
    ),
    case(
        r#""subnet": null"#,
        "subnet",
        "SubnetEmpty",
        "subnet is empty",
    ),
    case(
        r#""subnet": "10.173.14.0""#,
        "subnet",
        "InvalidSubnet",
        "invalid CIDR address: 10.173.14.0",
    ),
    case(
        r#""gateway": null"#,
        "gateway",
        "GatewayEmpty",
        "gateway is empty",
    ),
    case(
        r#""gateway": """#,
        "gateway",
        "GatewayEmpty",
        "gateway is empty",
    ),
    case(
        r#""gateway": "10.1.2.3/22""#,
        "gateway",
        "InvalidGateway",
        "invalid IP address: 10.1.2.3/22 (an address without a prefix length is needed)",
    ),
    case(
        r#""ips": ["10.173.14.1~10.173.14.256"]"#,
        "ips",
        "InvalidRange",
        "invalid ip range 10.173.14.1~10.173.14.256",
    ),
    case(
        r#""ips": ["10.173.14.9~10.173.14.8"]"#,
        "ips",
        "InvalidRange",
        "invalid ip range 10.173.14.9~10.173.14.8",
    ),
    case(
        r#""ips": [" 10.173.14.9"]"#,
        "ips",
        "InvalidRange",
        "invalid ip range  10.173.14.9",
    ),
    case(
        r#""ips": ["10.173.15.8~10.173.15.9"]"#,
        "ips",
        "RangeOutsideSubnet",
        "ip range 10.173.15.8~10.173.15.9 not in subnet 10.173.14.1/24",
    ),
    case(
        r#""subnet": "fd00::/64", "gateway": "fd00::1", "ips": ["fd00:0:0:1::2"]"#,
        "ips",
        "RangeOutsideSubnet",
        "ip range fd00:0:0:1::2 not in subnet fd00::1/64",
    ),
    case(
        r#""ips": ["10.173.14.5~10.173.14.7", "10.173.14.7~10.173.14.8"]"#,
        "ips",
        "RangeOrder",
        "ip range 10.173.14.5~10.173.14.7 and 10.173.14.7~10.173.14.8 can be merge to one or has wrong order",
    ),
    case(
        r#""ips": ["10.173.14.8", "10.173.14.7"]"#,
        "ips",
        "RangeOrder",
        "ip range 10.173.14.8 and 10.173.14.7 can be merge to one or has wrong order",
    ),
    case(
        r#""vlan": 65536"#,
        "vlan",
        "InvalidJson",
        "expected a whole number from 0 to 65535, found the number 65536",
    ),
    case(
        r#""vlan": "2""#,
        "vlan",
        "InvalidJson",
        "expected a whole number from 0 to 65535, found the string \"2\"",
    ),
    case(
        r#""ips": "10.173.14.8""#,
        "ips",
        "InvalidJson",
        "expected an array, found the string \"10.173.14.8\"",
    ),
];

#[test]
fn what_galaxy_refuses_is_always_refused() {
    for case in REFUSED {
        for mode in [Mode::Strict, Mode::Lenient] {
            let refused = refusal(&one(case.members), mode);
            let problem = only(&refused.problems);
            check_place_and_words(case, problem);
            assert_eq!(problem.left_out, None, "{}", case.members);
            assert_eq!(refused.reason(), case.reason);
        }
    }
}

#[test]
fn both_ends_of_a_range_lie_in_the_network() {
    for range in [
        "10.173.13.9~10.173.14.8",
        "10.173.14.9~10.173.15.8",
        "10.173.13.1~10.173.15.1",
    ] {
        let refused = refusal(&one(&format!(r#""ips": ["{range}"]"#)), Mode::Lenient);
        assert_eq!(
            refused.problems[0].to_string(),
            format!("entry [0], field ips: ip range {range} not in subnet 10.173.14.1/24")
        );
    }
}

/// What galaxy accepts and floe minds.
const LEFT_OUT: &[Case] = &[
    case(
        r#""nodeSubnets": [null]"#,
        "nodeSubnets",
        "NullMember",
        "member 0 is null",
    ),
    keeps(
        case(
            r#""nodeSubnets": ["10.0.0.0/8", null]"#,
            "nodeSubnets",
            "NullMember",
            "member 1 is null",
        ),
        "10.173.14.203",
    ),
    keeps(
        case(
            r#""ips": ["10.173.14.5", null]"#,
            "ips",
            "NullMember",
            "member 1 is null",
        ),
        "10.173.14.5",
    ),
    case(
        r#""subnet": "10.173.14.0/0""#,
        "subnet",
        "PrefixLengthZero",
        "subnet 0.0.0.0/0 has prefix length 0: no pod can have a gateway in it. Write the \
         prefix length of the pods' network, for example /24",
    ),
    case(
        r#""vlan": 4095"#,
        "vlan",
        "VlanTooHigh",
        "vlan 4095 is above 4094",
    ),
    case(
        r#""vlan": 65535"#,
        "vlan",
        "VlanTooHigh",
        "vlan 65535 is above 4094",
    ),
    case(
        r#""subnet": "fd00::/64""#,
        "subnet",
        "MixedFamilies",
        "subnet fd00::/64 and gateway 10.173.14.1 are of different families",
    ),
    case(
        r#""gateway": "fd00::1""#,
        "subnet",
        "MixedFamilies",
        "subnet 10.173.14.0/24 and gateway fd00::1 are of different families",
    ),
    keeps(
        case(
            r#""ips": ["10.173.14.5", "fd00::1~fd00::2"]"#,
            "ips",
            "MixedFamilies",
            "ip range fd00::1~fd00::2 and gateway 10.173.14.1 are of different families",
        ),
        "10.173.14.5",
    ),
    case(
        r#""gateway": "10.173.14.0""#,
        "gateway",
        "GatewayIsNetwork",
        "gateway 10.173.14.0 is the network address of 10.173.14.0/24",
    ),
    case(
        r#""gateway": "10.173.14.255""#,
        "gateway",
        "GatewayIsBroadcast",
        "gateway 10.173.14.255 is the broadcast address of 10.173.14.0/24",
    ),
    keeps(
        case(
            r#""ips": ["10.173.14.1~10.173.14.9"]"#,
            "ips",
            "GatewayInIps",
            "10.173.14.1 is the gateway of entry [0]",
        ),
        "10.173.14.2~10.173.14.9",
    ),
    keeps(
        case(
            r#""gateway": "10.173.14.99", "ips": ["10.173.14.0~10.173.14.9"]"#,
            "ips",
            "NetworkInIps",
            "10.173.14.0 is the network address of 10.173.14.0/24",
        ),
        "10.173.14.1~10.173.14.9",
    ),
    keeps(
        case(
            r#""ips": ["10.173.14.250~10.173.14.255"]"#,
            "ips",
            "BroadcastInIps",
            "10.173.14.255 is the broadcast address of 10.173.14.0/24",
        ),
        "10.173.14.250~10.173.14.254",
    ),
    keeps(
        case(
            r#""subnet": "fd00::/64", "gateway": "fd00::9", "ips": ["fd00::~fd00::5"]"#,
            "ips",
            "NetworkInIps",
            "fd00:: is the network address of fd00::/64",
        ),
        "fd00::1~fd00::5",
    ),
    keeps(
        case(
            r#""subnet": "10.173.14.1/32", "ips": ["10.173.14.1"]"#,
            "ips",
            "GatewayInIps",
            "10.173.14.1 is the gateway of entry [0]",
        ),
        "",
    ),
];

#[test]
fn what_only_floe_minds_is_left_out_at_first_start() {
    for case in LEFT_OUT {
        let text = one(case.members);
        let refused = refusal(&text, Mode::Strict);
        check_place_and_words(case, only(&refused.problems));

        let loaded = AddressConfig::parse(&text, Mode::Lenient).unwrap();
        assert_eq!(loaded.problems, refused.problems, "{}", case.members);
        let kept = loaded.config.entries().first().map(ips);
        assert_eq!(kept.as_deref(), case.kept, "{}", case.members);
        let left_out = loaded.problems[0].left_out.as_ref().unwrap();
        let entry_is_gone = *left_out == LeftOut::Entry;
        assert_eq!(entry_is_gone, case.kept.is_none(), "{}", case.members);
    }
}

#[test]
fn texts_that_are_no_list_of_entries() {
    for text in ["", "{}", "7", "[", "[7]", r#"["x"]"#, "[[]]", "[{}] x"] {
        for mode in [Mode::Strict, Mode::Lenient] {
            let refused = refusal(text, mode);
            assert_eq!(only(&refused.problems).reason(), "InvalidJson", "{text}");
        }
    }
    assert_eq!(
        refusal("[{]", Mode::Strict).to_string(),
        "syntax error in JSON at line 1 column 3"
    );
    assert_eq!(refusal("[7]", Mode::Strict).problems[0].entry, Some(0));
    // galaxy takes it for an empty list.
    assert_eq!(refusal("null", Mode::Strict).reason(), "NullMember");
    let loaded = AddressConfig::parse("null", Mode::Lenient).unwrap();
    assert!(loaded.config.entries().is_empty());
    assert_eq!(only(&loaded.problems).reason(), "NullMember");
}

#[test]
fn a_null_entry_is_left_out() {
    let sound = one(r#""vlan": 1"#);
    let text = sound.replacen('[', "[null, ", 1);
    let refused = refusal(&text, Mode::Strict);
    assert_eq!(refused.to_string(), "entry [0]: null instead of a value");
    assert_eq!(refused.problems[0].field, None);
    let loaded = AddressConfig::parse(&text, Mode::Lenient).unwrap();
    assert_eq!(loaded.config.entries().len(), 1);
    assert_eq!(loaded.config.entries()[0].index(), 1);
    assert_eq!(loaded.problems, refused.problems);
}

/// Entries in 10.0.0.0/16 behind these gateways, with these addresses.
fn several(entries: &[(&str, &str)]) -> String {
    let entries: Vec<_> = entries
        .iter()
        .map(|(gateway, ips)| {
            format!(
                r#"{{"nodeSubnets": ["10.1.0.0/16"], "subnet": "10.0.0.0/16", "gateway": "{gateway}", "ips": ["{ips}"]}}"#
            )
        })
        .collect();
    format!("[{}]", entries.join(","))
}

#[test]
fn shared_addresses_stay_with_the_entry_that_comes_first() {
    let text = several(&[
        ("10.0.9.9", "10.0.0.10~10.0.0.20"),
        ("10.0.9.8", "10.0.0.40~10.0.0.50"),
        ("10.0.9.7", "10.0.0.5~10.0.0.45"),
    ]);
    let refused = refusal(&text, Mode::Strict);
    assert_eq!(
        refused.to_string(),
        "entry [2], field ips: 10.0.0.10~10.0.0.20 belongs to entry [0] too; \
         entry [2], field ips: 10.0.0.40~10.0.0.45 belongs to entry [1] too"
    );
    assert_eq!(refused.reason(), "EntriesOverlap");

    let loaded = AddressConfig::parse(&text, Mode::Lenient).unwrap();
    let kept: Vec<_> = loaded.config.entries().iter().map(ips).collect();
    assert_eq!(
        kept,
        [
            "10.0.0.5~10.0.0.9, 10.0.0.21~10.0.0.39",
            "10.0.0.40~10.0.0.50",
            "10.0.0.10~10.0.0.20"
        ]
    );
    let left_out: Vec<_> = loaded
        .problems
        .iter()
        .map(|p| p.left_out.clone().unwrap().to_string())
        .collect();
    assert_eq!(left_out, ["10.0.0.10~10.0.0.20", "10.0.0.40~10.0.0.45"]);
}

#[test]
fn a_gateway_of_another_entry_is_no_pod_address() {
    let text = several(&[
        ("10.0.0.1", "10.0.0.10~10.0.0.20"),
        ("10.0.0.15", "10.0.0.40"),
    ]);
    let refused = refusal(&text, Mode::Strict);
    assert_eq!(
        refused.to_string(),
        "entry [0], field ips: 10.0.0.15 is the gateway of entry [1]"
    );
    let loaded = AddressConfig::parse(&text, Mode::Lenient).unwrap();
    assert_eq!(
        ips(&loaded.config.entries()[0]),
        "10.0.0.10~10.0.0.14, 10.0.0.16~10.0.0.20"
    );
}

#[test]
fn the_router_of_an_entry_that_is_left_out_is_still_a_router() {
    let text = several(&[
        ("10.0.0.1", "10.0.0.10~10.0.0.20"),
        ("10.0.0.15", "10.0.0.40"),
    ]);
    let text = text.replacen(
        r#""gateway": "10.0.0.15""#,
        r#""vlan": 5000, "gateway": "10.0.0.15""#,
        1,
    );
    let loaded = AddressConfig::parse(&text, Mode::Lenient).unwrap();
    assert_eq!(loaded.config.entries().len(), 1);
    assert!(
        !loaded
            .config
            .addresses()
            .contains("10.0.0.15".parse().unwrap())
    );
    let reasons: Vec<_> = loaded.problems.iter().map(Problem::reason).collect();
    assert_eq!(reasons, ["GatewayInIps", "VlanTooHigh"]);
}

#[test]
fn an_entry_that_is_left_out_overlaps_nothing() {
    let text = several(&[("10.0.0.1", "10.0.0.10"), ("10.0.0.2", "10.0.0.10")]);
    let text = text.replacen(r#""gateway""#, r#""vlan": 5000, "gateway""#, 1);
    let loaded = AddressConfig::parse(&text, Mode::Lenient).unwrap();
    assert_eq!(only(&loaded.problems).reason(), "VlanTooHigh");
    assert_eq!(loaded.config.addresses().to_string(), "10.0.0.10");
}

#[test]
fn all_problems_are_named_in_the_order_of_the_text() {
    let text = r#"[
        {"nodeSubnets": ["x", "y"], "ips": ["a", "b"], "vlan": "z"},
        {"nodeSubnets": ["10.0.0.0/8"], "subnet": "10.0.0.0/24", "gateway": "10.0.0.255", "vlan": 4095,
         "ips": ["10.0.0.0", "10.0.1.1", "10.0.0.5", "10.0.0.255"]}
    ]"#;
    for mode in [Mode::Strict, Mode::Lenient] {
        let refused = refusal(text, mode);
        let all: Vec<_> = refused.problems.iter().map(Problem::to_string).collect();
        assert_eq!(
            all,
            [
                "entry [0], field nodeSubnets: invalid CIDR address: x",
                "entry [0], field nodeSubnets: invalid CIDR address: y",
                "entry [0], field ips: invalid ip range a",
                "entry [0], field ips: invalid ip range b",
                "entry [0], field subnet: subnet is empty",
                "entry [0], field gateway: gateway is empty",
                "entry [0], field vlan: expected a whole number from 0 to 65535, found the string \"z\"",
                "entry [1], field vlan: vlan 4095 is above 4094",
                "entry [1], field gateway: gateway 10.0.0.255 is the broadcast address of 10.0.0.0/24",
                "entry [1], field ips: ip range 10.0.1.1 not in subnet 10.0.0.255/24",
                "entry [1], field ips: ip range 10.0.1.1 and 10.0.0.5 can be merge to one or has wrong order",
                "entry [1], field ips: 10.0.0.0 is the network address of 10.0.0.0/24",
                "entry [1], field ips: 10.0.0.255 is the broadcast address of 10.0.0.0/24",
            ]
        );
    }
}
