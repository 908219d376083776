//! ADD.

use super::*;

#[tokio::test]
async fn plugins_are_called_in_order_and_the_last_result_counts() {
    let node = Node::new();
    let added = node.add("c1").await.unwrap();
    assert_eq!(node.calls(), ["ADD one c1 eth0", "ADD two c1 eth1"]);
    assert_eq!(added["ips"][0]["address"], "10.0.1.5/24");
    assert_eq!(added["cniVersion"], "1.0.0");

    let (one, two) = (&node.inputs("one")[0], &node.inputs("two")[0]);
    assert_eq!((&one["name"], &one["mark"]), (&json!("one"), &json!(1)));
    assert_eq!(one["cniVersion"], "1.0.0");
    assert!(one.get("prevResult").is_none());
    assert_eq!(two["prevResult"]["ips"][0]["address"], "10.0.0.5/24");

    let state = node.state("c1").unwrap();
    assert_eq!(state[0]["NetworkType"], "one");
    assert_eq!(state[0]["IfName"], "eth0");
    assert_eq!(state[0]["Netns"], "/run/netns/x");
    assert_eq!(
        state[1]["Pod"],
        json!({ "Namespace": "ns", "Name": "web-0", "Uid": "u1" })
    );
    // With its own result, for CHECK and DEL.
    assert_eq!(
        state[0]["Conf"]["prevResult"]["ips"][0]["address"],
        "10.0.0.5/24"
    );
    assert_eq!(
        state[1]["Conf"]["prevResult"]["ips"][0]["address"],
        "10.0.1.5/24"
    );
}

#[tokio::test]
async fn the_result_has_the_form_that_the_runtime_asks_for() {
    let node = Node::new();
    let old = node.add_in("c1", "0.2.0").await.unwrap();
    assert_eq!(old["ip4"]["ip"], "10.0.1.5/24");
    let newer = node.add_in("c2", "0.4.0").await.unwrap();
    assert_eq!(newer["ips"][0]["version"], "4");
}

#[tokio::test]
async fn an_old_plugin_that_answers_in_its_own_form_loses_nothing() {
    let node = Node::with(&json!({
        "NetworkConf": [{ "type": "one", "cniVersion": "0.2.0" }],
        "DefaultNetworks": ["one"],
    }));
    let old = json!({ "cniVersion": "0.2.0", "ip4": { "ip": "10.0.0.7/24", "gateway": "10.0.0.1" }, "dns": {} });
    node.plugins.good("one", &old);
    let added = node.add("c1").await.unwrap();
    assert_eq!(node.inputs("one")[0]["cniVersion"], "0.2.0");
    assert_eq!(added["ips"][0]["address"], "10.0.0.7/24");
}

#[tokio::test]
async fn no_request_sees_the_result_of_another() {
    let node = Node::new();
    let adds = (0..8).map(|number| {
        let (container, node) = (format!("c{number}"), &node);
        async move { node.add(&container).await.unwrap() }
    });
    futures::future::join_all(adds).await;
    // galaxy kept the result of the last request in the shared configuration, so the
    // first plugin of the next one saw it.
    let inputs = node.inputs("one");
    assert_eq!(inputs.len(), 8);
    assert!(inputs.iter().all(|input| input.get("prevResult").is_none()));
    let settings = node.attacher.networks.settings();
    assert!(
        settings.networks["one"].plugins[0]
            .get("prevResult")
            .is_none()
    );
    assert!(
        settings.networks["one"].plugins[0]
            .get("cniVersion")
            .is_none()
    );
}

#[tokio::test]
async fn the_state_is_there_before_the_first_plugin_runs() {
    let node = Node::new();
    let file = node.state_file("c1");
    let script = format!(
        "cp {} $here/seen.state; echo '{}'",
        file.display(),
        result("10.0.0.5/24")
    );
    node.plugins.write("one", &script);
    node.add("c1").await.unwrap();
    let seen = node.plugins.lines("seen.state").concat();
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_failure_takes_everything_back_in_reverse() {
    let mut node = Node::new();
    node.plugins
        .write("two", &fails("ADD", "no room", &json!(null)));
    let error = node.add("c1").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "fail to establish network two: two: no room"
    );
    assert_eq!(
        node.calls(),
        [
            "ADD one c1 eth0",
            "ADD two c1 eth1",
            "DEL two c1 eth1",
            "DEL one c1 eth0"
        ]
    );
    assert_eq!(node.state("c1"), None);
    let news = node.inbox.so_far();
    assert_eq!(news.len(), 1);
    assert!(news[0].warning);
    assert_eq!(news[0].about.uid.as_deref(), Some("u1"));
    assert!(news[0].note.contains("no room"), "{}", news[0].note);
}

#[tokio::test]
async fn plugins_after_the_one_that_failed_are_left_alone() {
    let node = Node::new();
    node.plugins
        .write("one", &fails("ADD", "no room", &json!(null)));
    node.add("c1").await.unwrap_err();
    assert_eq!(node.calls(), ["ADD one c1 eth0", "DEL one c1 eth0"]);
}

#[tokio::test]
async fn what_cannot_be_taken_back_stays_noted_for_a_later_del() {
    let node = Node::new();
    node.plugins
        .write("one", &fails("DEL", "busy", &result("10.0.0.5/24")));
    node.plugins.write("two", "exit 1");
    let error = node.add("c1").await.unwrap_err();
    assert!(error.to_string().contains("not undone"), "{error}");
    // two fails both times, one only at DEL.
    let state = node.state("c1").unwrap();
    let kinds: Vec<_> = state
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["NetworkType"])
        .collect();
    assert_eq!(kinds, ["one", "two"]);
    node.plugins.good("one", &json!(null));
    node.plugins.good("two", &json!(null));
    node.plugins.forget();
    node.del("c1").await.unwrap();
    assert_eq!(node.calls(), ["DEL two c1 eth1", "DEL one c1 eth0"]);
    assert_eq!(node.state("c1"), None);
}

#[tokio::test]
async fn a_conflict_is_told_by_its_reason_and_remembered() {
    let mut node = Node::new();
    let message = "AddressConflict: 10.0.0.5 is already in use by 02:42:0a:00:00:05";
    node.plugins.write(
        "one",
        &fails("ADD", message, &json!(null)).replace(":7,", ":101,"),
    );
    let error = node.add("c1").await.unwrap_err();
    assert_eq!(error.reason(), "AddressConflict");
    assert!(error.to_string().contains("02:42:0a:00:00:05"), "{error}");
    let told = node.inbox.so_far();
    assert_eq!(told[0].reason, "AddressConflict");
    assert!(told[0].note.ends_with("02:42:0a:00:00:05"), "{told:?}");
    let conflicts = node.attacher.conflicts.current(jiff::Timestamp::now());
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].mac, "02:42:0a:00:00:05");
}

#[tokio::test]
async fn a_conflict_names_the_pod_that_shows_the_address_and_its_node() {
    let mut node = Node::new();
    let message = "AddressConflict: 10.0.0.5 is already in use by 02:42:0a:00:00:05";
    let script = fails("ADD", message, &json!(null)).replace(":7,", ":101,");
    node.plugins.write("one", &script);
    for (name, uid, ip, phase) in [
        ("web-1", "u2", "10.0.0.6", "Running"),
        ("web-2", "u3", "10.0.0.5", "Failed"),
        ("web-3", "u4", "10.0.0.5", "Running"),
    ] {
        node.server.put(
            PODS,
            json!({
                "metadata": { "name": name, "namespace": "ns", "uid": uid },
                "spec": { "nodeName": "n2", "containers": [] },
                "status": { "phase": phase, "podIP": ip },
            }),
        );
    }
    node.add("c1").await.unwrap_err();
    let told = node.inbox.so_far();
    let expected = "02:42:0a:00:00:05; pod ns/web-3 on node n2 shows it";
    assert!(told[0].note.ends_with(expected), "{told:?}");
    // The API server answers out of its memory.
    let is_cached = {
        let calls = node.server.state().calls.clone();
        let mut lists = calls.iter().filter(|it| it.contains("podIP"));
        lists.any(|it| it.contains("resourceVersion=0"))
    };
    assert!(is_cached);
}

#[tokio::test]
async fn a_result_without_an_address_or_without_sense_is_a_failure() {
    for (output, reason) in [
        (
            json!({ "cniVersion": "1.0.0", "dns": {} }).to_string(),
            "NoAddress",
        ),
        (String::new(), "InvalidResult"),
        ("fine".into(), "InvalidResult"),
    ] {
        let node = Node::new();
        node.plugins.write(
            "two",
            &format!("[ $CNI_COMMAND = ADD ] && echo '{output}'; exit 0"),
        );
        let error = node.add("c1").await.unwrap_err();
        assert_eq!(error.reason(), reason, "{output}");
        assert_eq!(node.calls().len(), 4);
        assert_eq!(node.state("c1"), None);
    }
}

#[tokio::test]
async fn an_ipv6_address_alone_is_enough() {
    let node = Node::new();
    let mut v6 = result("fd00::5/64");
    v6["ips"][0]["gateway"] = json!("fd00::1");
    node.plugins.good("two", &v6);
    assert_eq!(
        node.add("c1").await.unwrap()["ips"][0]["address"],
        "fd00::5/64"
    );
}

#[tokio::test]
async fn the_annotation_says_which_networks_and_interfaces() {
    let node = Node::new();
    node.pod(&json!({ "k8s.v1.cni.cncf.io/networks": "ns/two@eth7, one@net1" }));
    node.add("c1").await.unwrap();
    // The first is always on the runtime's interface.
    assert_eq!(node.calls(), ["ADD two c1 eth0", "ADD one c1 net1"]);
}

#[tokio::test]
async fn an_unknown_network_is_refused_before_anything_is_done() {
    let mut node = Node::new();
    node.pod(&json!({ "k8s.v1.cni.cncf.io/networks": "one,three" }));
    let error = node.add("c1").await.unwrap_err();
    assert_eq!(error.reason(), "UnknownNetwork");
    assert!(node.calls().is_empty());
    assert_eq!(node.state("c1"), None);
    assert_eq!(node.inbox.so_far()[0].reason, "UnknownNetwork");
}

#[tokio::test]
async fn a_list_of_plugins_is_one_network() {
    let node = Node::new();
    let list = json!({
        "name": "chain", "cniVersion": "1.0.0",
        "plugins": [{ "type": "one" }, { "type": "two", "capabilities": { "mac": true } }],
    });
    fs::write(
        node.folder.path().join("net.d/10-chain.conflist"),
        list.to_string(),
    )
    .unwrap();
    node.pod(&json!({ "k8s.v1.cni.cncf.io/networks": "chain" }));
    let added = node.add("c1").await.unwrap();
    assert_eq!(node.calls(), ["ADD one c1 eth0", "ADD two c1 eth0"]);
    assert_eq!(node.inputs("two")[0]["name"], "chain");
    assert_eq!(
        node.inputs("two")[0]["prevResult"]["ips"][0]["address"],
        "10.0.0.5/24"
    );
    assert_eq!(added["ips"][0]["address"], "10.0.1.5/24");
    // Of a list, the last result is that of all.
    let state = node.state("c1").unwrap();
    assert_eq!(
        state[0]["Conf"]["prevResult"]["ips"][0]["address"],
        "10.0.1.5/24"
    );
    node.plugins.forget();
    node.del("c1").await.unwrap();
    assert_eq!(node.calls(), ["DEL two c1 eth0", "DEL one c1 eth0"]);
}

#[tokio::test]
async fn what_the_author_says_reaches_every_plugin_as_it_was_written() {
    let node = Node::new();
    node.common(&json!({ "mtu": 1400, "words": ["a", "b"] }));
    node.add("c1").await.unwrap();
    for kind in ["one", "two"] {
        let args = &node.plugins.lines(&format!("{kind}.args"))[0];
        assert!(
            args.starts_with("IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;"),
            "{args}"
        );
        assert!(args.ends_with(r#";mtu=1400;words=["a","b"]"#), "{args}");
    }
}

#[tokio::test]
async fn an_address_that_the_pod_holds_is_handed_on_in_galaxys_form() {
    let node = Node::new();
    node.common(&json!({ "ipinfos": [
        { "ip": "10.0.0.5/24", "vlan": 2, "gateway": "10.0.0.1", "routable_subnet": "old" },
        { "ip": "10.0.0.6/24", "vlan": 2, "gateway": "10.0.0.1" },
    ] }));
    node.record("10.0.0.5", "sts_ns_web_web-0", "u1");
    node.record("10.0.0.6", "sts_ns_web_web-0", "u1");
    node.add("c1").await.unwrap();
    let args = &node.plugins.lines("one.args")[0];
    let infos = r#";ipinfos=[{"ip":"10.0.0.5/24","vlan":2,"gateway":"10.0.0.1"},{"ip":"10.0.0.6/24","vlan":2,"gateway":"10.0.0.1"}]"#;
    assert!(args.ends_with(infos), "{args}");
}

#[tokio::test]
async fn the_watch_is_not_believed_when_it_knows_no_address_of_a_pod_that_wants_one() {
    let node = Node::new();
    node.attacher.pods.remember(Pod {
        namespace: "ns".into(),
        name: "web-0".into(),
        uid: "u1".into(),
        wants_address: true,
        ..Pod::default()
    });
    let info = json!({ "ip": "10.0.0.5/24", "vlan": 0, "gateway": "10.0.0.1" });
    node.common(&json!({ "ipinfos": [info] }));
    node.record("10.0.0.5", "sts_ns_web_web-0", "u1");
    node.add("c1").await.unwrap();
    assert!(node.plugins.lines("one.args")[0].contains("ipinfos="));
}

#[tokio::test]
async fn an_empty_list_of_addresses_stays_one_for_the_plugin_to_refuse() {
    let node = Node::new();
    node.common(&json!({ "ipinfos": [] }));
    node.add("c1").await.unwrap();
    assert!(node.plugins.lines("one.args")[0].ends_with(";ipinfos=[]"));
}

#[tokio::test]
async fn an_address_of_somebody_else_is_refused_and_told() {
    for (record, reason) in [
        (None, "AddressNotRecorded"),
        (Some(("sts_ns_web_web-1", "u1")), "AddressOfAnotherPod"),
        (Some(("sts_ns_web_web-0", "u0")), "AddressOfAnotherPod"),
    ] {
        let mut node = Node::new();
        node.common(&json!({ "ipinfos": [
            { "ip": "10.0.0.5/24", "vlan": 2, "gateway": "10.0.0.1" },
            { "ip": "10.0.0.9/24", "vlan": 2, "gateway": "10.0.0.1" },
        ] }));
        node.record("10.0.0.5", "sts_ns_web_web-0", "u1");
        if let Some((key, uid)) = record {
            node.record("10.0.0.9", key, uid);
        }
        let error = node.add("c1").await.unwrap_err();
        assert_eq!(error.reason(), reason);
        assert!(error.to_string().contains("10.0.0.9"), "{error}");
        assert!(node.calls().is_empty());
        assert_eq!(node.inbox.so_far()[0].reason, reason);

        // Unless somebody wants it so.
        node.attacher.records = None;
        node.add("c1").await.unwrap();
    }
}

#[tokio::test]
async fn no_trick_in_the_annotation_brings_an_unchecked_address_to_a_plugin() {
    let stolen = r#"[{"ip":"10.0.0.9/24","vlan":0,"gateway":"10.0.0.1"}]"#;
    let tricks = [
        // A text that looks like another argument.
        json!({ "x": format!("a;ipinfos={stolen}") }),
        // A name that looks like one.
        json!({ format!("a;ipinfos={stolen};b"): 1 }),
        // The same member twice, of which a reader takes one.
        json!({ "IPINFOS": serde_json::from_str::<Value>(stolen).unwrap() }),
        // Another pod's name.
        json!({ "K8S_POD_NAME": "web-1" }),
        // Names that no argument can have.
        json!({ "a=b": 1 }),
        json!({ "": 1 }),
        json!({ " x": 1 }),
        json!({ "a\0": 1 }),
        // More than a process can be started with.
        json!({ "a": "x".repeat(200 << 10) }),
    ];
    for trick in tricks {
        let node = Node::new();
        node.common(&trick);
        let added = node.add("c1").await;
        for args in node.plugins.lines("one.args") {
            let args = floe_core::cni::args::CniArgs::parse(&args).unwrap();
            assert_eq!(args.get("ipinfos"), None, "{trick}");
            assert_eq!(args.get("K8S_POD_NAME"), Some("web-0"), "{trick}");
        }
        assert!(added.is_err() || trick.get("x").is_some(), "{trick}");
        // Whatever a pod says, it can be deleted.
        if added.is_err() {
            assert_eq!(node.state("c1"), None, "{trick}");
            assert!(node.calls().is_empty(), "{trick}");
        }
        node.del("c1").await.unwrap();
        assert_eq!(node.state("c1"), None, "{trick}");
    }
}

#[tokio::test]
async fn what_plugins_cannot_be_told_is_refused_with_its_reason() {
    for (common, reason) in [
        (json!({ "a=b": 1 }), "InvalidArgs"),
        (json!({ "a": "x".repeat(65 << 10) }), "ArgsTooLong"),
    ] {
        let mut node = Node::new();
        node.common(&common);
        assert_eq!(node.add("c1").await.unwrap_err().reason(), reason);
        assert_eq!(node.inbox.so_far()[0].reason, reason);
    }
}

#[tokio::test]
async fn a_claim_that_no_node_could_set_up_asks_nobody() {
    let info = |ip: &str, vlan: u16| json!({ "ip": ip, "vlan": vlan, "gateway": "10.0.0.1" });
    let many: Vec<Value> = (1..100)
        .map(|end| info(&format!("10.0.0.{end}/24"), 0))
        .collect();
    for claim in [
        json!(many),
        json!([info("10.0.0.5/24", 0), info("10.0.0.5/24", 0)]),
        json!([info("127.0.0.1/8", 0)]),
        json!([info("10.0.0.5/24", 4095)]),
    ] {
        let node = Node::new();
        node.common(&json!({ "ipinfos": claim }));
        let error = node.add("c1").await.unwrap_err();
        assert_eq!(error.reason(), "InvalidIpInfos", "{error}");
        assert_eq!(node.server.count(&Method::GET, RECORDS), 0);
        assert!(node.calls().is_empty());
    }
}

#[tokio::test]
async fn another_network_than_the_pod_was_given_is_refused() {
    let mut node = Node::new();
    let claim = |vlan: u16| json!({ "ip": "10.0.0.5/24", "vlan": vlan, "gateway": "10.0.0.1" });
    let mut given = claim(2);
    given["uid"] = json!("u1");
    node.record("10.0.0.5", "sts_ns_web_web-0", "u1");
    let mut record = node.server.object(RECORDS, "10.0.0.5").unwrap();
    record["metadata"]["annotations"] = json!({ "floe.dev/network": given.to_string() });
    node.server.put(RECORDS, record);
    node.common(&json!({ "ipinfos": [claim(7)] }));
    let error = node.add("c1").await.unwrap_err();
    assert_eq!(error.reason(), "AddressNetworkDiffers");
    assert!(node.calls().is_empty());
    assert_eq!(node.inbox.so_far()[0].reason, "AddressNetworkDiffers");
    node.common(&json!({ "ipinfos": [claim(2)] }));
    node.add("c1").await.unwrap();
}

#[tokio::test]
async fn an_annotation_that_cannot_be_read_is_refused() {
    let node = Node::new();
    for args in ["{", r#"{"common":{"ipinfos":[{"ip":"10.0.0.5"}]}}"#] {
        node.pod(&json!({ "k8s.v1.cni.galaxy.io/args": args }));
        assert_eq!(node.add("c1").await.unwrap_err().reason(), "InvalidArgs");
    }
    assert!(node.calls().is_empty());
}

#[tokio::test]
async fn a_second_add_of_a_container_forgets_nothing_of_the_first() {
    let node = Node::new();
    node.pod(&json!({ "k8s.v1.cni.cncf.io/networks": "one" }));
    node.add("c1").await.unwrap();
    node.pod(&json!({ "k8s.v1.cni.cncf.io/networks": "two" }));
    node.add("c1").await.unwrap();
    node.plugins.forget();
    node.del("c1").await.unwrap();
    assert_eq!(node.calls(), ["DEL two c1 eth0", "DEL one c1 eth0"]);
}

#[tokio::test]
async fn a_state_file_that_cannot_be_written_fails_the_add_before_any_plugin() {
    let node = Node::new();
    fs::write(node.folder.path().join("state"), "not a folder").unwrap();
    assert_eq!(
        node.add("c1").await.unwrap_err().reason(),
        "StateUnavailable"
    );
    assert!(node.calls().is_empty());
}
