use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn settings(default: &[&str], eni: Option<&str>) -> Settings {
    Settings {
        default_networks: default.iter().map(|name| (*name).to_owned()).collect(),
        eni_ip_network: eni.map(Into::into),
        ..Settings::default()
    }
}

fn of(annotation: &str, ifname: &str) -> Result<String, NetworksError> {
    let wanted = Wanted {
        annotation: Some(annotation),
        wants_address: true,
        ifname,
    };
    select(wanted, &settings(&["other"], Some("another"))).map(|list| text(&list))
}

fn text(list: &[Selected]) -> String {
    let text = list
        .iter()
        .map(|one| format!("{}@{}", one.network, one.ifname));
    text.collect::<Vec<_>>().join(",")
}

#[test]
fn without_annotation_the_settings_decide() {
    let table = [
        (None, true, Some("eni"), Ok("eni@net0")),
        (Some(""), true, Some("eni"), Ok("eni@net0")),
        (None, false, Some("eni"), Ok("a@net0,b@eth1,c@eth2")),
        (None, true, None, Ok("a@net0,b@eth1,c@eth2")),
        (None, true, Some(""), Ok("a@net0,b@eth1,c@eth2")),
    ];
    for (annotation, wants_address, eni, wanted) in table {
        let asked = Wanted {
            annotation,
            wants_address,
            ifname: "net0",
        };
        let selected = select(asked, &settings(&["a", "b", "c"], eni));
        assert_eq!(
            selected.as_deref().map(text),
            wanted
                .map(Into::into)
                .map_err(|()| unreachable!("all are selected")),
            "{asked:?} {eni:?}"
        );
        let error = select(
            Wanted {
                wants_address: false,
                ..asked
            },
            &settings(&[], eni),
        );
        assert_eq!(error, Err(NetworksError::None));
    }
}

#[test]
fn a_list_names_networks_and_interfaces() {
    let table = [
        ("galaxy-k8s-vlan", "galaxy-k8s-vlan@eth0"),
        ("a,b,c", "a@eth0,b@eth1,c@eth2"),
        (" a , ns/b@net1 ,\tc ", "a@eth0,b@net1,c@eth2"),
        // The first is where the runtime wants it, whatever is asked for.
        ("a@net7,b", "a@eth0,b@eth1"),
        // The same network twice.
        (
            "ns/galaxy-flannel@eth0, ns/galaxy-flannel@eth1",
            "galaxy-flannel@eth0,galaxy-flannel@eth1",
        ),
        (
            "test-ns/galaxy-flannel@eth0, test-ns/galaxy-k8s-vlan@eth1",
            "galaxy-flannel@eth0,galaxy-k8s-vlan@eth1",
        ),
        // Empty namespace or interface.
        ("/a", "a@eth0"),
        ("a@", "a@eth0"),
        ("a,b@", "a@eth0,b@eth1"),
        ("ns / a @ eth0", "a@eth0"),
        // Any other text is a name too.
        ("null", "null@eth0"),
        ("0", "0@eth0"),
    ];
    for (annotation, wanted) in table {
        assert_eq!(of(annotation, "eth0"), Ok(wanted.into()), "{annotation}");
    }
}

#[test]
fn a_list_with_anything_else_is_refused() {
    let table = [
        ("A", "A"),
        ("a_b", "a_b"),
        ("a.b", "a.b"),
        ("-a", "-a"),
        ("a-", "a-"),
        ("a/b/c", "a/b/c"),
        ("a@b@c", "a@b@c"),
        ("a, b c", "b c"),
        ("ns/a@é", "ns/a@é"),
        ("NS/a", "NS/a"),
        ("a,", ""),
        (",", ""),
        (" ", ""),
        ("ns/@eth1", "ns/@eth1"),
        ("a@b/c", "a@b/c"),
    ];
    for (annotation, part) in table {
        let error = of(annotation, "eth0").unwrap_err();
        assert_eq!(error, NetworksError::Malformed(part.into()), "{annotation}");
        assert_eq!(error.reason(), "InvalidNetworks");
    }
}

#[test]
fn json_names_networks_and_interfaces() {
    let table = [
        (r#"[{"name":"a"}]"#, "a@eth0"),
        (
            r#" [{"name":"a","interface":"net1"},{"name":"b"},{"name":"c","interface":"net2"}]"#,
            "a@eth0,b@eth1,c@net2",
        ),
        (
            r#"[{"name":"a","namespace":"ns","ips":["10.0.0.1"],"mac":"x","more":{}},{"Name":"B.b","interface":null}]"#,
            "a@eth0,B.b@eth1",
        ),
    ];
    for (annotation, wanted) in table {
        assert_eq!(of(annotation, "eth0"), Ok(wanted.into()), "{annotation}");
    }
    assert_eq!(of("[]", "eth0"), Err(NetworksError::None));
    assert_eq!(NetworksError::None.reason(), "NoNetwork");
}

#[test]
fn json_of_another_form_is_refused() {
    for (annotation, part) in [
        ("[", "ends too early"),
        (r#"{"name":"a"}"#, "expected an array"),
        (r#""a""#, "expected an array"),
        (r#"a,"b""#, "syntax error in JSON at line 1 column 1"),
        ("[1]", "element 1: not an object"),
        (r#"[{"name":"a"},null]"#, "element 2: not an object"),
        (r#"[{"name":1}]"#, "element 1: \"name\" is not a string"),
        (
            r#"[{"name":"a","interface":[]}]"#,
            "\"interface\" is not a string",
        ),
        (r"[{}]", "element 1: it has no \"name\""),
        (r#"[{"name":""}]"#, "element 1: it has no \"name\""),
    ] {
        let error = of(annotation, "eth0").unwrap_err();
        assert!(matches!(error, NetworksError::NotJson(_)), "{annotation}");
        assert!(error.to_string().contains(part), "{annotation}: {error}");
    }
}

#[test]
fn an_interface_is_for_one_network() {
    for (annotation, ifname, clash) in [
        ("a,b@eth0", "eth0", "eth0"),
        ("a,b", "eth1", "eth1"),
        ("a,b@net1,c@net1", "eth0", "net1"),
        ("a,b@eth2,c", "eth0", "eth2"),
        (
            r#"[{"name":"a"},{"name":"a","interface":"eth0"}]"#,
            "eth0",
            "eth0",
        ),
    ] {
        let error = of(annotation, ifname).unwrap_err();
        let NetworksError::SameInterface { ifname, .. } = &error else {
            panic!("{annotation}: {error}")
        };
        assert_eq!(ifname, clash, "{annotation}");
        assert_eq!(error.reason(), "SameInterface");
    }
}

#[test]
fn an_interface_has_a_name_that_the_kernel_takes() {
    for annotation in [
        "a,b@abcdefghijklmnop",
        r#"[{"name":"a"},{"name":"b","interface":"../x"}]"#,
        r#"[{"name":"a"},{"name":"b","interface":" "}]"#,
        r#"[{"name":"a"},{"name":"b","interface":".."}]"#,
    ] {
        let error = of(annotation, "eth0").unwrap_err();
        assert!(
            matches!(&error, NetworksError::Interface { network, .. } if network == "b"),
            "{annotation}: {error}"
        );
    }
}

proptest! {
    #[test]
    fn whatever_is_selected_has_names_and_interfaces_of_its_own(
        annotation in r#"[\[\]{}",@/ :a-c0-1\-nameitrfc]{0,60}|\PC{0,40}"#,
        ifname in "eth[0-3]",
    ) {
        let wanted = Wanted {
            annotation: Some(&annotation),
            wants_address: false,
            ifname: &ifname,
        };
        if let Ok(list) = select(wanted, &settings(&["a", "a"], None)) {
            prop_assert_eq!(&list[0].ifname, &ifname);
            prop_assert!(list.iter().all(|one| !one.network.is_empty()));
            let ifnames: BTreeSet<&String> = list.iter().map(|one| &one.ifname).collect();
            prop_assert_eq!(ifnames.len(), list.len());
        }
    }

    #[test]
    fn a_part_is_a_label_or_refused(name in "[a-c0-1\\-A._]{1,6}") {
        let by_regex = !name.starts_with('-')
            && !name.ends_with('-')
            && name.chars().all(|c| c == '-' || c.is_ascii_lowercase() || c.is_ascii_digit());
        prop_assert_eq!(of(&name, "eth0").is_ok(), by_regex);
    }
}
