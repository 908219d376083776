//! DEL.

use axum::http::Method;
use floe_core::{
    cni::config::Attachment,
    node::notes::{Note, Topic},
};
use floe_shell::mock::Fault;

use super::*;

/// What galaxy writes.
fn galaxy_file() -> Value {
    json!([
        { "NetworkType": "one", "Args": { "ipinfos": r#"[{"ip":"10.0.0.5/24","vlan":2,"gateway":"10.0.0.1"}]"# },
          "Conf": { "name": "one", "type": "one", "mark": 1 }, "IfName": "eth0" },
        { "NetworkType": "two", "Args": {}, "Conf": { "name": "two", "type": "two" }, "IfName": "eth1" },
    ])
}

fn write(node: &Node, container: &str, state: &str) {
    let file = node.state_file(container);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, state).unwrap();
}

#[tokio::test]
async fn plugins_are_called_in_reverse_and_nobody_is_asked() {
    let node = Node::new();
    node.add("c1").await.unwrap();
    node.plugins.forget();
    let asked = node.server.state().calls.len();
    node.server.always(Method::GET, "", Fault::Hang);
    node.del("c1").await.unwrap();
    assert_eq!(node.calls(), ["DEL two c1 eth1", "DEL one c1 eth0"]);
    assert_eq!(node.state("c1"), None);
    assert_eq!(node.server.state().calls.len(), asked);
    // With what they were given, and with their result.
    let input = &node.inputs("two")[0];
    assert_eq!(input["mark"], 2);
    assert_eq!(input["prevResult"]["ips"][0]["address"], "10.0.1.5/24");
}

#[tokio::test]
async fn a_container_that_is_not_known_is_detached() {
    let node = Node::new();
    node.del("c1").await.unwrap();
    assert!(node.calls().is_empty());
}

#[tokio::test]
async fn only_what_failed_is_tried_again() {
    let node = Node::new();
    node.add("c1").await.unwrap();
    node.plugins.forget();
    node.plugins
        .write("two", &fails("DEL", "busy", &json!(null)));
    let error = node.del("c1").await.unwrap_err();
    assert_eq!(error.reason(), "DetachFailed");
    assert!(error.to_string().contains("network two"), "{error}");
    // The other one is detached all the same.
    assert_eq!(node.calls(), ["DEL two c1 eth1", "DEL one c1 eth0"]);
    let state = node.state("c1").unwrap();
    assert_eq!(state.as_array().unwrap().len(), 1);
    assert_eq!(state[0]["NetworkType"], "two");

    node.plugins.forget();
    node.plugins.good("two", &json!(null));
    node.del("c1").await.unwrap();
    assert_eq!(node.calls(), ["DEL two c1 eth1"]);
    assert_eq!(node.state("c1"), None);
}

#[tokio::test]
async fn all_failures_are_told_together_and_keep_their_order() {
    let node = Node::new();
    node.add("c1").await.unwrap();
    for kind in ["one", "two"] {
        node.plugins
            .write(kind, &fails("DEL", "busy", &json!(null)));
    }
    let error = node.del("c1").await.unwrap_err().to_string();
    assert_eq!(error.split(" / ").count(), 2, "{error}");
    let state = node.state("c1").unwrap();
    assert_eq!(
        (&state[0]["NetworkType"], &state[1]["NetworkType"]),
        (&json!("one"), &json!("two"))
    );
}

#[tokio::test]
async fn a_file_of_galaxy_is_understood() {
    let node = Node::new();
    write(&node, "c1", &galaxy_file().to_string());
    node.del("c1").await.unwrap();
    assert_eq!(node.calls(), ["DEL two c1 eth1", "DEL one c1 eth0"]);
    let args = &node.plugins.lines("one.args")[0];
    assert!(
        args.ends_with(r#";ipinfos=[{"ip":"10.0.0.5/24","vlan":2,"gateway":"10.0.0.1"}]"#),
        "{args}"
    );
    assert_eq!(node.inputs("one")[0]["mark"], 1);
    assert_eq!(node.state("c1"), None);
}

#[tokio::test]
async fn arguments_that_no_plugin_can_be_told_do_not_keep_a_pod_for_ever() {
    let node = Node::new();
    let mut file = galaxy_file();
    file[0]["Args"]["a=b"] = json!("1");
    file[0]["Args"]["long"] = json!("1".repeat(200 << 10));
    write(&node, "c1", &file.to_string());
    node.del("c1").await.unwrap();
    assert_eq!(node.calls(), ["DEL two c1 eth1", "DEL one c1 eth0"]);
    let args = &node.plugins.lines("one.args")[0];
    assert!(args.contains(";ipinfos=[{") && args.len() < 1000, "{args}");
    assert_eq!(node.state("c1"), None);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_does_not_keep_a_pod_for_ever() {
    let node = Node::new();
    write(&node, "c1", "");
    node.del("c1").await.unwrap();
    assert!(node.calls().is_empty());
    assert!(!node.state_file("c1").exists());
    assert!(node.state_file(".c1.malformed").exists());
    // Nor do bytes that are no text at all.
    std::fs::write(node.state_file("c1"), b"[\xff]").unwrap();
    let aside = node.attacher.del_forgotten("c1").await.unwrap();
    assert_eq!(aside, Detached::PutAside);
    assert!(!node.state_file("c1").exists());
    // Nor does it keep a container from being attached.
    write(&node, "c2", "{");
    node.add("c2").await.unwrap();
    assert_eq!(node.state("c2").unwrap().as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn the_namespace_of_a_forgotten_container_is_the_noted_one_while_it_is_there() {
    let node = Node::new();
    for kind in ["one", "two"] {
        node.plugins
            .write(kind, "echo \"netns=$CNI_NETNS\" >> $here/seen.netns");
    }
    let mut state = galaxy_file();
    state[0]["Netns"] = json!(node.folder.path());
    state[1]["Netns"] = json!("/proc/self/ns/net");
    write(&node, "c1", &state.to_string());
    node.attacher.del_forgotten("c1").await.unwrap();
    let there = format!("netns={}", node.folder.path().display());
    assert_eq!(node.plugins.lines("seen.netns"), ["netns=", &there]);
}

#[tokio::test]
async fn a_note_is_enough_for_the_del_of_its_plugin() {
    let node = Node::new();
    let mut lost = Note {
        topic: Topic::Functions,
        attachment: Attachment {
            container: "c1".into(),
            ifname: "eth1".into(),
        },
        network: "fast".into(),
        kind: "one".into(),
    };
    node.attacher.del_noted(&lost).await.unwrap();
    assert_eq!(node.calls(), ["DEL one c1 eth1"]);
    assert_eq!(
        node.inputs("one"),
        [json!({ "cniVersion": "1.1.0", "name": "fast", "type": "one" })]
    );
    lost.kind = "../one".into();
    let error = node.attacher.del_noted(&lost).await.unwrap_err();
    assert_eq!(error.reason(), "InvalidConfiguration");
}
