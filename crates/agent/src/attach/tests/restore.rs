//! Attaching again what an address was taken off from.

use floe_shell::mock::Fault;

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

#[tokio::test]
async fn an_address_in_a_file_that_names_no_pod_cannot_be_restored() {
    let node = taken_off().await;
    let mut state = node.state("c1").unwrap();
    for attached in state.as_array_mut().unwrap() {
        attached.as_object_mut().unwrap().remove("Pod").unwrap();
    }
    fs::write(node.state_file("c1"), state.to_string()).unwrap();
    // Not "nothing to restore": then it would be tried again at once, for ever.
    let error = node.attacher.restore("c1", IP.into()).await.unwrap_err();
    assert_eq!(error.reason(), "NotRestorable");
    assert_eq!(since(&node), [""; 0]);
}

const OTHER: [u8; 4] = [10, 0, 0, 6];

/// A node with a pod whose network `one` has configured two addresses; the first was taken off.
async fn one_of_two() -> Node {
    let node = Node::new();
    let info = |ip: &str| json!({ "ip": format!("{ip}/24"), "vlan": 2, "gateway": "10.0.0.1" });
    let infos = json!({ "ipinfos": [info("10.0.0.5"), info("10.0.0.6")] });
    node.common(&infos);
    for ip in ["10.0.0.5", "10.0.0.6"] {
        node.record(ip, "sts_ns_web_web-0", "u1");
    }
    node.plugins.good("one", &both());
    node.add("c1").await.unwrap();
    let states = &node.attacher.states;
    states.note_taken_off("c1", IP.into()).await.unwrap();
    let mut state = node.state("c1").unwrap();
    for attached in state.as_array_mut().unwrap() {
        attached["Netns"] = json!(node.folder.path());
    }
    fs::write(node.state_file("c1"), state.to_string()).unwrap();
    node
}

fn both() -> Value {
    let mut result = result("10.0.0.5/24");
    let other = json!({ "address": "10.0.0.6/24", "gateway": "10.0.0.1", "interface": 0 });
    result["ips"].as_array_mut().unwrap().push(other);
    result
}

/// The addresses that the last ADD or DEL of a plugin was told.
fn told_last(node: &Node, kind: &str) -> Vec<&'static str> {
    let args = node.plugins.lines(&format!("{kind}.args"));
    let last = args.last().unwrap().clone();
    let all = ["10.0.0.5", "10.0.0.6"].into_iter();
    all.filter(|ip| last.contains(*ip)).collect()
}

#[tokio::test]
async fn all_that_goes_down_with_a_failed_restore_is_restored_later() {
    let node = one_of_two().await;
    let script = fails("ADD", "ParentLinkDown: eth1 is down", &both());
    node.plugins.write("one", &script);
    node.attacher.restore("c1", IP.into()).await.unwrap_err();
    let state = node.state("c1").unwrap();
    assert_eq!(state[0]["TakenOff"], json!(["10.0.0.5", "10.0.0.6"]));

    // The record of the first moves meanwhile: the second needs nothing of it.
    node.record("10.0.0.5", "sts_ns_web_web-1", "u2");
    let script = "[ $CNI_COMMAND = ADD ] && echo '";
    let script = format!("{script}{}'; exit 0", result("10.0.0.6/24"));
    node.plugins.write("one", &script);
    assert!(node.attacher.restore("c1", OTHER.into()).await.unwrap());
    assert_eq!(told_last(&node, "one"), ["10.0.0.6"]);
    let state = node.state("c1").unwrap();
    assert_eq!(state[0]["TakenOff"], json!(["10.0.0.5"]));

    // And the first comes back with its record.
    node.record("10.0.0.5", "sts_ns_web_web-0", "u1");
    node.plugins.good("one", &both());
    assert!(node.attacher.restore("c1", IP.into()).await.unwrap());
    assert_eq!(told_last(&node, "one"), ["10.0.0.5", "10.0.0.6"]);
    let state = node.state("c1").unwrap();
    assert!(state[0].get("TakenOff").is_none(), "{state}");
}

/// A plugin that finds the first address in use by another host; it does `first` before anything else.
fn conflict(first: &str) -> String {
    let conflict = json!({ "cniVersion": "1.0.0", "code": 101,
        "msg": "AddressConflict: 10.0.0.5 is already in use by 02:00:00:00:00:01" });
    let fine = result("10.0.0.6/24");
    format!(
        "{first}\n\
         case $CNI_COMMAND,$CNI_ARGS in ADD,*10.0.0.5*) echo '{conflict}'; exit 1;; esac\n\
         [ $CNI_COMMAND = ADD ] && echo '{fine}'; exit 0"
    )
}

#[tokio::test]
async fn an_address_that_cannot_be_configured_does_not_take_the_others_down() {
    let node = one_of_two().await;
    node.plugins.write("one", &conflict(""));
    let error = node.attacher.restore("c1", IP.into()).await.unwrap_err();
    assert_eq!(error.reason(), "AddressConflict");
    assert_eq!(since(&node).last().unwrap(), "ADD one c1 eth0");
    assert_eq!(told_last(&node, "one"), ["10.0.0.6"]);
    let state = node.state("c1").unwrap();
    assert_eq!(state[0]["TakenOff"], json!(["10.0.0.5"]));
    // It is still known what had the first.
    node.plugins.good("one", &both());
    assert!(node.attacher.restore("c1", IP.into()).await.unwrap());
}

#[tokio::test]
async fn what_went_down_with_an_address_comes_back_while_that_one_cannot() {
    let node = one_of_two().await;
    let script = fails("ADD", "ParentLinkDown: eth1 is down", &both());
    node.plugins.write("one", &script);
    node.attacher.restore("c1", IP.into()).await.unwrap_err();
    let off = |node: &Node| node.state("c1").unwrap()[0]["TakenOff"].clone();
    assert_eq!(off(&node), json!(["10.0.0.5", "10.0.0.6"]));

    // From now on the first one conflicts, and its record still gives it to the pod.
    node.plugins.write("one", &conflict(""));
    let error = node.attacher.restore("c1", IP.into()).await.unwrap_err();
    assert_eq!(error.reason(), "AddressConflict");
    assert!(node.attacher.restore("c1", OTHER.into()).await.unwrap());
    assert_eq!(told_last(&node, "one"), ["10.0.0.6"]);
    assert_eq!(off(&node), json!(["10.0.0.5"]));
}

/// Makes plugins wait where they read `$here/gate`, until this is done with the node.
async fn while_waiting(node: &Node, change: impl FnOnce(&Node)) {
    let gate = std::path::Path::new(&node.plugins.path()).join("gate");
    // Opening it returns when a plugin reads, and the plugin goes on when it is closed.
    let opened = tokio::task::spawn_blocking(move || fs::OpenOptions::new().write(true).open(gate));
    let opened = opened.await.unwrap().unwrap();
    change(node);
    drop(opened);
}

/// What a plugin does to wait at its first call of a command.
fn waits_at(node: &Node, command: &str) -> String {
    let gate = format!("{}/gate", node.plugins.path());
    let made = std::process::Command::new("mkfifo").arg(gate).status();
    assert!(made.unwrap().success());
    format!("[ $CNI_COMMAND = {command} ] && [ -e $here/gate ] && cat $here/gate && rm $here/gate")
}

/// A plugin that configures the requested addresses.
fn obedient(first: &str) -> String {
    let (one, other, both) = (result("10.0.0.5/24"), result("10.0.0.6/24"), both());
    format!(
        "{first}\n\
         case $CNI_COMMAND,$CNI_ARGS in\n\
         ADD,*10.0.0.5*10.0.0.6*) echo '{both}';;\n\
         ADD,*10.0.0.5*) echo '{one}';;\n\
         ADD,*10.0.0.6*) echo '{other}';;\n\
         esac; exit 0"
    )
}

#[tokio::test]
async fn an_address_that_moves_while_its_network_is_detached_is_not_configured() {
    for (moved, ip, stays) in [
        ("10.0.0.5", IP, "10.0.0.6"),
        ("10.0.0.6", OTHER, "10.0.0.5"),
    ] {
        let node = one_of_two().await;
        let script = obedient(&waits_at(&node, "DEL"));
        node.plugins.write("one", &script);
        let (restored, ()) = tokio::join!(
            node.attacher.restore("c1", IP.into()),
            while_waiting(&node, |node| node.record(moved, "sts_ns_web_web-1", "u2")),
        );
        match restored {
            Ok(is_restored) => assert!(is_restored && ip == OTHER),
            Err(error) => {
                assert_eq!(ip, IP, "{error}");
                assert_eq!(error.reason(), "AddressOfAnotherPod");
            }
        }
        assert_eq!(since(&node), ["DEL one c1 eth0", "ADD one c1 eth0"]);
        assert_eq!(told_last(&node, "one"), [stays]);
        let state = node.state("c1").unwrap();
        assert_eq!(state[0]["TakenOff"], json!([moved]));
    }
}

#[tokio::test]
async fn an_address_that_moves_during_a_failed_try_is_not_in_the_next_one() {
    let node = one_of_two().await;
    let script = conflict(&waits_at(&node, "ADD"));
    node.plugins.write("one", &script);
    let (restored, ()) = tokio::join!(
        node.attacher.restore("c1", IP.into()),
        while_waiting(&node, |node| node.record(
            "10.0.0.6",
            "sts_ns_web_web-1",
            "u2"
        )),
    );
    assert_eq!(restored.unwrap_err().reason(), "AddressConflict");
    let adds = since(&node).into_iter().filter(|it| it.starts_with("ADD"));
    assert_eq!(adds.count(), 1);
    let state = node.state("c1").unwrap();
    assert_eq!(state[0]["TakenOff"], json!(["10.0.0.5", "10.0.0.6"]));
}

#[tokio::test]
async fn what_is_not_in_the_result_is_not_back() {
    let node = one_of_two().await;
    node.plugins.good("one", &result("10.0.0.6/24"));
    let error = node.attacher.restore("c1", IP.into()).await.unwrap_err();
    assert_eq!(error.reason(), "NoAddress");
    let state = node.state("c1").unwrap();
    assert_eq!(state[0]["TakenOff"], json!(["10.0.0.5"]));
}

#[tokio::test]
async fn nothing_is_touched_before_all_records_are_read() {
    let node = one_of_two().await;
    // One that is not off cannot be left out: it has to be taken off first, and reported.
    node.record("10.0.0.6", "sts_ns_web_web-1", "u2");
    let error = node.attacher.restore("c1", IP.into()).await.unwrap_err();
    assert_eq!(error.reason(), "AddressOfAnotherPod");
    node.attacher
        .states
        .note_taken_off("c1", OTHER.into())
        .await
        .unwrap();
    let unreadable = Fault::Refuse(503);
    node.server
        .always(Method::GET, "floatingips/10.0.0.6", unreadable);
    let error = node.attacher.restore("c1", IP.into()).await.unwrap_err();
    assert_eq!(error.reason(), "RecordUnreadable");
    assert_eq!(since(&node), [""; 0]);
}

#[tokio::test]
async fn addresses_that_worked_come_back_though_the_api_server_goes_away() {
    let node = one_of_two().await;
    let script = obedient(&waits_at(&node, "DEL"));
    node.plugins.write("one", &script);
    let (restored, ()) = tokio::join!(
        node.attacher.restore("c1", IP.into()),
        while_waiting(&node, |node| {
            let away = Fault::Refuse(503);
            node.server.always(Method::GET, "floatingips/", away);
        }),
    );
    assert_eq!(restored.unwrap_err().reason(), "RecordUnreadable");
    assert_eq!(told_last(&node, "one"), ["10.0.0.6"]);
    let state = node.state("c1").unwrap();
    assert_eq!(state[0]["TakenOff"], json!(["10.0.0.5"]));
}
