use floe_shell::mock::Server;
use serde_json::{Value, json};

use super::*;
use crate::{
    args::{Format, Listing, NodePoolList, Output},
    console::script,
    fixture,
};

const HERE: &str = "/apis/flipop.digitalocean.com/v1alpha1/namespaces/default/floatingippools";
const BANK: &str = "/apis/flipop.digitalocean.com/v1alpha1/namespaces/bank/floatingippools";

fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool",
        "metadata": { "name": name },
        "spec": {
            "provider": "digitalocean", "region": "nyc3", "ips": ["1.2.3.4", "5.6.7.8"],
            "match": { "nodeLabel": "pool=ingress", "tolerations": [
                { "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" },
            ] },
            "gracePeriodSeconds": 5, "dnsRecordSet": { "zone": "example.com", "recordName": "www" },
        },
        "status": {
            "ips": {
                "1.2.3.4": { "state": "active", "providerID": "digitalocean://1", "nodeName": "n1" },
                "5.6.7.8": {
                    "state": "error", "reason": "RateLimited",
                    "error": "assigning IP to node: too many calls",
                },
            },
            "assignableNodes": ["n2"],
            "summary": { "addresses": 2, "active": 1, "waiting": 1 },
            "moves": { "1.2.3.4": {
                "at": "2026-01-01T00:00:00Z", "from": "n2", "to": "n1", "reason": "NodeNotReady",
            } },
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "RateLimited", "message": "5.6.7.8: slow",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    })
}

fn inhabited() -> Server {
    let server = Server::default();
    server.put(HERE, pool("web"));
    let mut broken = pool("broken");
    broken["status"] = json!({ "error": "unknown provider \"mars\"" });
    server.put(BANK, broken);
    server
}

async fn run_on(server: &Server, command: args::NodePool) -> (String, String, Result<(), Failure>) {
    let (mut console, out, err) = script::console(None);
    let cluster = fixture::cluster(server);
    let result = run(&cluster, &mut console, &command).await;
    (out.text(), err.text(), result)
}

fn list(all_namespaces: bool, node: Option<&str>, format: Option<Format>) -> args::NodePool {
    args::NodePool::List(NodePoolList {
        all_namespaces,
        selector: None,
        node: node.map(str::to_owned),
        listing: Listing {
            output: Output { format },
            no_headers: false,
        },
    })
}

fn show(name: &str, format: Option<Format>) -> args::NodePool {
    args::NodePool::Show {
        names: vec![name.to_owned()],
        output: Output { format },
    }
}

#[tokio::test]
async fn pools_are_listed_with_what_is_in_use() {
    let (out, _, result) = run_on(&inhabited(), list(true, None, None)).await;
    result.unwrap();
    let rows: Vec<Vec<&str>> = out
        .lines()
        .map(|it| it.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0],
        [
            "NAMESPACE",
            "NAME",
            "PROVIDER",
            "ADDRESSES",
            "ACTIVE",
            "WAITING",
            "READY",
            "REASON"
        ]
    );
    let broken = [
        "bank",
        "broken",
        "digitalocean",
        "0",
        "0",
        "0",
        "False",
        "Invalid",
    ];
    assert_eq!(rows[1], broken);
    let web = [
        "default",
        "web",
        "digitalocean",
        "2",
        "1",
        "1",
        "False",
        "RateLimited",
    ];
    assert_eq!(rows[2], web);
    assert_eq!(rows.len(), 3);
}

#[tokio::test]
async fn pools_are_found_by_the_node_that_has_an_address() {
    let (out, _, result) = run_on(&inhabited(), list(false, Some("n1"), None)).await;
    result.unwrap();
    assert_eq!(out.lines().count(), 2);
    let (out, err, result) = run_on(&inhabited(), list(false, Some("n9"), None)).await;
    result.unwrap();
    assert_eq!(out, "");
    assert!(
        err.contains("No node pools found in namespace default"),
        "{err}"
    );
}

#[tokio::test]
async fn a_wide_list_says_more_and_yaml_says_everything() {
    let (out, _, result) = run_on(&inhabited(), list(true, None, Some(Format::Wide))).await;
    result.unwrap();
    assert!(out.contains("www in example.com"), "{out}");
    assert!(out.contains("unknown provider \"mars\""), "{out}");
    let (out, _, result) = run_on(&inhabited(), show("web", Some(Format::Json))).await;
    result.unwrap();
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["spec"]["region"], "nyc3");
}

#[tokio::test]
async fn a_pool_is_shown_with_each_address_and_its_last_move() {
    for name in ["web", "floatingippool/web"] {
        let (out, _, result) = run_on(&inhabited(), show(name, None)).await;
        result.unwrap();
        for text in [
            "digitalocean (nyc3)",
            "the 2 addresses of the list",
            "1.2.3.4 active on n1",
            "5.6.7.8 error (RateLimited: assigning IP to node: too many calls)",
            "1.2.3.4 from n2 to n1, ",
            "(NodeNotReady)",
            "Ready False (RateLimited): 5.6.7.8: slow",
            "nodes with pool=ingress",
            "tolerates node.kubernetes.io/unschedulable NoSchedule",
            "5 s pod not ready, 5 s node not ready, 5 s node gone",
            "all addresses stay",
            "www in example.com",
        ] {
            assert!(out.contains(text), "{text} is not in\n{out}");
        }
    }
}

#[tokio::test]
async fn what_is_not_there_may_have_another_name() {
    let (_, _, result) = run_on(&inhabited(), show("wep", None)).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.hint().unwrap(), "did you mean \"web\"?");
    let (_, _, result) = run_on(&inhabited(), show("../x", None)).await;
    assert!(matches!(result.unwrap_err(), Failure::Usage(_)));
}
