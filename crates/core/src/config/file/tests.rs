use super::*;
use crate::config::{AddressConfig, Mode};

fn plugin(members: &str) -> Result<FileConfig, FileError> {
    FileConfig::parse(&format!(r#"{{"schedule_plugin": {{{members}}}}}"#))
}

#[test]
fn everything_has_a_default() {
    let default = FileConfig::default();
    assert_eq!(default.config_map_name, "floatingip-config");
    assert_eq!(default.config_map_namespace, "kube-system");
    assert_eq!(default.floatingip_key, "floatingips");
    assert_eq!(default.resync_interval, Duration::from_mins(1));
    let texts = [
        "{}",
        r#"{"schedule_plugin": {}}"#,
        r#"{"schedule_plugin": null}"#,
        r#"{"schedule_plugin": {"storageDriver": "k8s-crd", "floatingips": [], "resyncInterval": null,
            "configMapName": "", "configMapNamespace": "", "floatingipKey": "", "cloudProviderGrpcAddr": ""},
            "other": 1}"#,
        r#"{"schedule_plugin": {"floatingips": null}}"#,
    ];
    for text in texts {
        assert_eq!(FileConfig::parse(text).as_ref(), Ok(&default), "{text}");
    }
}

#[test]
fn everything_can_be_set() {
    let text = r#"{"Schedule_Plugin": {"ResyncInterval": 5, "configmapname": "testConf", "configMapNamespace": "demo",
        "FLOATINGIPKEY": "key", "cloudProviderGrpcAddr": "127.0.0.1:80"}}"#;
    let config = FileConfig::parse(text).unwrap();
    let expected = FileConfig {
        floatingips: None,
        resync_interval: Duration::from_mins(5),
        config_map_name: "testConf".into(),
        config_map_namespace: "demo".into(),
        floatingip_key: "key".into(),
        cloud_provider: Some("127.0.0.1:80".into()),
    };
    assert_eq!(config, expected);
}

#[test]
fn inline_addresses_are_passed_on_as_text() {
    let file = plugin(
        r#""floatingips": [ {"nodeSubnets": ["10.0.0.0/16"], "ips": ["10.0.70.2~10.0.70.241"],
            "subnet": "10.0.70.0/24", "Gateway": "10.0.70.9", "gateway": "10.0.70.1", "vlan": 2} ]"#,
    );
    let text = file.unwrap().floatingips.unwrap();
    let config = AddressConfig::parse(&text, Mode::Strict).unwrap().config;
    assert_eq!(config.addresses().len(), 240);
    assert_eq!(config.entries()[0].gateway().to_string(), "10.0.70.1");
    // What is wrong inside is for the address configuration to say.
    let file = plugin(r#""floatingips": [null]"#).unwrap();
    assert_eq!(file.floatingips.as_deref(), Some("[null]"));
}

#[test]
fn a_resync_takes_at_least_a_minute() {
    let cases = [
        ("-5", 60),
        ("0", 60),
        ("1", 60),
        ("2", 120),
        ("9223372036854775807", u64::MAX),
    ];
    for (minutes, seconds) in cases {
        let config = plugin(&format!(r#""resyncInterval": {minutes}"#)).unwrap();
        assert_eq!(
            config.resync_interval,
            Duration::from_secs(seconds),
            "{minutes}"
        );
    }
}

#[test]
fn broken_files() {
    for text in ["", "[]", "null", "7", "{", r#"{"schedule_plugin": {}} x"#] {
        let error = FileConfig::parse(text).unwrap_err();
        assert_eq!(error.reason(), "InvalidJson", "{text}");
    }
    let cases = [
        (r#""floatingips": {}"#, "floatingips"),
        (r#""floatingips": "[]""#, "floatingips"),
        (r#""resyncInterval": "5""#, "resyncInterval"),
        (r#""resyncInterval": 1.5"#, "resyncInterval"),
        (r#""configMapName": 5"#, "configMapName"),
    ];
    for (members, name) in cases {
        let error = plugin(members).unwrap_err();
        assert_eq!(error.reason(), "InvalidMember");
        assert!(
            error.to_string().starts_with(&format!("field {name}: ")),
            "{error}"
        );
    }
    let error = FileConfig::parse(r#"{"schedule_plugin": []}"#).unwrap_err();
    assert!(
        error.to_string().starts_with("field schedule_plugin: "),
        "{error}"
    );
}
