use proptest::{collection::btree_map, option, prelude::*};
use serde_json::json;

use super::*;

/// What a daemon of galaxy writes for two networks.
const GALAXY: &str = r#"[{"NetworkType":"galaxy-flannel","Args":null,"Conf":{"delegate":{"type":"galaxy-veth"},"name":"galaxy-flannel","type":"galaxy-flannel"},"IfName":"eth0"},{"NetworkType":"galaxy-k8s-vlan","Args":{"ipinfos":"[{\"ip\":\"10.49.27.205/24\",\"vlan\":2,\"gateway\":\"10.49.27.1\"}]"},"Conf":{"device":"eth1","mtu":1500,"type":"galaxy-k8s-vlan"},"IfName":"eth1"}]"#;

fn attached() -> Attached {
    let conf = json!({"name":"lan","type":"galaxy-k8s-vlan","cniVersion":"1.0.0"});
    Attached {
        kind: "lan".into(),
        args: BTreeMap::from([("ipinfos".into(), "[]".into())]),
        conf: conf.as_object().unwrap().clone(),
        ifname: "eth0".into(),
        netns: Some("/var/run/netns/cni-1".into()),
        pod: Some(PodId {
            namespace: "ns1".into(),
            name: "a-0".into(),
            uid: "u1".into(),
        }),
        taken_off: BTreeSet::new(),
    }
}

#[test]
fn a_file_of_galaxy_is_read() {
    let state = State::parse(GALAXY).unwrap();
    let [flannel, vlan] = &state.attached[..] else {
        panic!("{state:?}")
    };
    assert_eq!(flannel.plugin(), "galaxy-flannel");
    assert_eq!(flannel.args, BTreeMap::new());
    assert_eq!(flannel.addresses(), []);
    assert_eq!(flannel.ifname, "eth0");
    assert_eq!(vlan.plugin(), "galaxy-k8s-vlan");
    assert_eq!(vlan.conf["mtu"], 1500);
    assert_eq!(vlan.ifname, "eth1");
    assert_eq!(vlan.addresses()[0].ip.to_string(), "10.49.27.205/24");
    assert_eq!(vlan.addresses()[0].vlan, 2);
    assert_eq!((&vlan.netns, &vlan.pod), (&None, &None));
    assert_eq!(state.pod(), None);
}

#[test]
fn a_file_of_floe_is_galaxys_with_two_more_members() {
    let state = State {
        attached: vec![attached()],
    };
    assert_eq!(
        state.to_json(),
        concat!(
            r#"[{"NetworkType":"lan","Args":{"ipinfos":"[]"},"#,
            r#""Conf":{"cniVersion":"1.0.0","name":"lan","type":"galaxy-k8s-vlan"},"IfName":"eth0","#,
            r#""Netns":"/var/run/netns/cni-1","#,
            r#""Pod":{"Namespace":"ns1","Name":"a-0","Uid":"u1"}}]"#,
        )
    );
    assert_eq!(State::parse(&state.to_json()), Ok(state.clone()));
    assert_eq!(state.pod(), state.attached[0].pod.as_ref());
    // Without them it is galaxy's, to the letter.
    let galaxys = State::parse(GALAXY).unwrap().to_json();
    assert_eq!(galaxys, GALAXY.replace("\"Args\":null", "\"Args\":{}"));
}

#[test]
fn nothing_attached_is_an_empty_list() {
    assert_eq!(State::default().to_json(), "[]");
    for text in ["[]", "null", " [ ] "] {
        assert_eq!(State::parse(text), Ok(State::default()), "{text}");
    }
}

#[test]
fn unknown_members_and_other_cases_do_no_harm() {
    let text = r#"[{"networktype":"a","More":[1],"conf":{},"ARGS":{"n":{"a":1},"x":null},"Pod":{"Name":"p"}}]"#;
    let state = State::parse(text).unwrap();
    let one = &state.attached[0];
    assert_eq!(one.plugin(), "a");
    assert_eq!(one.args["n"], r#"{"a":1}"#);
    assert_eq!(one.args["x"], "null");
    assert_eq!(one.pod.as_ref().unwrap().name, "p");
}

#[test]
fn the_plugin_is_the_type_of_the_configuration() {
    assert_eq!(attached().plugin(), "galaxy-k8s-vlan");
    let without = Attached {
        conf: Map::new(),
        ..attached()
    };
    assert_eq!(without.plugin(), "lan");
}

#[test]
fn an_address_was_configured_by_the_plugin_whose_result_names_it() {
    let ip: IpAddr = "10.0.0.5".parse().unwrap();
    assert_eq!(attached().has_configured(ip), None);
    let mut one = attached();
    let result = json!({ "cniVersion": "1.0.0", "ips": [{ "address": "10.0.0.5/24" }] });
    one.conf.insert("prevResult".into(), result);
    assert_eq!(one.has_configured(ip), Some(true));
    assert_eq!(one.has_configured("10.0.0.6".parse().unwrap()), Some(false));
}

#[test]
fn addresses_that_cannot_be_read_are_none() {
    for text in ["", "{}", "[1]", r#"[{"ip":"10.0.0.1"}]"#, "null"] {
        let one = Attached {
            args: BTreeMap::from([("ipinfos".into(), text.into())]),
            ..attached()
        };
        assert_eq!(one.addresses(), [], "{text}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let table = [
        ("", "state file: the text is empty"),
        ("{}", "state file: expected an array, found an object"),
        ("[1]", "state file: element 1: not an object"),
        (
            r#"[{"NetworkType":"a"},{"NetworkType":1}]"#,
            "state file: element 2: \"NetworkType\" is not a string",
        ),
        (
            r#"[{"NetworkType":"a","Args":[]}]"#,
            "element 1: \"Args\" is not an object",
        ),
        (
            r#"[{"NetworkType":"a","Conf":"x"}]"#,
            "element 1: \"Conf\" is not an object",
        ),
        (
            r#"[{"NetworkType":"a","Pod":{"Uid":1}}]"#,
            "element 1: \"Uid\" is not a string",
        ),
        ("[{}]", "element 1: it names no plugin"),
    ];
    for (text, wanted) in table {
        let error = State::parse(text).unwrap_err();
        assert!(error.to_string().contains(wanted), "{text}: {error}");
        assert_eq!(error.reason(), "StateMalformed");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("\\PC{0,6}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_attached() -> impl Strategy<Value = Attached> {
    let pod = ["\\PC{0,6}", "\\PC{0,6}", "\\PC{0,6}"];
    (
        "\\PC{1,12}",
        btree_map("\\PC{0,6}", "\\PC{0,12}", 0..4),
        btree_map("\\PC{0,6}", any_value(), 0..4),
        "\\PC{0,8}",
        option::of("\\PC{0,12}"),
        option::of(pod),
        proptest::collection::btree_set(any::<IpAddr>(), 0..3),
    )
        .prop_map(
            |(kind, args, conf, ifname, netns, pod, taken_off)| Attached {
                kind,
                args,
                conf: conf.into_iter().collect(),
                ifname,
                netns,
                pod: pod.map(|[namespace, name, uid]| PodId {
                    namespace,
                    name,
                    uid,
                }),
                taken_off,
            },
        )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(attached in proptest::collection::vec(any_attached(), 0..4)) {
        let state = State { attached };
        prop_assert_eq!(State::parse(&state.to_json()), Ok(state));
    }

    #[test]
    fn garbage_is_refused_or_read_and_never_panics(
        text in r#"\PC{0,60}|(\{|\}|\[|\]|,|:|"NetworkType"|"Args"|"Conf"|"Pod"|"a"|null|1){0,24}"#,
    ) {
        if let Ok(state) = State::parse(&text) {
            prop_assert_eq!(State::parse(&state.to_json()), Ok(state));
        }
    }
}
