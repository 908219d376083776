use serde_json::json;
use tempfile::TempDir;

use super::*;

fn networks() -> (TempDir, Networks) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("galaxy.json");
    let settings = json!({
        "NetworkConf": [{ "type": "galaxy-k8s-vlan", "device": "eth1" }],
        "DefaultNetworks": ["galaxy-k8s-vlan"],
    });
    fs::write(&file, settings.to_string()).unwrap();
    let cni = folder.path().join("net.d");
    fs::create_dir_all(cni.join("extra")).unwrap();
    let networks = Networks::load(&file, &cni).unwrap();
    (folder, networks)
}

fn write(networks: &Networks, file: &str, text: &str) {
    fs::write(networks.folder.join(file), text).unwrap();
}

#[tokio::test]
async fn a_network_is_found_in_the_settings_in_the_folder_and_one_level_below() {
    let (_folder, networks) = networks();
    write(
        &networks,
        "10-a.conf",
        r#"{"name":"a","type":"bridge","kubeconfig":"secret"}"#,
    );
    write(
        &networks,
        "20-b.conflist",
        r#"{"name":"b","cniVersion":"1.0.0","plugins":[{"type":"bridge"},{"type":"tuning"}]}"#,
    );
    write(
        &networks,
        "extra/c.json",
        r#"{"name":"c","type":"macvlan"}"#,
    );
    write(&networks, "d.txt", r#"{"name":"d","type":"bridge"}"#);
    write(&networks, "00-bad.conf", "{ not json");

    let vlan = networks.find("galaxy-k8s-vlan").await.unwrap();
    assert_eq!(vlan.plugins[0]["device"], "eth1");
    let a = networks.find("a").await.unwrap();
    assert!(a.plugins[0].get("kubeconfig").is_none());
    let kinds = |network: NetworkConfig| -> Vec<String> {
        let plugins = network.plugins.iter();
        plugins
            .map(|it| it["type"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        kinds(networks.find("b").await.unwrap()),
        ["bridge", "tuning"]
    );
    assert_eq!(kinds(networks.find("c").await.unwrap()), ["macvlan"]);
    let error = networks.find("d").await.unwrap_err();
    assert_eq!(error.reason(), "UnknownNetwork");
    assert!(error.to_string().contains("net.d"), "{error}");
}

#[tokio::test]
async fn a_bad_file_is_named_when_its_network_is_wanted() {
    let (_folder, networks) = networks();
    write(&networks, "a.conf", r#"{"name":"a"}"#);
    let error = networks.find("a").await.unwrap_err();
    assert_eq!(error.reason(), "InvalidNetworkConfiguration");
    assert!(error.to_string().contains("a.conf"), "{error}");
}

#[tokio::test]
async fn the_shim_is_no_network_of_a_pod() {
    let (_folder, networks) = networks();
    write(
        &networks,
        "00-galaxy.conf",
        r#"{"name":"galaxy-sdn","type":"galaxy-sdn"}"#,
    );
    assert_eq!(
        networks.find("galaxy-sdn").await.unwrap_err().reason(),
        "NetworkLoops"
    );
}

#[tokio::test]
async fn a_name_is_never_a_path() {
    let (folder, networks) = networks();
    fs::write(
        folder.path().join("x.conf"),
        r#"{"name":"../x","type":"bridge"}"#,
    )
    .unwrap();
    assert_eq!(
        networks.find("../x").await.unwrap_err().reason(),
        "UnknownNetwork"
    );
}

#[test]
fn settings_that_cannot_be_used_are_named() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("galaxy.json");
    let load = || Networks::load(&file, folder.path());
    assert!(matches!(load(), Err(LoadError::Io { .. })));
    let twice = json!({ "NetworkConf": [{ "type": "a" }, { "type": "b", "name": "a" }] });
    fs::write(&file, twice.to_string()).unwrap();
    let error = load().unwrap_err();
    assert!(
        floe_shell::logs::with_causes(&error)
            .contains("multiple network configuration with name a")
    );
}
