use proptest::prelude::*;
use serde_json::json;

use super::*;

/// As galaxy's documentation shows it.
const GALAXY: &str = r#"{
  "NetworkConf": [
    {"name":"tke-route-eni","type":"tke-route-eni","eni":"eth1","routeTable":1},
    {"name":"galaxy-flannel","type":"galaxy-flannel","delegate":{"type":"galaxy-veth"},"subnetFile":"/run/flannel/subnet.env"},
    {"type":"galaxy-k8s-vlan","device":"eth1","default_bridge_name":"br0"}
  ],
  "DefaultNetworks": ["galaxy-flannel"],
  "ENIIPNetwork": "galaxy-k8s-vlan",
  "somebody": "else's"
}"#;

fn map(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else {
        panic!("{value} is not an object")
    };
    map
}

#[test]
fn galaxys_file_is_read() {
    let settings = Settings::parse(GALAXY).unwrap();
    let names: Vec<&String> = settings.networks.keys().collect();
    assert_eq!(
        names,
        ["galaxy-flannel", "galaxy-k8s-vlan", "tke-route-eni"]
    );
    assert_eq!(settings.default_networks, ["galaxy-flannel"]);
    assert_eq!(settings.eni_ip_network.as_deref(), Some("galaxy-k8s-vlan"));
    assert_eq!(
        settings.networks["galaxy-k8s-vlan"],
        NetworkConfig {
            name: "galaxy-k8s-vlan".into(),
            cni_version: None,
            plugins: vec![map(
                json!({"type":"galaxy-k8s-vlan","device":"eth1","default_bridge_name":"br0"})
            )],
            disable_check: false,
        }
    );
}

#[test]
fn little_is_needed() {
    for text in [
        "{}",
        r#"{"NetworkConf":null,"DefaultNetworks":null,"ENIIPNetwork":null}"#,
        r#"{"NetworkConf":[],"DefaultNetworks":[],"ENIIPNetwork":""}"#,
    ] {
        assert_eq!(Settings::parse(text), Ok(Settings::default()), "{text}");
    }
    // Compat: Go's reader does not look at the case of names.
    let settings = Settings::parse(r#"{"networkconf":[{"type":"a"}],"eniIPNetwork":"a"}"#).unwrap();
    assert!(settings.networks.contains_key("a"));
    assert_eq!(settings.eni_ip_network.as_deref(), Some("a"));
}

#[test]
fn what_is_wrong_with_galaxys_file_is_said() {
    let table = [
        ("", "the text is empty"),
        ("nope", "syntax error in JSON at line 1"),
        ("[]", "not a JSON object"),
        (r#"{"NetworkConf":{}}"#, "\"NetworkConf\" is not a list"),
        (
            r#"{"NetworkConf":[1]}"#,
            "number 1 of NetworkConf is not an object",
        ),
        (
            r#"{"NetworkConf":[{"type":"a"},{"device":"eth0"}]}"#,
            "network configuration number 2 of NetworkConf has no \"type\"",
        ),
        (
            r#"{"NetworkConf":[{"name":"a"}]}"#,
            "network configuration a has neither \"type\" nor \"plugins\"",
        ),
        (
            r#"{"NetworkConf":[{"type":1}]}"#,
            "\"type\" of a network configuration is not a string",
        ),
        (
            r#"{"NetworkConf":[{"name":[],"type":"a"}]}"#,
            "\"name\" of a network configuration is not a string",
        ),
        (
            r#"{"NetworkConf":[{"type":"../sh"}]}"#,
            "network configuration ../sh: \"../sh\" is not the name of a plugin",
        ),
        (
            r#"{"NetworkConf":[{"type":"a"},{"name":"a","type":"b"}]}"#,
            "multiple network configuration with name a",
        ),
        (
            r#"{"NetworkConf":[{"plugins":[{"type":"a"}]}]}"#,
            "number 1 of NetworkConf has no \"name\"",
        ),
        (
            r#"{"DefaultNetworks":[1]}"#,
            "\"DefaultNetworks\" is not a string",
        ),
        (
            r#"{"DefaultNetworks":"a"}"#,
            "\"DefaultNetworks\" is not a list",
        ),
        (r#"{"ENIIPNetwork":1}"#, "\"ENIIPNetwork\" is not a string"),
    ];
    for (text, wanted) in table {
        let error = Settings::parse(text).unwrap_err();
        assert!(error.to_string().contains(wanted), "{text}: {error}");
        let duplicate = wanted.starts_with("multiple");
        assert_eq!(error.reason() == "DuplicateNetwork", duplicate, "{text}");
    }
}

#[test]
fn a_file_with_one_plugin_is_a_network() {
    let network = NetworkConfig::parse(
        r#"{"cniVersion":"0.3.1","name":"lan","type":"macvlan","master":"eth0","kubeconfig":"/secret"}"#,
    )
    .unwrap();
    assert_eq!(network.name, "lan");
    assert_eq!(network.cni_version.as_deref(), Some("0.3.1"));
    assert_eq!(
        network.plugins,
        [map(
            json!({"cniVersion":"0.3.1","name":"lan","type":"macvlan","master":"eth0"})
        )]
    );
}

#[test]
fn a_list_is_a_network_with_its_plugins_in_order() {
    let network = NetworkConfig::parse(
        r#"{"cniVersion":"1.0.0","name":"lan","disableCheck":true,"kubeconfig":"/secret",
            "plugins":[{"type":"bridge","kubeconfig":"/secret"},{"type":"tuning"}]}"#,
    )
    .unwrap();
    let wanted = [json!({"type":"bridge"}), json!({"type":"tuning"})].map(map);
    assert_eq!(network.plugins, wanted);
    assert_eq!(network.cni_version.as_deref(), Some("1.0.0"));
    assert!(network.disable_check);
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let table = [
        ("", "the text is empty"),
        ("nope", "syntax error in JSON at line 1"),
        ("7", "not a JSON object"),
        ("{}", "a network configuration has no \"name\""),
        (r#"{"type":"a"}"#, "a network configuration has no \"name\""),
        (
            r#"{"plugins":[{"type":"a"}]}"#,
            "a network configuration has no \"name\"",
        ),
        (
            r#"{"name":"a"}"#,
            "network configuration a has neither \"type\" nor \"plugins\"",
        ),
        (
            r#"{"name":"a","plugins":[]}"#,
            "a has neither \"type\" nor \"plugins\"",
        ),
        (
            r#"{"name":"a","plugins":{}}"#,
            "a has neither \"type\" nor \"plugins\"",
        ),
        (
            r#"{"name":"a","plugins":[1]}"#,
            "network configuration a: plugin 1 is not an object",
        ),
        (
            r#"{"name":"a","plugins":[{"type":"b"},{}]}"#,
            "network configuration a, plugin 2, has no \"type\"",
        ),
        (
            r#"{"name":"a","type":"b","cniVersion":1}"#,
            "\"cniVersion\" of a network",
        ),
        (
            r#"{"name":"a","plugins":[{"type":"x/y"}]}"#,
            "\"x/y\" is not the name of a plugin",
        ),
        (
            r#"{"name":"a","type":".."}"#,
            "\"..\" is not the name of a plugin",
        ),
    ];
    for (text, wanted) in table {
        let error = NetworkConfig::parse(text).unwrap_err();
        assert!(error.to_string().contains(wanted), "{text}: {error}");
        assert_eq!(error.reason(), "InvalidNetworkConfiguration");
    }
}

#[test]
fn a_plugin_is_told_name_and_version() {
    let settings = Settings::parse(GALAXY).unwrap();
    let network = &settings.networks["galaxy-k8s-vlan"];
    assert_eq!(
        network.plugin_config(0, "1.0.0", None),
        Some(map(json!({
            "name":"galaxy-k8s-vlan", "cniVersion":"1.0.0", "type":"galaxy-k8s-vlan",
            "device":"eth1", "default_bridge_name":"br0"
        })))
    );
    assert_eq!(network.plugin_config(1, "1.0.0", None), None);
}

#[test]
fn a_network_that_names_its_version_is_spoken_to_in_it() {
    let list = NetworkConfig::parse(
        r#"{"cniVersion":"0.4.0","name":"lan",
            "plugins":[{"type":"bridge","cniVersion":"0.3.0","name":"own","prevResult":{}},{"type":"tuning"}]}"#,
    )
    .unwrap();
    assert_eq!(list.version("1.1.0"), "0.4.0");
    for index in [0, 1] {
        let conf = list.plugin_config(index, "1.1.0", None).unwrap();
        assert_eq!(conf["cniVersion"], "0.4.0");
        assert_eq!(conf["name"], "lan");
        assert!(
            !conf.contains_key("prevResult"),
            "a file has no say in results"
        );
    }
    let silent = NetworkConfig::parse(r#"{"name":"lan","type":"bridge","cniVersion":""}"#).unwrap();
    assert_eq!(silent.version("1.1.0"), "1.1.0");
}

#[test]
fn a_plugin_gets_what_its_capabilities_ask_for() {
    let list = NetworkConfig::parse(
        r#"{"name":"lan","plugins":[
            {"type":"bridge","capabilities":{"mac":false,"ips":true}},
            {"type":"portmap","capabilities":{"portMappings":true}},
            {"type":"tuning"}]}"#,
    )
    .unwrap();
    let given = map(json!({"portMappings":[{"hostPort":80}],"mac":"x"}));
    let told = |index| {
        let conf = list.plugin_config(index, "1.0.0", Some(&given)).unwrap();
        conf.get("runtimeConfig").cloned()
    };
    assert_eq!(told(0), None);
    assert_eq!(told(1), Some(json!({"portMappings":[{"hostPort":80}]})));
    assert_eq!(told(2), None);
}

proptest! {
    #[test]
    fn whatever_is_read_has_plugins_with_types(
        text in r#"\PC{0,60}|(\{|\}|\[|\]|,|:|"name"|"type"|"plugins"|"NetworkConf"|"a"|null|1){0,24}"#,
    ) {
        let all = Settings::parse(&text).into_iter().flat_map(|settings| settings.networks.into_values());
        for network in all.chain(NetworkConfig::parse(&text)) {
            prop_assert!(!network.name.is_empty());
            prop_assert!(!network.plugins.is_empty());
            for plugin in &network.plugins {
                prop_assert!(plugin["type"].as_str().is_some_and(|kind| !kind.is_empty()));
            }
        }
    }
}
