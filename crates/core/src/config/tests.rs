//! What is accepted, and how it reads; what is refused is in `problems`.

use ipnet::IpNet;

use super::{
    fixture::{T, config, t},
    *,
};

mod problems;
mod shared;

/// An entry that is sound unless `members`, which come last, break it.
fn one(members: &str) -> String {
    format!(
        r#"[{{"nodeSubnets": ["10.173.14.0/24"], "subnet": "10.173.14.0/24",
              "gateway": "10.173.14.1", "ips": ["10.173.14.203"], {members}}}]"#
    )
}

fn ips(entry: &Entry) -> String {
    entry.addresses().to_string()
}

fn subnets(entry: &Entry) -> Vec<String> {
    entry.node_subnets().iter().map(IpNet::to_string).collect()
}

#[test]
fn the_fixture_loads() {
    let config = t();
    assert_eq!(config.entries().len(), 7);
    assert_eq!(config.addresses().len(), 39);
    // By gateway as a number; T3 and T4 have the same one.
    let order: Vec<_> = config.entries().iter().map(Entry::index).collect();
    assert_eq!(order, [4, 5, 6, 0, 1, 2, 3]);
    let ids: Vec<_> = config.enumerate().map(|(id, _)| id.position()).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6]);
    for (id, entry) in config.enumerate() {
        assert_eq!(config.entry(id), entry);
    }

    let t5 = &config.entries()[0];
    assert_eq!(subnets(t5), ["10.0.1.0/24", "10.0.2.0/24"]);
    assert_eq!(ips(t5), "10.0.70.2~10.0.70.20");
    assert_eq!(t5.gateway().to_string(), "10.0.70.1");
    assert_eq!(t5.network().to_string(), "10.0.70.0/24");
    assert_eq!((t5.prefix_len(), t5.vlan()), (24, 0));
    assert_eq!(t5.first_ip(), "10.0.70.2".parse().ok());
    assert_eq!(config.entries()[3].vlan(), 2);
}

#[test]
fn lenient_reads_what_is_sound_like_strict() {
    let strict = AddressConfig::parse(T, Mode::Strict).unwrap();
    assert_eq!(AddressConfig::parse(T, Mode::Lenient), Ok(strict));
}

#[test]
fn gateways_sort_as_numbers() {
    let networks = [
        ("fd00::/64", "fd00::1"),
        ("10.0.10.0/24", "10.0.10.1"),
        ("10.0.9.0/24", "10.0.9.1"),
    ];
    let entries = networks.map(|(subnet, gateway)| {
        format!(
            r#"{{"nodeSubnets": ["10.0.0.0/8"], "subnet": "{subnet}", "gateway": "{gateway}"}}"#
        )
    });
    let config = config(&format!("[{}]", entries.join(",")));
    let gateways: Vec<_> = config
        .entries()
        .iter()
        .map(|e| e.gateway().to_string())
        .collect();
    assert_eq!(gateways, ["10.0.9.1", "10.0.10.1", "fd00::1"]);
}

#[test]
fn the_deprecated_subnet_wins() {
    let text = one(
        r#""routableSubnet": "10.9.9.1/24", "ips": ["10.173.14.203", "10.173.14.206~10.173.14.208"]"#,
    );
    let config = config(&text);
    let entry = &config.entries()[0];
    assert_eq!(subnets(entry), ["10.9.9.0/24"]);
    assert_eq!(ips(entry), "10.173.14.203, 10.173.14.206~10.173.14.208");

    let alone = r#"[{"routableSubnet": "10.173.14.1/24", "subnet": "10.173.14.0/24", "gateway": "10.173.14.1"}]"#;
    assert_eq!(
        subnets(&self::config(alone).entries()[0]),
        ["10.173.14.0/24"]
    );
    // Not even a broken `nodeSubnets` matters then; `null` is no member.
    config_of(r#""nodeSubnets": ["nonsense"], "routableSubnet": "10.9.9.1/24""#);
    let null = config_of(r#""routableSubnet": null"#);
    assert_eq!(subnets(&null.entries()[0]), ["10.173.14.0/24"]);
}

fn config_of(members: &str) -> AddressConfig {
    config(&one(members))
}

#[test]
fn ranges_that_touch_become_one() {
    let config = config_of(r#""ips": ["10.173.14.205", "10.173.14.206~10.173.14.208"]"#);
    assert_eq!(ips(&config.entries()[0]), "10.173.14.205~10.173.14.208");
}

#[test]
fn entries_print_in_galaxys_form() {
    let config = config_of(
        r#""vlan": 2, "ips": ["10.173.14.203", "10.173.14.205", "10.173.14.206~10.173.14.208"]"#,
    );
    let entry = r#"{"nodeSubnets":["10.173.14.0/24"],"ips":["10.173.14.203","10.173.14.205~10.173.14.208"],"subnet":"10.173.14.0/24","gateway":"10.173.14.1","vlan":2}"#;
    assert_eq!(serde_json::to_string(&config.entries()[0]).unwrap(), entry);
    assert_eq!(
        serde_json::to_string(&config).unwrap(),
        format!("[{entry}]")
    );

    // Only the length of `subnet` counts, and VLAN 0 is not printed.
    let config = config_of(r#""vlan": 0, "ips": [], "subnet": "1.2.3.4/22""#);
    let entry = r#"{"nodeSubnets":["10.173.14.0/24"],"ips":[],"subnet":"10.173.12.0/22","gateway":"10.173.14.1"}"#;
    assert_eq!(serde_json::to_string(&config.entries()[0]).unwrap(), entry);
    assert_eq!(config.entries()[0].first_ip(), None);
}

#[test]
fn what_is_printed_reads_the_same() {
    let config = t();
    let again = self::config(&serde_json::to_string(&config).unwrap());
    assert!(Change::between(&config, &again).is_empty());
}

#[test]
fn keys_follow_the_rules_of_go() {
    let config = config_of(r#""GATEWAY": "10.173.14.2", "Vlan": 7, "comment": {"by": ["me"]}"#);
    let entry = &config.entries()[0];
    assert_eq!(entry.gateway().to_string(), "10.173.14.2");
    assert_eq!(entry.vlan(), 7);
}

#[test]
fn an_entry_may_have_no_addresses() {
    assert!(config("[]").entries().is_empty());
    for members in [
        r#""ips": []"#,
        r#""ips": null"#,
        r#""vlan": null, "ips": []"#,
    ] {
        let config = config_of(members);
        assert_eq!(config.entries().len(), 1);
        assert!(config.addresses().is_empty());
    }
}

#[test]
fn node_subnets_lose_host_bits_and_collapse() {
    let config = config_of(r#""nodeSubnets": ["10.0.1.2/24", "10.0.1.3/24", "fd00::5/64"]"#);
    assert_eq!(subnets(&config.entries()[0]), ["10.0.1.0/24", "fd00::/64"]);
}

#[test]
fn ipv6_entries() {
    let config = config_of(
        r#""subnet": "fd00::/64", "gateway": "fd00::1", "ips": ["fd00::2~fd00::ffff:ffff:ffff:ffff"]"#,
    );
    let entry = &config.entries()[0];
    assert_eq!(entry.network().to_string(), "fd00::/64");
    assert_eq!(entry.addresses().len(), (1 << 64) - 2);
    // "Any router here" is a fair gateway.
    let config = config_of(r#""subnet": "fd00::/64", "gateway": "fd00::", "ips": ["fd00::2"]"#);
    assert_eq!(config.entries()[0].gateway().to_string(), "fd00::");
    // IPv4 in the clothes of IPv6.
    let config = config_of(
        r#""subnet": "::ffff:10.173.14.0/120", "gateway": "::ffff:10.173.14.1", "ips": ["::ffff:10.173.14.9"]"#,
    );
    let entry = &config.entries()[0];
    assert_eq!(entry.network().to_string(), "10.173.14.0/24");
    assert_eq!(ips(entry), "10.173.14.9");
}

#[test]
fn point_to_point_networks_have_no_special_addresses() {
    let cases = [
        ("10.0.0.0/31", "10.0.0.0", "10.0.0.1"),
        ("10.0.0.0/31", "10.0.0.1", "10.0.0.0"),
        ("fd00::/127", "fd00::1", "fd00::"),
    ];
    for (subnet, gateway, ip) in cases {
        let config = config_of(&format!(
            r#""subnet": "{subnet}", "gateway": "{gateway}", "ips": ["{ip}"]"#
        ));
        assert_eq!(ips(&config.entries()[0]), ip);
    }
}

#[test]
fn entries_may_share_a_network() {
    let a = one(r#""vlan": 1"#);
    let b = one(r#""ips": ["10.173.14.204"]"#);
    let text = format!("[{},{}]", &a[1..a.len() - 1], &b[1..b.len() - 1]);
    assert_eq!(
        config(&text).addresses().to_string(),
        "10.173.14.203~10.173.14.204"
    );
}

#[test]
fn huge_ranges_are_read_at_once() {
    let config = config_of(
        r#""subnet": "0.0.0.0/1", "gateway": "10.0.0.1", "ips": ["10.0.0.2~127.255.255.254"]"#,
    );
    assert_eq!(config.addresses().last(), "127.255.255.254".parse().ok());
}

#[test]
fn an_address_with_a_length_keeps_its_host_bits() {
    let net: IpNet = serde_json::from_str(r#""192.168.0.1/16""#).unwrap();
    assert_eq!(serde_json::to_string(&net).unwrap(), r#""192.168.0.1/16""#);
}
