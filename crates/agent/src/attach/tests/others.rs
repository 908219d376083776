//! CHECK, GC and STATUS.

use super::*;

#[tokio::test]
async fn check_asks_every_plugin_with_its_own_result() {
    let node = Node::new();
    let check = || async {
        let request = request("CHECK", "c1", &config("1.0.0"));
        node.attacher.check(&request).await
    };
    assert_eq!(check().await.unwrap_err().reason(), "NotAttached");
    node.add("c1").await.unwrap();
    node.plugins.forget();
    check().await.unwrap();
    assert_eq!(node.calls(), ["CHECK one c1 eth0", "CHECK two c1 eth1"]);
    assert_eq!(
        node.inputs("one")[0]["prevResult"]["ips"][0]["address"],
        "10.0.0.5/24"
    );
    node.plugins
        .write("two", &fails("CHECK", "the address is gone", &json!(null)));
    let error = check().await.unwrap_err();
    assert!(error.to_string().contains("the address is gone"), "{error}");
}

#[tokio::test]
async fn check_spares_plugins_that_do_not_know_it() {
    let node = Node::new();
    node.add_in("c1", "0.3.1").await.unwrap();
    node.plugins.forget();
    let request = request("CHECK", "c1", &config("1.0.0"));
    node.attacher.check(&request).await.unwrap();
    assert!(node.calls().is_empty());
}

#[tokio::test]
async fn check_spares_a_network_that_wants_none() {
    let node = Node::new();
    let list = |disabled: bool| {
        let list = json!({
            "name": "chain", "cniVersion": "1.0.0", "disableCheck": disabled,
            "plugins": [{ "type": "one" }],
        });
        let file = node.folder.path().join("net.d/10-chain.conflist");
        fs::write(file, list.to_string()).unwrap();
    };
    list(true);
    node.pod(&json!({ "k8s.v1.cni.cncf.io/networks": "chain,two" }));
    node.add("c1").await.unwrap();
    let request = request("CHECK", "c1", &config("1.0.0"));
    node.plugins.forget();
    node.attacher.check(&request).await.unwrap();
    assert_eq!(node.calls(), ["CHECK two c1 eth1"]);
    list(false);
    node.plugins.forget();
    node.attacher.check(&request).await.unwrap();
    assert_eq!(node.calls(), ["CHECK one c1 eth0", "CHECK two c1 eth1"]);
}

fn gc(valid: &Value) -> Request {
    let mut config = config("1.1.0");
    config["cni.dev/valid-attachments"] = valid.clone();
    request("GC", "", &config)
}

#[tokio::test]
async fn gc_detaches_what_the_runtime_does_not_name() {
    let node = Node::new();
    node.add("c1").await.unwrap();
    node.add("c2").await.unwrap();
    node.plugins.forget();
    let valid = json!([{ "containerID": "c2", "ifname": "eth0" }]);
    node.attacher.collect(&gc(&valid)).await.unwrap();
    // The plugins get the runtime's version, which knows GC, and all that is valid.
    assert_eq!(
        node.calls(),
        ["DEL two c1 eth1", "DEL one c1 eth0", "GC one  ", "GC two  "]
    );
    assert_eq!(node.state("c1"), None);
    assert!(node.state("c2").is_some());
    let told = &node.inputs("two")[1]["cni.dev/valid-attachments"];
    assert_eq!(told[0], json!({ "containerID": "c2", "ifname": "eth1" }));
}

#[tokio::test]
async fn gc_removes_nothing_when_nobody_says_what_is_valid() {
    let node = Node::new();
    node.add("c1").await.unwrap();
    let request = request("GC", "", &config("1.1.0"));
    let error = node.attacher.collect(&request).await.unwrap_err();
    assert_eq!(error.reason(), "InvalidConfiguration");
    assert!(node.state("c1").is_some());
}

#[tokio::test]
async fn gc_goes_on_after_a_failure_and_tells_it() {
    let node = Node::new();
    node.add("c1").await.unwrap();
    node.add("c2").await.unwrap();
    node.plugins
        .write("two", &fails("DEL", "busy", &json!(null)));
    let error = node
        .attacher
        .collect(&gc(&json!([])))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("container c1") && error.contains("container c2"),
        "{error}"
    );
    assert_eq!(node.state("c2").unwrap().as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn gc_does_not_stop_a_node_for_long() {
    let node = Node::new();
    for container in ["c1", "c2", "c3"] {
        node.add(container).await.unwrap();
    }
    for kind in ["one", "two"] {
        node.plugins.write(kind, "exec sleep 300");
    }
    // From now on waiting takes no time.
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let error = node.attacher.collect(&gc(&json!([]))).await.unwrap_err();
    assert!(begun.elapsed() < std::time::Duration::from_mins(1));
    let error = error.to_string();
    assert!(error.contains("was ended after 20s"), "{error}");
    assert!(error.contains("container c3: TryAgainLater"), "{error}");
    for container in ["c1", "c2", "c3"] {
        assert!(node.state(container).is_some(), "for the next GC");
    }
}

#[tokio::test]
async fn status_asks_the_plugins_of_the_usual_networks_that_know_it() {
    let node = Node::with(&json!({
        "NetworkConf": [
            { "type": "one", "cniVersion": "1.0.0" },
            { "type": "two", "cniVersion": "1.1.0" },
            { "type": "galaxy-k8s-vlan" },
            { "type": "unusual", "cniVersion": "1.1.0" },
        ],
        "DefaultNetworks": ["one", "two"],
        "ENIIPNetwork": "galaxy-k8s-vlan",
    }));
    node.plugins.good("galaxy-k8s-vlan", &json!(null));
    let request = request("STATUS", "", &config("1.0.0"));
    node.attacher.status(&request).await.unwrap();
    assert_eq!(node.calls(), ["STATUS galaxy-k8s-vlan  ", "STATUS two  "]);
    assert_eq!(node.inputs("galaxy-k8s-vlan")[0]["cniVersion"], "1.1.0");

    let down = "ParentLinkDown: eth1 is down";
    node.plugins
        .write("galaxy-k8s-vlan", &fails("STATUS", down, &json!(null)));
    let error = node.attacher.status(&request).await.unwrap_err();
    assert!(error.to_string().contains("eth1 is down"), "{error}");
}

#[tokio::test]
async fn status_tells_of_a_usual_network_that_nobody_has() {
    let node = Node::with(&json!({
        "NetworkConf": [{ "type": "one" }], "DefaultNetworks": ["one", "missing"],
    }));
    let request = request("STATUS", "", &config("1.0.0"));
    let error = node.attacher.status(&request).await.unwrap_err();
    assert_eq!(error.reason(), "UnknownNetwork");
    fs::write(
        node.folder.path().join("net.d/m.conf"),
        r#"{"name":"missing","type":"two"}"#,
    )
    .unwrap();
    node.attacher.status(&request).await.unwrap();
}
