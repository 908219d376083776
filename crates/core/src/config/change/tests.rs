use super::*;
use crate::config::fixture::{T, config, t};

/// What changes when the text of the fixture changes like this.
fn change(replacements: &[(&str, &str)]) -> Change {
    let mut text = T.to_owned();
    for (from, to) in replacements {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let (old, new) = (t(), config(&text));
    let change = Change::between(&old, &new);
    // The way back is the same way.
    let back = Change::between(&new, &old);
    assert_eq!(back.added, change.removed);
    assert_eq!(back.removed, change.added);
    assert_eq!(back.altered, change.altered);
    assert_eq!(back.shared_added, change.shared_removed);
    assert_eq!(back.shared_removed, change.shared_added);
    assert_eq!(back.shared_altered, change.shared_altered);
    assert_eq!(back.node_subnets, change.node_subnets);
    change
}

fn told(change: &Change) -> [String; 3] {
    let Change {
        added,
        removed,
        altered,
        ..
    } = change;
    [added, removed, altered].map(IpSet::to_string)
}

#[test]
fn nothing_changes() {
    assert!(change(&[]).is_empty());
    // The same subnet in other words, and an entry of one network in two.
    assert!(change(&[("10.0.1.2/24", "10.0.1.9/24")]).is_empty());
    let split = change(&[(
        r#""ips": ["10.49.27.205", "10.49.27.216~10.49.27.218"],
     "subnet": "10.49.27.0/24", "gateway": "10.49.27.1", "vlan": 2}"#,
        r#""ips": ["10.49.27.205"], "subnet": "10.49.27.0/24", "gateway": "10.49.27.1", "vlan": 2},
          {"nodeSubnets": ["10.49.27.0/24"], "ips": ["10.49.27.216~10.49.27.218"],
           "subnet": "10.49.27.0/24", "gateway": "10.49.27.1", "vlan": 2}"#,
    )]);
    assert!(split.is_empty(), "{split:?}");
}

#[test]
fn addresses_come_and_go() {
    let change = change(&[("10.0.70.2~10.0.70.20", "10.0.70.5~10.0.70.22")]);
    assert_eq!(
        told(&change),
        ["10.0.70.21~10.0.70.22", "10.0.70.2~10.0.70.4", ""]
    );
    assert!(!change.node_subnets && !change.is_empty());
}

#[test]
fn all_addresses_go() {
    let change = Change::between(&t(), &AddressConfig::default());
    assert_eq!(
        (
            change.removed.len(),
            change.added.len(),
            change.altered.len()
        ),
        (39, 0, 0)
    );
    assert!(change.node_subnets);
}

#[test]
fn addresses_stay_and_are_attached_in_another_way() {
    let all = "10.0.80.2~10.0.80.4";
    let cases = [
        (
            r#""gateway": "10.0.80.1""#,
            r#""gateway": "10.0.80.9""#,
            all,
            false,
        ),
        (
            r#""gateway": "10.0.80.1""#,
            r#""gateway": "10.0.80.1", "vlan": 9"#,
            all,
            false,
        ),
        ("10.0.80.0/24", "10.0.80.0/25", all, false),
        ("10.49.29.0/24", "10.49.29.0/25", all, true),
        // Another subnet that is there already: the set of all stays the same
        // only if nothing else goes.
        (
            r#""10.49.28.0/26", "10.49.29.0/24""#,
            r#""10.49.28.0/26", "10.49.29.0/24", "10.0.1.0/24""#,
            all,
            false,
        ),
    ];
    for (from, to, altered, node_subnets) in cases {
        let change = change(&[(from, to)]);
        assert_eq!(told(&change), ["", "", altered], "{to}");
        assert_eq!(change.node_subnets, node_subnets, "{to}");
        assert!(!change.is_empty());
    }
}

#[test]
fn an_address_can_move_to_another_entry() {
    let change = change(&[
        ("10.180.154.2~10.180.154.3", "10.180.154.2"),
        ("10.180.154.7~10.180.154.8", "10.180.154.3~10.180.154.8"),
    ]);
    assert_eq!(
        told(&change),
        ["10.180.154.4~10.180.154.6", "", "10.180.154.3"]
    );
}

#[test]
fn an_entry_without_addresses_can_still_move_nodes() {
    let entry =
        r#"{"nodeSubnets": ["10.0.1.0/26"], "subnet": "10.7.0.0/24", "gateway": "10.7.0.1"}, {"#;
    let text = T.replacen('{', entry, 1);
    let change = Change::between(&t(), &config(&text));
    assert_eq!(told(&change), ["", "", ""]);
    assert!(change.node_subnets && !change.is_empty());
}

#[test]
fn shared_addresses_come_and_go_and_change_hands() {
    let entry = |ips: &str, shared: &str, names: &str| {
        config(&format!(
            r#"[{{"nodeSubnets": ["10.0.1.0/24"], "subnet": "10.0.70.0/24", "gateway": "10.0.70.1",
                  "ips": ["{ips}"], "shared": ["{shared}"]{names}}}]"#
        ))
    };
    let shop = r#", "allowedNamespaces": ["shop"]"#;
    let old = entry("10.0.70.2~10.0.70.9", "10.0.70.20~10.0.70.29", "");
    let told = |new: &AddressConfig| {
        let change = Change::between(&old, new);
        assert_eq!(change.is_empty(), *new == old);
        let Change {
            added,
            removed,
            altered,
            shared_added,
            shared_removed,
            shared_altered,
            node_subnets,
        } = change;
        assert!(!node_subnets && altered.is_empty());
        [added, removed, shared_added, shared_removed, shared_altered].map(|it| it.to_string())
    };
    assert_eq!(told(&old.clone()), ["", "", "", "", ""]);
    assert_eq!(
        told(&entry("10.0.70.2~10.0.70.9", "10.0.70.25~10.0.70.31", "")),
        ["", "", "10.0.70.30~10.0.70.31", "10.0.70.20~10.0.70.24", ""]
    );
    assert_eq!(
        told(&entry("10.0.70.2~10.0.70.9", "10.0.70.25~10.0.70.29", shop)),
        ["", "", "", "10.0.70.20~10.0.70.24", "10.0.70.25~10.0.70.29"]
    );
    // From pods to shared.
    assert_eq!(
        told(&entry("10.0.70.2~10.0.70.5", "10.0.70.6~10.0.70.29", "")),
        ["", "10.0.70.6~10.0.70.9", "10.0.70.6~10.0.70.19", "", ""]
    );
}
