use floe_shell::mock::Server;
use serde_json::{Value, json};

use super::*;
use crate::{
    console::script,
    fixture,
    remote::stage::{Stage, problem},
};

fn held() -> Value {
    json!({
        "summary": ["Pod web/web-0 has it.", "So since 2026-01-01T00:00:00Z."],
        "ip": {
            "address": {
                "ip": "10.0.70.2", "state": "Bound", "key": "sts_web_web_web-0",
                "holder": {
                    "appType": "statefulset", "namespace": "web", "app": "web", "pod": "web-0",
                },
                "policy": "never", "node": "node-1", "podUid": "u", "podPhase": "Running",
                "since": "2026-01-01T00:00:00Z", "releasable": false, "subnet": "10.0.70.0/24",
                "gateway": "10.0.70.1", "vlan": 2, "nodeSubnets": ["10.0.0.0/16"],
            },
            "reason": "PodHolds", "releasedBy": "a release by hand, once its pod is gone",
        },
    })
}

async fn explain(
    server: &Server,
    stage: &Stage,
    what: &str,
    format: Option<Format>,
) -> Result<String, Failure> {
    let cluster = fixture::cluster(server);
    let (mut console, out, _) = script::console(None);
    let question = Question::read(what, "default")?;
    ask(
        &cluster,
        &mut console,
        &mut stage.remote(),
        &question,
        format,
    )
    .await?;
    Ok(out.text())
}

#[test]
fn an_address_is_an_address_and_all_else_is_a_pod() {
    let pod = |namespace: &str, name: &str| Question::Pod {
        namespace: namespace.into(),
        name: name.into(),
    };
    let read = |text| Question::read(text, "default");
    assert_eq!(read("web-0").unwrap(), pod("default", "web-0"));
    assert_eq!(read("db/pg-0").unwrap(), pod("db", "pg-0"));
    let ip = Question::Ip("10.0.70.2".parse().unwrap());
    assert_eq!(read("10.0.70.2").unwrap(), ip);
    assert_eq!(
        read("fd00:73::2").unwrap().path(),
        "/v2/explain?ip=fd00:73::2"
    );
    assert_eq!(read("db/pg-0").unwrap().path(), "/v2/explain?pod=db/pg-0");
    assert_eq!(read("pod/web-0").unwrap(), pod("default", "web-0"));
    for name in ["floatingip.galaxy.k8s.io/10.0.70.2", "fip/10.0.70.2"] {
        assert_eq!(read(name).unwrap(), ip, "as -o name says");
    }
    for wrong in ["", "/", "a/", "/a", "a/b/c", "a b", "a?x=1", "A"] {
        assert_eq!(read(wrong).unwrap_err().exit_code(), 2, "{wrong:?}");
    }
}

#[test]
fn a_workload_is_not_looked_for_as_a_pod() {
    for text in ["deployment/web", "deployments.apps/web", "sts/web"] {
        let failure = Question::read(text, "shop").unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        assert_eq!(
            failure.to_string(),
            format!(
                "{text:?} is a workload, and only an address or a pod can be explained; kubectl \
                 floe ip list -n shop --app web lists its addresses"
            )
        );
    }
}

#[test]
fn a_mistyped_address_is_not_looked_for_as_a_pod() {
    for text in [
        "10.200.0.300",
        "10.200.0",
        "10.200.0.1.5",
        "fd00:70:::5",
        "fip/10.0.0.256",
    ] {
        let failure = Question::read(text, "default").unwrap_err();
        assert_eq!(failure.exit_code(), 2, "{text}");
        let told = failure.to_string();
        assert!(
            told.starts_with(&format!("{text:?} is no IP address")),
            "{told}"
        );
    }
    // Pods can have such names.
    for text in ["10", "v1.2.3", "10.0.0.x"] {
        assert!(
            matches!(Question::read(text, "default"), Ok(Question::Pod { .. })),
            "{text}"
        );
    }
}

#[tokio::test]
async fn words_come_first_and_then_all_there_is() {
    let server = Server::default();
    let stage = Stage::secure(vec![(200, held())]);
    let text = explain(&server, &stage, "10.0.70.2", None).await.unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    let since = lines
        .iter()
        .position(|it| it.starts_with("Since:"))
        .unwrap();
    let since = lines.remove(since);
    assert!(
        since.contains("2026-01-01T00:00:00Z (") && since.ends_with(" ago)"),
        "{since}"
    );
    assert_eq!(
        lines.join("\n"),
        "Pod web/web-0 has it.\n\
         So since 2026-01-01T00:00:00Z.\n\
         \n\
         Address:       10.0.70.2\n\
         State:         Bound\n\
         Reason:        PodHolds\n\
         Holder:        web/web-0\n\
         Pod phase:     Running\n\
         Node:          node-1\n\
         Policy:        never\n\
         Released by:   a release by hand, once its pod is gone\n\
         Releasable:    no\n\
         Subnet:        10.0.70.0/24\n\
         Gateway:       10.0.70.1\n\
         VLAN:          2\n\
         Node subnets:  10.0.0.0/16"
    );
}

#[tokio::test]
async fn tools_get_the_answer_as_it_came() {
    let server = Server::default();
    let stage = Stage::secure(vec![(200, held())]);
    let json = explain(&server, &stage, "10.0.70.2", Some(Format::Json)).await;
    let value: Value = serde_json::from_str(&json.unwrap()).unwrap();
    assert_eq!(value, held());
    let yaml = explain(&server, &stage, "10.0.70.2", Some(Format::Yaml)).await;
    assert!(yaml.unwrap().contains("reason: PodHolds"));
    let name = explain(&server, &stage, "10.0.70.2", Some(Format::Name)).await;
    assert_eq!(name.unwrap(), "floatingip.galaxy.k8s.io/10.0.70.2\n");
}

#[tokio::test]
async fn a_pod_that_waits_is_told_of_with_its_nodes() {
    let server = Server::default();
    let waiting = json!({
        "summary": ["Pod default/web-3 has no address yet: no address is left."],
        "pod": {
            "namespace": "default", "name": "web-3", "wantsAddress": true, "addresses": [],
            "refusal": { "reason": "NoAddressLeft", "message": "no address is left" },
            "rollout": { "reason": "DisruptionBudget", "message": "a budget protects web-1" },
            "unfitNodes": [
                { "reason": "NoAddressLeft", "message": "no address is left", "nodes": 4 },
                { "reason": "NodeWithoutSubnet", "message": "in no subnet", "nodes": 1 },
            ],
        },
    });
    let stage = Stage::secure(vec![(200, waiting)]);
    assert_eq!(
        explain(&server, &stage, "web-3", None).await.unwrap(),
        "Pod default/web-3 has no address yet: no address is left.\n\
         \n\
         Pod:                default/web-3\n\
         Node:               <none>\n\
         Asks:               yes\n\
         Addresses:          <none>\n\
         Reason:             NoAddressLeft\n\
         Rollout:            a budget protects web-1 (DisruptionBudget)\n\
         Nodes that do not:  4: no address is left (NoAddressLeft)\n                    \
         1: in no subnet (NodeWithoutSubnet)\n"
    );
}

#[tokio::test]
async fn a_pod_that_is_not_there_may_have_been_another_one() {
    let server = Server::default();
    server.put(
        "/api/v1/namespaces/default/pods",
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web-0" } }),
    );
    let stage = Stage::secure(vec![problem(404, "NoSuchPod", "there is no pod")]);
    let failure = explain(&server, &stage, "wbe-0", None).await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "no such pod \"wbe-0\" in namespace default"
    );
    assert_eq!(failure.hint().unwrap(), "did you mean \"web-0\"?");
    let failure = explain(&server, &stage, "other", None).await.unwrap_err();
    assert_eq!(failure.hint(), None);
}

#[tokio::test]
async fn nothing_in_an_answer_moves_the_terminal() {
    let server = Server::default();
    let mut evil = held();
    evil["summary"][0] = json!("red \u{1b}[31m");
    evil["ip"]["address"]["node"] = json!("\u{7}");
    let stage = Stage::secure(vec![(200, evil)]);
    let text = explain(&server, &stage, "10.0.70.2", None).await.unwrap();
    assert!(text.contains("red ?[31m"), "{text}");
    assert!(!text.contains('\u{7}'), "{text}");
}

#[tokio::test]
async fn a_shared_address_is_told_of_with_its_pods() {
    let server = Server::default();
    let pod =
        |name: &str, node: &str| json!({ "pod": name, "uid": "u", "node": node, "mode": "nat" });
    let shared = json!({
        "summary": ["It is shared."],
        "ip": {
            "address": {
                "ip": "10.0.70.20", "state": "Shared", "key": "vip__shop_web_",
                "releasable": false,
            },
            "reason": "Shared",
            "shared": {
                "reason": "Held",
                "vip": {
                    "namespace": "shop", "name": "web", "state": "Held",
                    "addresses": ["10.0.70.20"], "holder": pod("a", "n1"),
                    "successor": pod("b", "n2"), "candidates": [pod("a", "n1"), pod("b", "n2")],
                    "moves": 3,
                },
                "movedBy": ["the end of its pod", "somebody who asks for it"],
            },
            "refusedTo": [{
                "namespace": "bank", "name": "x", "reason": "AddressTaken", "message": "m",
            }],
        },
    });
    let stage = Stage::secure(vec![(200, shared)]);
    assert_eq!(
        explain(&server, &stage, "10.0.70.20", None).await.unwrap(),
        "It is shared.\n\
         \n\
         Address:       10.0.70.20\n\
         State:         Shared\n\
         Reason:        Shared\n\
         Holder:        shop/vip/web\n\
         Releasable:    no\n\
         Sharing:       Held\n\
         At pod:        a on n1 (nat)\n\
         At pod since:  <none>\n\
         Next pod:      b on n2 (nat)\n\
         Candidates:    a on n1 (nat)\n               \
         b on n2 (nat)\n\
         Moves:         3\n\
         Moved by:      the end of its pod\n               \
         somebody who asks for it\n\
         Conditions:    <none>\n\
         Refused to:    bank/x (AddressTaken)\n"
    );
}
