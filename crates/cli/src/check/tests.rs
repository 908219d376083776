use floe_shell::mock::{Fault, Server};
use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::{
    args::{CONFIG_MAP, Consent, Output},
    console::script,
    fixture::{self, RECORDS, record},
    remote::stage::Stage,
};

const PODS: &str = "/api/v1/namespaces/db/pods";

fn server() -> Server {
    let server = Server::default();
    let text = r#"[{"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.2~10.0.70.20"],
        "subnet": "10.0.70.0/24", "gateway": "10.0.70.1"}]"#;
    server.put(
        "/api/v1/namespaces/kube-system/configmaps",
        json!({ "metadata": { "name": "floatingip-config" }, "data": { "floatingips": text } }),
    );
    let addresses = json!([{ "type": "InternalIP", "address": "10.0.1.5" }]);
    server.put(
        "/api/v1/nodes",
        json!({ "metadata": { "name": "n1" }, "status": { "addresses": addresses } }),
    );
    let mut bound = record("10.0.70.2", "sts_db_pg_pg-0", "n1");
    bound["metadata"]["labels"] = json!({ "floe.dev/node": "n1" });
    server.put(RECORDS, bound);
    server.put(PODS, pod("pg-0", "uid-1", "10.0.70.2"));
    server
}

fn pod(name: &str, uid: &str, ip: &str) -> Value {
    let info = json!({ "ip": format!("{ip}/24"), "vlan": 0, "gateway": "10.0.70.1" });
    let args = json!({ "common": { "ipinfos": [info] } }).to_string();
    json!({
        "metadata": {
            "name": name, "uid": uid, "annotations": { "k8s.v1.cni.galaxy.io/args": args },
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{
                "name": "c", "resources": { "requests": { "tke.cloud.tencent.com/eni-ip": "1" } },
            }],
        },
        "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }] },
    })
}

/// What the command says on both streams, and how it ends.
async fn check(server: &Server, fix: bool, format: Option<Format>) -> (String, String, String) {
    let (mut console, out, err) = script::console(None);
    let command = args::Check {
        fix,
        config_map: CONFIG_MAP.into(),
        consent: Consent { yes: true },
        listing: Listing {
            output: Output { format },
            no_headers: false,
        },
        api: fixture::api(),
    };
    let result = run(&fixture::cluster(server), &mut console, &command).await;
    let end = result.map_or_else(|failure| failure.to_string(), |()| String::new());
    (out.text(), err.text(), end)
}

#[tokio::test]
async fn what_fits_together_is_told_so() {
    let (out, _, end) = check(&server(), false, None).await;
    let text = "Everything fits together: 1 record, 1 pod, 0 pools, 1 node.\n";
    assert_eq!((out.as_str(), end.as_str()), (text, ""));
    assert_eq!(check(&server(), false, Some(Format::Json)).await.0, "[]\n");
}

#[tokio::test]
async fn what_does_not_is_told_by_name_and_mended_where_that_is_safe() {
    let server = server();
    let mut gone = record("10.0.70.3", "sts_db_pg_pg-1", "");
    gone["spec"]["policy"] = json!(0);
    server.put(RECORDS, gone);
    let mut marked = server.object(RECORDS, "10.0.70.2").unwrap();
    marked["metadata"]["labels"] = json!({ "floe.dev/outside-configuration": "true", "x": "y" });
    server.put(RECORDS, marked);
    server.put(RECORDS, record("10.0.70.4", "somebody", ""));

    let (out, _, end) = check(&server, false, None).await;
    assert_eq!(end, "3 inconsistencies");
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[1].starts_with("floatingip/10.0.70.2   LabelsNotTrue   yes "),
        "{out}"
    );
    assert!(
        lines[2].starts_with("floatingip/10.0.70.3   PodGone         yes "),
        "{out}"
    );
    assert!(
        lines[3].starts_with("floatingip/10.0.70.4   ForeignKey      no "),
        "{out}"
    );

    let (_, told, end) = check(&server, true, None).await;
    assert_eq!(end, "1 inconsistency");
    assert!(told.contains("done: free 10.0.70.3"), "{told}");
    assert!(server.object(RECORDS, "10.0.70.3").is_none());
    let labels = server.object(RECORDS, "10.0.70.2").unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels, json!({ "floe.dev/node": "n1", "x": "y" }));
    let (out, ..) = check(&server, true, Some(Format::Name)).await;
    assert_eq!(out, "floatingip/10.0.70.4\n");
}

#[tokio::test]
async fn nothing_is_freed_that_a_pod_has_got_meanwhile() {
    let server = server();
    let mut gone = record("10.0.70.3", "sts_db_pg_pg-1", "");
    gone["spec"]["policy"] = json!(0);
    server.put(RECORDS, gone);
    let scene = Scene::read(&fixture::cluster(&server), CONFIG_MAP)
        .await
        .unwrap();
    let fix = audit(&scene.world())[0].fix().unwrap();
    let cluster = fixture::cluster(&server);
    let mut mender = Mender::<Stage>::new(&cluster, &scene);
    let (mut console, ..) = script::console(None);
    server.put(PODS, pod("pg-1", "new", "10.0.70.3"));
    let outcome = mender.mend(&mut console, &fix).await.unwrap();
    assert_eq!(outcome.unwrap_err(), "there is such a pod again");

    server.delete(PODS, "pg-1");
    let mut other = server.object(RECORDS, "10.0.70.3").unwrap();
    other["spec"]["key"] = json!("sts_db_pg_pg-2");
    server.put(RECORDS, other);
    let outcome = mender.mend(&mut console, &fix).await.unwrap();
    assert_eq!(outcome.unwrap_err(), "it has changed since; check again");
    assert!(server.object(RECORDS, "10.0.70.3").is_some());
}

#[tokio::test]
async fn without_a_configuration_that_is_what_is_told() {
    let server = server();
    server.delete(
        "/api/v1/namespaces/kube-system/configmaps",
        "floatingip-config",
    );
    let (out, _, end) = check(&server, true, None).await;
    assert!(out.contains("NoConfiguration"), "{out}");
    assert_eq!(end, "1 inconsistency");
}

/// A server with a record of a pod that is gone, bound for this node.
fn left_behind(node: &str) -> Server {
    let server = server();
    let mut gone = record("10.0.70.3", "sts_db_pg_pg-1", node);
    gone["spec"]["policy"] = json!(0);
    if !node.is_empty() {
        gone["metadata"]["labels"] = json!({ "floe.dev/node": node });
    }
    server.put(RECORDS, gone);
    server
}

#[tokio::test]
async fn addresses_are_freed_by_the_controller_if_there_is_one() {
    let server = left_behind("n1");
    let cluster = fixture::cluster(&server);
    let scene = Scene::read(&cluster, CONFIG_MAP).await.unwrap();
    let fix = audit(&scene.world())[0].fix().unwrap();
    for (done, wanted) in [(true, Ok(())), (false, Err("why (Reason)".to_owned()))] {
        let result =
            json!({ "ip": "10.0.70.3", "done": done, "reason": "Reason", "message": "why" });
        let answer = json!({ "results": [result], "dryRun": false });
        let stage = Stage::secure(vec![(200, answer)]);
        let (mut console, ..) = script::console(None);
        let mut mender = Mender::new(&cluster, &scene);
        mender.ask(&mut console, Ok(stage.remote())).unwrap();
        let outcome = mender.mend(&mut console, &fix).await.unwrap();
        assert_eq!(outcome, wanted);
        let asked = &stage.asked()[0];
        assert_eq!(asked.what, "POST /v2/ips/release");
        let body = json!([{ "ip": "10.0.70.3", "key": "sts_db_pg_pg-1" }]);
        assert_eq!(asked.body["ips"], body);
    }
    let calls = server.state().calls.clone();
    assert!(calls.iter().all(|it| it.starts_with("GET")), "{calls:?}");
}

#[tokio::test]
async fn what_is_on_a_node_waits_for_a_controller() {
    let server = left_behind("n1");
    let (_, told, end) = check(&server, true, None).await;
    assert_eq!(end, "1 inconsistency");
    assert!(
        told.contains("warning: no controller of floe runs in namespace kube-system"),
        "{told}"
    );
    let line = "not done: free 10.0.70.3: it is bound for node n1, so only a controller frees it";
    assert!(told.contains(line), "{told}");
    assert!(server.object(RECORDS, "10.0.70.3").is_some());

    let server = left_behind("");
    let (_, told, end) = check(&server, true, None).await;
    assert_eq!(end, "", "{told}");
    assert!(server.object(RECORDS, "10.0.70.3").is_none());
}

#[tokio::test]
async fn without_a_configuration_no_label_says_that_an_address_is_inside() {
    let server = server();
    server.delete(
        "/api/v1/namespaces/kube-system/configmaps",
        "floatingip-config",
    );
    let outside = "floe.dev/outside-configuration";
    let mut marked = server.object(RECORDS, "10.0.70.2").unwrap();
    marked["metadata"]["labels"] = json!({ outside: "true", "floe.dev/node": "n2" });
    server.put(RECORDS, marked);
    let (_, told, _) = check(&server, true, None).await;
    assert!(
        told.contains("done: write the labels of 10.0.70.2 anew"),
        "{told}"
    );
    let labels = server.object(RECORDS, "10.0.70.2").unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels, json!({ outside: "true", "floe.dev/node": "n1" }));
}

#[tokio::test]
async fn a_bad_annotation_of_one_tenant_is_shown_and_does_not_fail_the_check() {
    let server = server();
    let mut bad = pod("typo", "uid-9", "10.244.0.9");
    bad["metadata"]["annotations"] = json!({ "k8s.v1.cni.galaxy.io/args": "{" });
    bad["status"] = json!({ "phase": "Pending" });
    server.put("/api/v1/namespaces/tenant/pods", bad.clone());
    let (out, told, end) = check(&server, false, None).await;
    assert!(
        out.contains("pod/tenant/typo   UnreadableAnnotation"),
        "{out}"
    );
    assert_eq!(end, "");
    let remark = "1 finding concerns only the author of the object, and the check does not fail \
                  for it\n";
    assert_eq!(told, remark);
    let (out, ..) = check(&server, false, Some(Format::Json)).await;
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(rows[0]["notice"], true);

    // It runs with an address of the configuration that has no record.
    bad["status"] = json!({ "phase": "Running", "podIP": "10.0.70.9" });
    server.put("/api/v1/namespaces/tenant/pods", bad);
    let (_, _, end) = check(&server, false, None).await;
    assert_eq!(end, "1 inconsistency");
}

#[tokio::test]
async fn what_agents_miss_on_their_nodes_is_found() {
    const NODES: &str = "/apis/floe.dev/v1alpha1/nodenetworks";
    let server = server();
    let since = "2026-01-02T03:04:05Z";
    let missing = |pod: &str| json!([{ "ip": "10.0.70.2", "pod": pod, "since": since }]);
    let node =
        |missing: Value| json!({ "metadata": { "name": "n1" }, "status": { "missing": missing } });
    server.put(NODES, node(json!([])));
    let (out, _, _) = check(&server, false, None).await;
    assert!(out.contains("Everything fits together"), "{out}");
    server.put(NODES, node(missing("db/pg-0")));
    let (out, _, _) = check(&server, false, None).await;
    assert!(out.contains("pod/db/pg-0"), "{out}");
    assert!(out.contains("AddressMissing"), "{out}");
    // Of a pod that is not there any more nothing is said.
    server.put(NODES, node(missing("db/pg-7")));
    let (out, _, _) = check(&server, false, None).await;
    assert!(out.contains("Everything fits together"), "{out}");
    // Users without the permission learn what was not compared.
    server.fault(Method::GET, "nodenetworks", Fault::Refuse(403));
    let (out, err, _) = check(&server, false, None).await;
    assert!(out.contains("Everything fits together"), "{out}");
    assert!(err.contains("may not list nodenetworks.floe.dev"), "{err}");
}
