use floe_shell::mock::{Fault, Server};
use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::{
    args::{Format, Listing, Output, VipList},
    console::script,
    fixture,
};

pub const SHOP: &str = "/apis/floe.dev/v1alpha1/namespaces/default/virtualips";
const BANK: &str = "/apis/floe.dev/v1alpha1/namespaces/bank/virtualips";

/// A pod in a status.
pub fn place(pod: &str, node: &str) -> Value {
    json!({
        "pod": pod, "uid": format!("uid-{pod}"), "node": node, "nodeAddress": "10.0.1.1",
        "addresses": ["10.244.0.2"], "mode": "nat", "since": "2026-01-02T00:00:00Z",
        "readySince": "2026-01-01T00:00:00Z",
    })
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": "as it is",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// Pod `a` has it, and `b` could.
pub fn held(name: &str) -> Value {
    json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": name },
        "spec": { "addresses": ["10.0.70.20"] },
        "status": {
            "addresses": ["10.0.70.20"], "holder": place("a", "n1"),
            "candidates": [place("a", "n1"), place("b", "n2")], "moves": 2,
            "lastMove": {
                "at": "2026-01-02T00:00:00Z", "reason": "NodeSilent", "from": "b", "to": "a",
            },
            "conditions": [
                condition("Accepted", "True", "Granted"), condition("Serving", "True", "Serving"),
                condition("Reachable", "False", "NoInterface"),
            ],
        },
    })
}

fn inhabited() -> Server {
    let server = Server::default();
    server.put(SHOP, held("web"));
    let mut idle = held("fd00--20");
    idle["metadata"]["labels"] = json!({ "floe.dev/claimed-by": "annotation" });
    idle["status"] = json!({
        "addresses": ["fd00::20"], "conditions": [condition("Accepted", "True", "Granted")],
    });
    server.put(SHOP, idle);
    let mut refused = held("greedy");
    refused["status"] = json!({ "conditions": [condition("Accepted", "False", "AddressTaken")] });
    server.put(BANK, refused);
    server
}

async fn run_on(server: &Server, command: args::Vip) -> (String, String, Result<(), Failure>) {
    let (mut console, out, err) = script::console(None);
    let cluster = fixture::cluster(server);
    let result = run(&cluster, &mut console, &command).await;
    (out.text(), err.text(), result)
}

fn list(all_namespaces: bool, node: Option<&str>, format: Option<Format>) -> args::Vip {
    args::Vip::List(VipList {
        all_namespaces,
        selector: None,
        node: node.map(str::to_owned),
        listing: Listing {
            output: Output { format },
            no_headers: false,
        },
    })
}

fn show(names: &[&str], format: Option<Format>) -> args::Vip {
    args::Vip::Show {
        names: names.iter().map(|it| (*it).to_owned()).collect(),
        output: Output { format },
    }
}

/// The columns but the age, which changes from day to day.
fn columns(out: &str) -> Vec<Vec<&str>> {
    out.lines()
        .map(|line| {
            let mut columns: Vec<_> = line.split_whitespace().collect();
            columns.remove(6);
            columns
        })
        .collect()
}

#[tokio::test]
async fn they_are_listed_with_the_pods_that_have_them() {
    let server = inhabited();
    let (out, _, result) = run_on(&server, list(true, None, None)).await;
    result.unwrap();
    let none = "<none>";
    assert_eq!(
        columns(&out),
        [
            [
                "NAMESPACE",
                "NAME",
                "ADDRESS",
                "STATE",
                "HOLDER",
                "NODE",
                "CANDIDATES",
                "MOVES",
                "REASON"
            ],
            [
                "bank", "greedy", none, "Refused", none, none, "0", "0", none
            ],
            [
                "default", "fd00--20", "fd00::20", "Vacant", none, none, "0", "0", none
            ],
            [
                "default",
                "web",
                "10.0.70.20",
                "Held",
                "a",
                "n1",
                "2",
                "2",
                "NodeSilent"
            ],
        ]
    );
    let (out, _, result) = run_on(&server, list(false, None, Some(Format::Wide))).await;
    result.unwrap();
    assert_eq!(
        columns(&out)[1..]
            .iter()
            .map(|it| it[9..].to_vec())
            .collect::<Vec<_>>(),
        [
            [none, none, "True", none, none, "annotation"],
            ["nat", none, "True", "True", "NoInterface", none],
        ]
    );
    let (out, _, result) = run_on(&server, list(true, Some("n1"), Some(Format::Name))).await;
    result.unwrap();
    assert_eq!(out, "virtualip.floe.dev/web\n");
    let (out, err, result) = run_on(&server, list(false, Some("n9"), None)).await;
    result.unwrap();
    assert_eq!(out, "");
    assert!(err.contains("-A shows those of all"), "{err}");
}

#[tokio::test]
async fn words_come_first_and_then_all_there_is() {
    let server = inhabited();
    let (out, _, result) = run_on(&server, show(&["web"], None)).await;
    result.unwrap();
    let told = out.lines().next().unwrap();
    assert_eq!(
        told,
        "It is at pod a on node n1 since 2026-01-02T00:00:00Z."
    );
    for line in [
        "Name:        web",
        "Namespace:   default",
        "State:       Held",
        "Addresses:   10.0.70.20",
        "Holder:      a on n1 (nat)",
        "Moves:       2",
        "Conditions:  Accepted True (Granted): as it is",
        "             Reachable False (NoInterface): as it is",
        "Failover:    0 s grace for unready pods, 3 s between moves for that",
        "Mode:        auto",
    ] {
        assert!(out.lines().any(|it| it == line), "{line} in {out}");
    }
    assert!(out.contains("\nWhat would move it: "), "{out}");
    assert!(
        out.contains("Candidates:  a on n1 (nat, ready for "),
        "{out}"
    );
    let (out, _, result) = run_on(&server, show(&["web"], Some(Format::Json))).await;
    result.unwrap();
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["status"]["holder"]["pod"], "a");
}

#[tokio::test]
async fn a_name_an_address_and_what_kubectl_says_are_all_understood() {
    let server = inhabited();
    for (typed, name) in [
        ("web", "web"),
        ("vip/web", "web"),
        ("virtualip.floe.dev/web", "web"),
        ("10.0.70.20", "web"),
        ("fd00::20", "fd00--20"),
        ("FD00:0::20", "fd00--20"),
    ] {
        let (out, _, result) = run_on(&server, show(&[typed], Some(Format::Name))).await;
        result.unwrap();
        assert_eq!(out, format!("{KIND}/{name}\n"), "{typed}");
    }
    let missing = async |name: &str| {
        let (.., result) = run_on(&server, show(&[name], None)).await;
        result.unwrap_err()
    };
    let failure = missing("wbe").await;
    assert_eq!(
        failure.to_string(),
        "no such VirtualIP \"wbe\" in namespace default"
    );
    assert_eq!(failure.hint().unwrap(), "did you mean \"web\"?");
    assert_eq!(missing("10.0.70.99").await.reason(), "NotFound");
    assert_eq!(missing("greedy").await.reason(), "NotFound");
    for wrong in ["", "a/b", "../x", "A b"] {
        assert_eq!(missing(wrong).await.exit_code(), 2, "{wrong:?}");
    }
}

#[tokio::test]
async fn a_missing_right_and_a_missing_definition_are_told() {
    let server = inhabited();
    server.fault(Method::GET, "virtualips", Fault::Refuse(403));
    let (.., result) = run_on(&server, list(true, None, None)).await;
    assert_eq!(
        result.unwrap_err().to_string(),
        "you may not list virtualips.floe.dev"
    );
    server.fault(Method::GET, "virtualips", Fault::Refuse(404));
    let (.., result) = run_on(&server, list(true, None, None)).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.reason(), "DefinitionMissing");
    assert!(failure.hint().unwrap().ends_with("deploy/crds/floe.yaml"));
}

#[tokio::test]
async fn one_that_cannot_be_read_does_not_hide_the_others() {
    let server = inhabited();
    let mut strange = held("strange");
    strange["status"]["moves"] = json!("many");
    server.put(SHOP, strange);
    let (out, err, result) = run_on(&server, list(false, None, Some(Format::Name))).await;
    result.unwrap();
    assert_eq!(out.lines().count(), 2);
    assert!(err.contains("VirtualIP strange cannot be read"), "{err}");
}
