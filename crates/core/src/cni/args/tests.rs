use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> CniArgs {
    CniArgs::parse(text).unwrap()
}

fn info(ip: &str, vlan: u16, gateway: &str) -> IpInfo {
    IpInfo {
        ip: ip.parse().unwrap(),
        vlan,
        gateway: gateway.parse().unwrap(),
    }
}

fn addresses(json: &str) -> Result<Option<Vec<IpInfo>>, CniArgsError> {
    parse(&format!(
        "IgnoreUnknown=1;ipinfos={json};K8S_POD_NAME=web-0"
    ))
    .addresses()
}

#[test]
fn names_and_values_are_read_in_order() {
    let args = parse("IgnoreUnknown=true; K8S_POD_NAMESPACE=ns;A=b=c;;E=;");
    let all: Vec<_> = args.iter().collect();
    assert_eq!(
        all,
        [
            ("IgnoreUnknown", "true"),
            ("K8S_POD_NAMESPACE", "ns"),
            ("A", "b=c"),
            ("E", ""),
        ]
    );
    assert_eq!(args.get("A"), Some("b=c"));
    assert_eq!(args.get("E"), Some(""));
    assert_eq!(args.get("a"), None);
    assert_eq!(parse(""), CniArgs::default());
    assert_eq!(parse(" ; "), CniArgs::default());
}

#[test]
fn a_part_without_name_or_value_is_refused() {
    assert_eq!(
        CniArgs::parse("A=1;B"),
        Err(CniArgsError::NoValue("B".to_owned()))
    );
    assert_eq!(
        CniArgs::parse("A=1; =2"),
        Err(CniArgsError::InvalidName(String::new()))
    );
}

#[test]
fn the_last_of_several_values_counts() {
    assert_eq!(parse("A=1;B=2;A=3").get("A"), Some("3"));
}

#[test]
fn a_value_is_added_or_replaces_all() {
    let mut args = parse("A=1;B=2;A=3");
    args.set("A", "4").unwrap();
    args.set("C", "x=y").unwrap();
    assert_eq!(args.to_string(), "A=4;B=2;C=x=y");
    assert_eq!(parse(&args.to_string()), args);
}

#[test]
fn a_value_cannot_smuggle_in_another_name() {
    let mut args = parse("K8S_POD_NAME=web-0");
    let before = args.clone();
    assert!(args.set("note", "x;K8S_POD_NAME=db-0").is_err());
    assert!(args.set("x;K8S_POD_NAME", "db-0").is_err());
    for name in ["", "a=b", " a", "a\0"] {
        assert!(args.set(name, "x").is_err(), "{name:?}");
    }
    assert!(args.set("a", "\0").is_err());
    assert_eq!(args, before);
    args.set_json("note", r#"{"a":"x;K8S_POD_NAME=db-0"}"#)
        .unwrap();
    let read = parse(&args.to_string());
    assert_eq!(read.get("K8S_POD_NAME"), Some("web-0"));
    let note: serde_json::Value = serde_json::from_str(read.get("note").unwrap()).unwrap();
    assert_eq!(note["a"], "x;K8S_POD_NAME=db-0");
}

#[test]
fn galaxys_addresses_are_read() {
    let text = r#"[{"ip":"192.168.0.68/26","vlan":2,"gateway":"192.168.0.65"}]"#;
    assert_eq!(
        addresses(text).unwrap().unwrap(),
        [info("192.168.0.68/26", 2, "192.168.0.65")]
    );
    let two = r#"[{"IP":"10.0.0.5/24","Gateway":"10.0.0.1","routable_subnet":null},
        {"ip":"fd00::5/64","vlan":4094,"gateway":"fe80::1"}]"#;
    assert_eq!(
        addresses(two).unwrap().unwrap(),
        [
            info("10.0.0.5/24", 0, "10.0.0.1"),
            info("fd00::5/64", 4094, "fe80::1")
        ]
    );
    let mapped = r#"[{"ip":"::ffff:10.0.0.5/120","gateway":"::ffff:10.0.0.1"}]"#;
    assert_eq!(
        addresses(mapped).unwrap().unwrap(),
        [info("10.0.0.5/24", 0, "10.0.0.1")]
    );
}

#[test]
fn no_addresses_and_an_empty_list_are_two_things() {
    assert_eq!(parse("A=1").addresses(), Ok(None));
    assert_eq!(parse("ipinfos=").addresses(), Ok(None));
    for empty in ["[]", "null", " [ ] "] {
        let error = addresses(empty).unwrap_err();
        assert_eq!(error, CniArgsError::NoAddresses);
        assert_eq!(
            CniError::from(error).to_string(),
            "EmptyIpInfos: empty ipInfos"
        );
    }
}

#[test]
fn addresses_that_no_node_could_set_up_are_refused() {
    let one = |ip: &str, rest: &str| format!(r#"[{{"ip":"{ip}"{rest}}}]"#);
    let v4 = r#","gateway":"10.0.0.1""#;
    let table = [
        ("{}".to_owned(), "expected an array, found an object"),
        ("[".to_owned(), "ends too early"),
        (
            "[null]".to_owned(),
            "[0]: expected an address with gateway, found null",
        ),
        (
            "[[]]".to_owned(),
            "[0]: expected an address with gateway, found an array",
        ),
        ("[{}]".to_owned(), "not an address with gateway"),
        (one("10.0.0.5", v4), "not an address with gateway"),
        (one("10.0.0.5/33", v4), "not an address with gateway"),
        (one("10.0.0.5/24", ""), "not an address with gateway"),
        (
            one("10.0.0.5/24", r#","gateway":"""#),
            "not an address with gateway",
        ),
        (
            one("10.0.0.5/24", r#","gateway":"fd00::1""#),
            "another family",
        ),
        (one("fd00::5/64", v4), "another family"),
        (
            one("10.0.0.5/24", r#","gateway":"10.0.0.1","vlan":4095"#),
            "vlan 4095 of 10.0.0.5 is above 4094",
        ),
        (
            one("10.0.0.5/24", r#","gateway":"10.0.0.1","vlan":-1"#),
            "vlan: expected a whole number from 0 to 65535, found the number -1",
        ),
        (
            one("10.0.0.5/24", r#","gateway":"10.0.0.1","vlan":"2""#),
            "vlan: expected a whole number from 0 to 65535, found the string",
        ),
        (
            one("10.0.0.5/0", v4),
            "10.0.0.5 has prefix length 0; correct the field subnet",
        ),
        (one("0.0.0.0/0", v4), "cannot be the address of a pod"),
        (one("127.0.0.1/8", v4), "cannot be the address of a pod"),
        (one("224.0.0.5/24", v4), "cannot be the address of a pod"),
        (
            one("255.255.255.255/32", v4),
            "cannot be the address of a pod",
        ),
        (
            one("::/0", r#","gateway":"::1""#),
            "cannot be the address of a pod",
        ),
        (
            r#"[{"ip":"10.0.0.5/24","gateway":"10.0.0.1"},
                {"ip":"::ffff:10.0.0.5/112","gateway":"10.0.0.1","vlan":2}]"#
                .to_owned(),
            "10.0.0.5 is there twice",
        ),
    ];
    for (json, why) in table {
        let error = addresses(&json).unwrap_err();
        assert!(error.to_string().contains(why), "{json}: {error}");
        assert_eq!(error.reason(), "InvalidIpInfos");
        assert_eq!(CniError::from(error).code.number(), 4);
    }
}

#[test]
fn a_pod_has_eight_addresses_at_most() {
    let list = |count: usize| {
        let infos: Vec<IpInfo> = (1..=count)
            .map(|last| info(&format!("10.0.0.{last}/24"), 0, "10.0.0.254"))
            .collect();
        addresses(&serde_json::to_string(&infos).unwrap())
    };
    assert_eq!(list(8).unwrap().unwrap().len(), 8);
    let error = list(9).unwrap_err().to_string();
    assert!(error.contains("9 addresses, at most 8"), "{error}");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(([A-Za-z =]{0,4}|ipinfos)=?[^;]{0,40};?){0,5}") {
        if let Ok(args) = CniArgs::parse(&text) {
            prop_assert_eq!(&CniArgs::parse(&args.to_string()).unwrap(), &args);
            let _ = args.addresses();
        }
    }

    #[test]
    fn any_value_of_ipinfos_is_read_or_refused(value in "[\\[\\]{}\":,ipvlangtewy0-9./ ]{0,60}") {
        let mut args = CniArgs::default();
        args.set(IPINFOS, &value).unwrap();
        if let Ok(Some(infos)) = args.addresses() {
            prop_assert!(!infos.is_empty());
        }
    }

    #[test]
    fn what_is_set_is_read_back(
        pairs in prop::collection::vec(("[A-Za-z_]{1,5}", "[ -:<-~]{0,9}"), 0..9),
    ) {
        let mut args = CniArgs::default();
        for (name, value) in &pairs {
            args.set(name, value).unwrap();
        }
        let read = CniArgs::parse(&args.to_string()).unwrap();
        prop_assert_eq!(&read, &args);
        for (name, _) in &pairs {
            let last = pairs.iter().rev().find(|(known, _)| known == name);
            prop_assert_eq!(read.get(name), last.map(|(_, value)| value.as_str()));
        }
    }
}
