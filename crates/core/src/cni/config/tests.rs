use proptest::prelude::*;
use serde_json::json;

use super::*;

fn parse(json: &Value) -> NetConf {
    NetConf::parse(json.to_string().as_bytes()).unwrap()
}

fn refuse(json: &Value) -> CniError {
    NetConf::parse(json.to_string().as_bytes()).unwrap_err()
}

/// A small configuration with these members.
fn with(members: &Value) -> Value {
    let mut conf = json!({"cniVersion": "1.0.0", "name": "net", "type": "galaxy-k8s-vlan"});
    for (name, value) in members.as_object().unwrap() {
        conf[name] = value.clone();
    }
    conf
}

#[test]
fn a_configuration_is_read() {
    let conf = parse(&with(&json!({
        "device": "eth1",
        "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"},
        "dns": {"nameservers": ["10.0.0.2"], "domain": "", "search": null},
        "prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.5/24"}]},
    })));
    assert_eq!(conf.version, Version::V1_0_0);
    assert_eq!(
        (conf.name.as_str(), conf.kind.as_str()),
        ("net", "galaxy-k8s-vlan")
    );
    assert_eq!(conf.ipam.as_deref(), Some("host-local"));
    let dns = Dns {
        nameservers: vec!["10.0.0.2".to_owned()],
        ..Dns::default()
    };
    assert_eq!(conf.dns, dns);
    assert_eq!(
        conf.previous.unwrap().ips[0].address.to_string(),
        "10.0.0.5/24"
    );
    assert_eq!(conf.valid_attachments, None);
    assert_eq!(conf.members["ipam"]["subnet"], "10.0.0.0/24");
}

#[test]
fn what_is_optional_may_be_missing_or_null() {
    for members in [
        json!({}),
        json!({"ipam": null, "dns": null, "prevResult": null}),
        json!({"ipam": {}, "dns": {}}),
        json!({"ipam": {"type": ""}}),
    ] {
        let conf = parse(&with(&members));
        assert_eq!(conf.ipam, None);
        assert_eq!(conf.dns, Dns::default());
        assert_eq!(conf.previous, None);
    }
}

#[test]
fn a_configuration_without_version_is_answered_as_galaxy_does() {
    for version in [json!(null), json!("")] {
        assert_eq!(
            parse(&with(&json!({"cniVersion": version}))).version,
            Version::V0_2_0
        );
    }
    let conf = parse(&json!({"name": "net", "type": "x"}));
    assert_eq!(conf.version, Version::V0_2_0);
}

#[test]
fn what_cannot_be_read_is_refused_with_the_code_of_the_specification() {
    for (input, code) in [
        (&b""[..], 6),
        (b"\xff\xfe", 6),
        (b"{", 6),
        (b"[]", 6),
        (b"{} {}", 6),
        (b"{\"a\":1e999}", 6),
        (b"{}", 7),
    ] {
        let error = NetConf::parse(input).unwrap_err();
        assert_eq!(error.code.number(), code, "{error}");
    }
    let table = [
        (json!({"cniVersion": "1.2.0"}), 1),
        (json!({"cniVersion": 1}), 6),
        (json!({"name": ""}), 7),
        (json!({"name": null}), 7),
        (json!({"name": 5}), 7),
        (json!({"name": "a:b"}), 7),
        (json!({"name": "../x"}), 7),
        (json!({"type": ""}), 7),
        (json!({"type": "../../bin/sh"}), 7),
        (json!({"type": ".."}), 7),
        (json!({"ipam": "host-local"}), 7),
        (json!({"ipam": {"type": "/bin/sh"}}), 7),
        (json!({"ipam": {"type": 1}}), 7),
        (json!({"dns": []}), 7),
        (json!({"dns": {"nameservers": "10.0.0.2"}}), 7),
        (json!({"prevResult": 5}), 6),
        (json!({"prevResult": {"cniVersion": "9.0.0"}}), 1),
        (json!({"prevResult": {"ips": [{"address": "x"}]}}), 6),
    ];
    for (members, code) in table {
        let error = refuse(&with(&members));
        assert_eq!(error.code.number(), code, "{members}: {error}");
    }
    let mut deep = "[".repeat(10_000);
    deep.insert_str(0, "{\"a\":");
    assert_eq!(
        NetConf::parse(deep.as_bytes()).unwrap_err().code.number(),
        6
    );
}

#[test]
fn a_bad_previous_result_does_not_stop_clean_up() {
    let text = with(&json!({"prevResult": {"ips": [{"address": "x"}]}})).to_string();
    for command in [Command::Del, Command::Gc] {
        let conf = NetConf::parse_for(text.as_bytes(), command).unwrap();
        assert_eq!(conf.previous, None);
    }
    for command in [Command::Add, Command::Check, Command::Status] {
        let error = NetConf::parse_for(text.as_bytes(), command).unwrap_err();
        assert!(error.message.starts_with("prevResult: "), "{error}");
    }
}

#[test]
fn the_version_of_an_error_is_found_in_any_input() {
    for (input, version) in [
        (r#"{"cniVersion":"0.3.1"}"#, Version::V0_3_1),
        ("{}", Version::V0_2_0),
        (r#"{"cniVersion":"7.0.0"}"#, Version::LATEST),
        ("nonsense", Version::LATEST),
    ] {
        assert_eq!(NetConf::version_of(input.as_bytes()), version, "{input}");
    }
}

#[test]
fn members_of_a_plugin_are_read_in_any_case() {
    let conf = parse(&with(&json!({
        "Device": "eth1",
        "mtu": 9000,
        "MTU": 1,
        "disable_default_bridge": null,
    })));
    assert_eq!(conf.member::<String>("device").unwrap(), "eth1");
    assert_eq!(conf.member::<u32>("mtu").unwrap(), 9000);
    assert_eq!(conf.member::<Vec<String>>("devices").unwrap(), [""; 0]);
    let unset = conf.member::<Option<bool>>("disable_default_bridge");
    assert_eq!(unset.unwrap(), None);
    let error = conf.member::<bool>("mtu").unwrap_err();
    assert_eq!(error.code.number(), 7);
    assert!(error.message.contains("\"mtu\""), "{error}");
}

#[test]
fn valid_attachments_are_read_or_refused_as_a_whole() {
    let attachments = |members: &Value| {
        NetConf::parse(with(members).to_string().as_bytes()).map(|conf| conf.valid_attachments)
    };
    let one = vec![Attachment {
        container: "abc".to_owned(),
        ifname: "eth0".to_owned(),
    }];
    let list = json!([{"containerID": "abc", "ifname": "eth0"}]);
    for name in VALID_ATTACHMENTS {
        assert_eq!(
            attachments(&json!({name: list})).unwrap().as_ref(),
            Some(&one)
        );
        for empty in [json!([]), json!(null)] {
            assert_eq!(attachments(&json!({name: empty})).unwrap(), Some(vec![]));
        }
    }
    assert_eq!(attachments(&json!({})).unwrap(), None);
    for bad in [
        json!({}),
        json!("abc"),
        json!([{"containerID": "abc"}]),
        json!([["abc", "eth0"]]),
        json!([{"ifname": "eth0"}]),
        json!([{"containerID": "", "ifname": "eth0"}]),
        json!([{"containerID": "abc", "ifname": "a/b"}]),
    ] {
        let error = attachments(&json!({VALID_ATTACHMENTS[0]: bad})).unwrap_err();
        assert_eq!(error.code.number(), 7, "{bad}");
    }
}

#[test]
fn addresses_of_multus_are_read_like_those_of_cni_args() {
    let addresses = |args: Value| {
        let conf = json!({"name": "net", "type": "galaxy-k8s-vlan", "args": args});
        let conf = NetConf::parse(conf.to_string().as_bytes()).unwrap();
        conf.addresses()
    };
    let list = json!([{"ip": "10.0.0.5/24", "vlan": 2, "gateway": "10.0.0.1"}]);
    for told in [list.clone(), json!(list.to_string())] {
        let found = addresses(json!({"cni": {"ipinfos": told}}))
            .unwrap()
            .unwrap();
        assert_eq!(serde_json::to_value(found).unwrap(), list);
    }
    // What others put there is theirs.
    for other in [
        json!(null),
        json!({}),
        json!("x"),
        json!({"cni": null}),
        json!({"cni": ["x"]}),
        json!({"cni": {"ips": ["10.0.0.5"]}}),
        json!({"cni": {"ipinfos": null}}),
        json!({"cni": {"ipinfos": " "}}),
    ] {
        assert_eq!(addresses(other.clone()).unwrap(), None, "{other}");
    }
    for (bad, reason, part) in [
        (json!([]), "EmptyIpInfos", "empty ipInfos"),
        (json!({}), "InvalidIpInfos", "ipinfos in args.cni: "),
        (json!("["), "InvalidIpInfos", "ipinfos in args.cni: "),
        (
            json!([{"ip": "127.0.0.1/8", "gateway": "10.0.0.1"}]),
            "InvalidIpInfos",
            "127.0.0.1 cannot be the address of a pod",
        ),
    ] {
        let error = addresses(json!({"cni": {"ipinfos": bad}})).unwrap_err();
        assert_eq!((error.code.number(), error.reason), (7, reason), "{bad}");
        assert!(error.message.contains(part), "{error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = NetConf::parse(&bytes);
        let _ = NetConf::version_of(&bytes);
    }

    #[test]
    fn any_members_are_read_or_refused(
        members in prop::collection::btree_map(names(), crate::cni::result::tests::any_json(), 0..6),
    ) {
        let text = serde_json::to_string(&members).unwrap();
        if let Ok(conf) = NetConf::parse(text.as_bytes()) {
            prop_assert!(is_identifier(&conf.name));
            prop_assert_eq!(conf.version, NetConf::version_of(text.as_bytes()));
            prop_assert_eq!(conf.members.len(), members.len());
        }
    }
}

fn names() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "cniVersion",
        "name",
        "type",
        "Type",
        "ipam",
        "dns",
        "prevResult",
        "cni.dev/valid-attachments",
        "device",
    ])
    .prop_map(ToOwned::to_owned)
}
