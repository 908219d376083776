use std::time::Duration;

use floe_core::cni::error::Code;
use floe_net::announce::ArpForm;

use super::*;

fn parse(members: &str) -> Result<Vlan, CniError> {
    let text =
        format!(r#"{{"cniVersion":"1.0.0","name":"net","type":"galaxy-k8s-vlan"{members}}}"#);
    Vlan::parse(&NetConf::parse(text.as_bytes()).unwrap())
}

#[test]
fn a_device_is_enough() {
    let vlan = parse(r#","device":"eth1""#).unwrap();
    assert_eq!(
        vlan,
        Vlan {
            options: Options {
                window: Some(Duration::from_millis(200)),
                arp: ArpForm::Reply,
                mtu: None
            },
            devices: vec!["eth1".into()],
            switch: Switch::Bridge,
            disable_default_bridge: None,
            default_bridge: "docker".into(),
            bridge_prefix: "docker".into(),
            prefix: "vlan".into(),
        }
    );
}

#[test]
fn everything_can_be_configured() {
    let vlan = parse(
        r#","device":"","devices":["a","b"],"switch":"ipvlan","ipvlan_mode":"l3s",
        "disable_default_bridge":false,"default_bridge_name":"br","bridge_name_prefix":"b",
        "vlan_name_prefix":"v.","gratuitous_arp_request":true,"mtu":9000,
        "duplicate_address_detection":true,"duplicate_address_window_ms":2000"#,
    );
    assert_eq!(
        vlan.unwrap(),
        Vlan {
            options: Options {
                window: Some(Duration::from_secs(2)),
                arp: ArpForm::Request,
                mtu: Some(9000)
            },
            devices: vec!["a".into(), "b".into()],
            switch: Switch::Ipvlan(IpvlanMode::L3s),
            disable_default_bridge: Some(false),
            default_bridge: "br".into(),
            bridge_prefix: "b".into(),
            prefix: "v.".into(),
        }
    );
}

#[test]
fn the_mode_of_ipvlan_is_l3_unless_told() {
    let modes = [
        ("", IpvlanMode::L3),
        (r#","ipvlan_mode":"l2""#, IpvlanMode::L2),
        (r#","ipvlan_mode":"l3""#, IpvlanMode::L3),
    ];
    for (text, mode) in modes {
        let vlan = parse(&format!(r#","device":"e","switch":"ipvlan"{text}"#)).unwrap();
        assert_eq!(vlan.switch, Switch::Ipvlan(mode), "{text}");
    }
}

#[test]
fn detection_can_be_off_and_an_mtu_of_zero_is_none() {
    let options = parse(r#","device":"e","duplicate_address_detection":false,"mtu":0"#)
        .unwrap()
        .options;
    assert_eq!((options.window, options.mtu), (None, None));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let cases = [
        ("", "a device is needed to use vlan plugin"),
        (r#","devices":[]"#, "a device is needed to use vlan plugin"),
        (
            r#","device":"e","switch":"hub""#,
            "switch \"hub\" is not bridge, macvlan, ipvlan or pure",
        ),
        (
            r#","device":"e","switch":"ipvlan","ipvlan_mode":"l4""#,
            "ipvlan_mode \"l4\" is not l2, l3 or l3s",
        ),
        (
            r#","device":"e","duplicate_address_window_ms":2001"#,
            "duplicate_address_window_ms must be from 1 to 2000",
        ),
        (
            r#","device":"e","duplicate_address_window_ms":0"#,
            "duplicate_address_window_ms must be from 1 to 2000",
        ),
    ];
    for (members, message) in cases {
        let error = parse(members).unwrap_err();
        assert_eq!(error.code, Code::InvalidConfiguration, "{members}");
        assert_eq!(error.reason, "InvalidConfiguration", "{members}");
        assert_eq!(error.message, message, "{members}");
    }
    for members in [
        r#","device":7"#,
        r#","device":"e","mtu":-1"#,
        r#","device":"e","duplicate_address_detection":"yes""#,
    ] {
        assert!(parse(members).is_err(), "{members}");
    }
}
