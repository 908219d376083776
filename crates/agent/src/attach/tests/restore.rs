//! Attaching again what an address was taken off from.

use super::*;

const IP: [u8; 4] = [10, 0, 0, 5];

/// A node with a pod on the networks `one`, which had configured its address until that was
/// taken off, and `two`, which has another one.
async fn taken_off() -> Node {
    let node = Node::new();
    node.common(&json!({ "ipinfos": [{ "ip": "10.0.0.5/24", "vlan": 2, "gateway": "10.0.0.1" }] }));
    node.record("10.0.0.5", "sts_ns_web_web-0", "u1");
    node.add("c1").await.unwrap();
    node.attacher
        .states
        .note_taken_off("c1", IP.into())
        .await
        .unwrap();
    // A path that is there.
    let mut state = node.state("c1").unwrap();
    for attached in state.as_array_mut().unwrap() {
        assert_eq!(attached["TakenOff"], json!(["10.0.0.5"]));
        attached["Netns"] = json!(node.folder.path());
    }
    fs::write(node.state_file("c1"), state.to_string()).unwrap();
    node
}

/// What was called since the pod was attached.
fn since(node: &Node) -> Vec<String> {
    node.calls().split_off(2)
}

#[tokio::test]
async fn only_the_network_that_had_the_address_is_attached_again() {
    let node = taken_off().await;
    assert!(node.attacher.restore("c1", IP.into()).await.unwrap());
    assert_eq!(since(&node), ["DEL one c1 eth0", "ADD one c1 eth0"]);
    let again = &node.inputs("one")[2];
    assert!(again.get("prevResult").is_none(), "{again}");
    assert_eq!(again["mark"], 1);
    let args = node.plugins.lines("one.args");
    assert!(args[2].contains("K8S_POD_UID=u1;ipinfos=["), "{args:?}");
    let state = node.state("c1").unwrap();
    for attached in state.as_array().unwrap() {
        assert!(attached.get("TakenOff").is_none(), "{state}");
    }
    assert_eq!(state.as_array().unwrap().len(), 2);
    // Once is enough.
    assert!(!node.attacher.restore("c1", IP.into()).await.unwrap());
    assert!(!node.attacher.restore("c2", IP.into()).await.unwrap());
    assert_eq!(since(&node).len(), 2);
}

#[tokio::test]
async fn a_failure_is_undone_and_can_be_tried_again() {
    let node = taken_off().await;
    let fine = result("10.0.0.5/24");
    let script = fails("ADD", "AddressConflict: 10.0.0.5 is in use", &fine);
    node.plugins.write("one", &script);
    let error = node.attacher.restore("c1", IP.into()).await.unwrap_err();
    assert!(error.to_string().contains("10.0.0.5 is in use"), "{error}");
    let state = node.state("c1").unwrap();
    assert_eq!(state[0]["TakenOff"], json!(["10.0.0.5"]));
    assert_eq!(state.as_array().unwrap().len(), 2);
    node.plugins.good("one", &fine);
    assert!(node.attacher.restore("c1", IP.into()).await.unwrap());
}

#[tokio::test]
async fn nothing_is_restored_without_permission_or_namespace() {
    let node = taken_off().await;
    node.record("10.0.0.5", "sts_ns_web_web-1", "u2");
    let error = node.attacher.restore("c1", IP.into()).await.unwrap_err();
    assert_eq!(error.reason(), "AddressOfAnotherPod");
    node.record("10.0.0.5", "sts_ns_web_web-0", "u1");
    let mut state = node.state("c1").unwrap();
    for attached in state.as_array_mut().unwrap() {
        attached["Netns"] = json!("/run/netns/that-is-gone");
    }
    fs::write(node.state_file("c1"), state.to_string()).unwrap();
    let error = node.attacher.restore("c1", IP.into()).await.unwrap_err();
    assert_eq!(error.reason(), "NotRestorable");
    assert_eq!(since(&node), [""; 0]);
}
