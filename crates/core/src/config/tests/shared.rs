//! What is set aside to be shared by several pods, and what can be wrong with it.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What is set aside.
fn shared(entry: &Entry) -> String {
    entry.shared().to_string()
}

/// The problems of a text in words, the same in both readings, and what a lenient one
/// sets aside in its first entry.
fn problems(text: &str) -> (Vec<String>, String) {
    let refused = AddressConfig::parse(text, Mode::Strict).unwrap_err();
    let loaded = AddressConfig::parse(text, Mode::Lenient).unwrap();
    assert_eq!(loaded.problems, refused.problems, "{text}");
    let told = refused.problems.iter().map(|problem| {
        let left_out = problem.left_out.as_ref().unwrap();
        format!("{} {problem} -> {left_out}", problem.reason())
    });
    (told.collect(), shared(&loaded.config.entries()[0]))
}

#[test]
fn an_entry_may_set_addresses_aside() {
    let config = config_of(
        r#""shared": ["10.173.14.9", "10.173.14.2~10.173.14.5", "10.173.14.4~10.173.14.6"],
           "allowedNamespaces": ["shop", "a-1"]"#,
    );
    let entry = &config.entries()[0];
    assert_eq!(shared(entry), "10.173.14.2~10.173.14.6, 10.173.14.9");
    assert_eq!(ips(entry), "10.173.14.203");
    assert!(entry.allows("shop") && entry.allows("a-1"));
    assert!(!entry.allows("") && !entry.allows("other"));
    assert_eq!(config.shared().len(), 6);
    assert_eq!(config.addresses().len(), 1);
}

#[test]
fn without_names_all_namespaces_may_and_with_an_empty_list_none() {
    let allows = |members: &str| {
        let config = config_of(members);
        let entry = &config.entries()[0];
        assert_eq!(shared(entry), "10.173.14.9");
        entry.allows("shop")
    };
    assert!(allows(r#""shared": ["10.173.14.9"]"#));
    assert!(allows(
        r#""shared": ["10.173.14.9"], "allowedNamespaces": null"#
    ));
    assert!(!allows(
        r#""shared": ["10.173.14.9"], "allowedNamespaces": []"#
    ));
}

#[test]
fn what_galaxy_does_not_know_is_printed_only_when_it_is_there() {
    let print = |members: &str| serde_json::to_string(&config_of(members).entries()[0]).unwrap();
    let plain = r#"{"nodeSubnets":["10.173.14.0/24"],"ips":["10.173.14.203"],"subnet":"10.173.14.0/24","gateway":"10.173.14.1""#;
    assert_eq!(print(r#""shared": []"#), format!("{plain}}}"));
    assert_eq!(
        print(
            r#""shared": ["10.173.14.8~10.173.14.9"], "vlan": 2, "allowedNamespaces": ["b", "a"]"#
        ),
        format!(
            r#"{plain},"vlan":2,"shared":["10.173.14.8~10.173.14.9"],"allowedNamespaces":["a","b"]}}"#
        )
    );
    assert_eq!(
        print(r#""allowedNamespaces": []"#),
        format!(r#"{plain},"allowedNamespaces":[]}}"#)
    );
}

#[test]
fn each_mistake_is_named_and_never_costs_the_entry() {
    // members, reason and words, what a lenient reading sets aside
    #[rustfmt::skip]
    let table = [
        (r#""shared": ["10.173.15.1"]"#,
         "RangeOutsideSubnet entry [0], field shared: ip range 10.173.15.1 not in subnet 10.173.14.1/24 -> 10.173.15.1", ""),
        (r#""shared": ["10.173.14.9", "10.173.14.250~10.173.15.1"]"#,
         "RangeOutsideSubnet entry [0], field shared: ip range 10.173.14.250~10.173.15.1 not in subnet 10.173.14.1/24 -> 10.173.14.250~10.173.15.1", "10.173.14.9"),
        (r#""shared": ["10.173.14.9", "fd00::1"]"#,
         "MixedFamilies entry [0], field shared: ip range fd00::1 and gateway 10.173.14.1 are of different families -> fd00::1", "10.173.14.9"),
        (r#""shared": ["10.173.14.1~10.173.14.2"]"#,
         "GatewayInIps entry [0], field shared: 10.173.14.1 is the gateway of entry [0] -> 10.173.14.1", "10.173.14.2"),
        (r#""shared": ["10.173.14.0", "10.173.14.9"]"#,
         "NetworkInIps entry [0], field shared: 10.173.14.0 is the network address of 10.173.14.0/24 -> 10.173.14.0", "10.173.14.9"),
        (r#""shared": ["10.173.14.254~10.173.14.255"]"#,
         "BroadcastInIps entry [0], field shared: 10.173.14.255 is the broadcast address of 10.173.14.0/24 -> 10.173.14.255", "10.173.14.254"),
        (r#""shared": ["10.173.14.202~10.173.14.204"]"#,
         "SharedOverlap entry [0], field shared: 10.173.14.203 is among ips of entry [0] too -> 10.173.14.203", "10.173.14.202, 10.173.14.204"),
        (r#""shared": ["10.173.14.9", null]"#,
         "NullMember entry [0], field shared: member 1 is null -> the null", "10.173.14.9"),
        // What cannot be read could have been anything.
        (r#""shared": ["10.173.14.9", "nonsense"]"#,
         "InvalidRange entry [0], field shared: invalid ip range nonsense -> the shared addresses", ""),
        (r#""shared": "10.173.14.9""#,
         "InvalidJson entry [0], field shared: expected an array, found the string \"10.173.14.9\" -> the shared addresses", ""),
        // Nobody gets an address because of a mistake in a name.
        (r#""shared": ["10.173.14.9"], "allowedNamespaces": ["shop", "Shop"]"#,
         "InvalidNamespace entry [0], field allowedNamespaces: invalid namespace: \"Shop\" -> the shared addresses", ""),
        (r#""shared": ["10.173.14.9"], "allowedNamespaces": "shop""#,
         "InvalidJson entry [0], field allowedNamespaces: expected an array, found the string \"shop\" -> the shared addresses", ""),
    ];
    for (members, problem, kept) in table {
        let (told, shared) = problems(&one(members));
        assert_eq!(told, [problem], "{members}");
        assert_eq!(shared, kept, "{members}");
        let loaded = AddressConfig::parse(&one(members), Mode::Lenient).unwrap();
        assert_eq!(ips(&loaded.config.entries()[0]), "10.173.14.203");
    }
    let null = one(r#""shared": ["10.173.14.9"], "allowedNamespaces": [null]"#);
    let loaded = AddressConfig::parse(&null, Mode::Lenient).unwrap();
    assert!(!loaded.config.entries()[0].allows("shop"));
}

#[test]
fn names_of_namespaces_are_those_of_kubernetes() {
    let longest = "x".repeat(63);
    for name in ["a", "0", "a-b", "kube-system", &longest] {
        config_of(&format!(r#""allowedNamespaces": ["{name}"]"#));
    }
    let too_long = "x".repeat(64);
    for name in ["", "-", "a-", "-a", "a_b", "a.b", "A", "ä", "*", &too_long] {
        let text = one(&format!(r#""allowedNamespaces": ["{name}"]"#));
        let refused = AddressConfig::parse(&text, Mode::Strict).unwrap_err();
        assert_eq!(refused.reason(), "InvalidNamespace", "{name}");
    }
}

/// Entries in 10.0.0.0/16 behind these gateways, with these addresses for pods and to be
/// shared.
fn several(entries: &[(&str, &str, &str)]) -> String {
    let entries = entries.iter().map(|(gateway, ips, shared)| {
        json!({"nodeSubnets": ["10.1.0.0/16"], "subnet": "10.0.0.0/16", "gateway": gateway,
               "ips": [ips], "shared": [shared]})
    });
    json!(entries.collect::<Vec<_>>()).to_string()
}

#[test]
fn an_address_is_one_thing_only_in_all_entries() {
    let text = several(&[
        ("10.0.9.1", "10.0.0.10~10.0.0.20", "10.0.0.40~10.0.0.60"),
        ("10.0.9.2", "10.0.0.50~10.0.0.55", "10.0.0.15~10.0.0.42"),
    ]);
    let (told, first) = problems(&text);
    // What pods may have is theirs, also if their entry comes later.
    assert_eq!(
        told,
        [
            "SharedOverlap entry [0], field shared: 10.0.0.50~10.0.0.55 is among ips of entry [1] too -> 10.0.0.50~10.0.0.55",
            "SharedOverlap entry [1], field shared: 10.0.0.15~10.0.0.20 is among ips of entry [0] too -> 10.0.0.15~10.0.0.20",
            "SharedOverlap entry [1], field shared: 10.0.0.40~10.0.0.42 is among shared of entry [0] too -> 10.0.0.40~10.0.0.42",
        ]
    );
    assert_eq!(first, "10.0.0.40~10.0.0.49, 10.0.0.56~10.0.0.60");
    let loaded = AddressConfig::parse(&text, Mode::Lenient).unwrap();
    let entries = loaded.config.entries();
    assert_eq!(shared(&entries[1]), "10.0.0.21~10.0.0.39");
    assert_eq!(ips(&entries[0]), "10.0.0.10~10.0.0.20");
    assert_eq!(ips(&entries[1]), "10.0.0.50~10.0.0.55");
}

#[test]
fn a_gateway_of_another_entry_is_not_shared() {
    let text = several(&[
        ("10.0.0.1", "10.0.0.10", "10.0.0.40~10.0.0.50"),
        ("10.0.0.45", "10.0.0.11", "10.0.0.60"),
    ]);
    let (told, first) = problems(&text);
    assert_eq!(
        told,
        [
            "GatewayInIps entry [0], field shared: 10.0.0.45 is the gateway of entry [1] -> 10.0.0.45"
        ]
    );
    assert_eq!(first, "10.0.0.40~10.0.0.44, 10.0.0.46~10.0.0.50");
}

proptest! {
    #[test]
    fn whatever_is_written_pods_and_shared_addresses_stay_apart(
        written in prop::collection::vec((1_u8..200, 0_u8..50, 1_u8..200, 0_u8..50, 0_u8..3), 1..5),
    ) {
        let range = |start: u8, length: u8| {
            format!("10.0.0.{start}~10.0.0.{}", start.saturating_add(length))
        };
        let names = [None, Some(json!([])), Some(json!(["shop"]))];
        let entries = written.iter().enumerate().map(|(place, (a, b, c, d, who))| {
            let mut entry = json!({"nodeSubnets": ["10.1.0.0/16"], "subnet": "10.0.0.0/16",
                "gateway": format!("10.0.0.{}", 20 * (place + 1)),
                "ips": [range(*a, *b)], "shared": [range(*c, *d)]});
            if let Some(names) = &names[usize::from(*who)] {
                entry["allowedNamespaces"] = names.clone();
            }
            entry
        });
        let text = json!(entries.collect::<Vec<_>>()).to_string();
        let config = AddressConfig::parse(&text, Mode::Lenient).unwrap().config;
        let topology = Topology::new(config.clone());
        let (pods, shared) = (config.addresses(), config.shared());
        prop_assert!(!pods.overlaps(&shared));
        for last in 0..=255 {
            let ip = [10, 0, 0, last].into();
            prop_assert_eq!(topology.entry_of(ip).is_some(), pods.contains(ip));
            prop_assert_eq!(topology.shared_of(ip).is_some(), shared.contains(ip));
            if let Some(id) = topology.shared_of(ip) {
                prop_assert!(topology.entry(id).shared().contains(ip));
            }
        }
        for entry in config.entries() {
            prop_assert!(!pods.contains(entry.gateway()) && !shared.contains(entry.gateway()));
        }
        // Pods have what they would have if nothing was shared.
        let mut plain: serde_json::Value = serde_json::from_str(&text).unwrap();
        for entry in plain.as_array_mut().unwrap() {
            entry.as_object_mut().unwrap().remove("shared");
        }
        let plain = AddressConfig::parse(&plain.to_string(), Mode::Lenient).unwrap().config;
        prop_assert_eq!(plain.addresses(), pods);
        // What is sound reads back.
        let printed = serde_json::to_string(&config).unwrap();
        let again = AddressConfig::parse(&printed, Mode::Strict).unwrap().config;
        prop_assert_eq!(serde_json::to_string(&again).unwrap(), printed);
        prop_assert!(Change::between(&config, &again).is_empty());
    }
}
