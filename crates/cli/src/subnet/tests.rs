use floe_shell::mock::{Fault, Server};
use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::{
    args::{Listing, Output},
    console::script,
    fixture::{self, RECORDS, record, reservation},
};

const MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
const NODES: &str = "/api/v1/nodes";

fn configure(server: &Server, text: &str) {
    let map =
        json!({ "metadata": { "name": "floatingip-config" }, "data": { "floatingips": text } });
    server.put(MAPS, map);
}

fn inhabited() -> Server {
    let server = Server::default();
    let entries = json!([
        { "nodeSubnets": ["10.0.0.0/16"], "ips": ["10.0.71.2~10.0.71.9"], "subnet": "10.0.71.0/24", "gateway": "10.0.71.1", "vlan": 2 },
        { "nodeSubnets": ["10.0.0.0/16", "10.1.0.0/16"], "ips": ["10.0.70.2~10.0.70.5", "10.0.70.10"], "subnet": "10.0.70.0/24", "gateway": "10.0.70.1" },
        { "nodeSubnets": ["10.0.0.0/16"], "ips": ["fd00::2~fd00::ffff:ffff:ffff:ffff"], "subnet": "fd00::/64", "gateway": "fd00::1" },
    ]);
    configure(&server, &entries.to_string());
    for (name, key, node) in [
        ("10.0.71.2", "sts_db_pg_pg-0", "node-1"),
        ("10.0.71.3", "sts_db_pg_pg-1", ""),
        ("10.0.71.4", "dp_web_shop_", ""),
        ("10.0.71.5", "something", ""),
        ("10.0.70.2", "sts_db_my_my-0", "node-1"),
        ("10.9.9.9", "sts_db_my_my-1", "node-1"),
    ] {
        server.put(RECORDS, record(name, key, node));
    }
    server.put(RECORDS, reservation("10.0.71.6", "reserved"));
    for (name, ip) in [
        ("node-1", "10.0.0.1"),
        ("node-2", "10.0.0.2"),
        ("node-3", "10.9.0.1"),
    ] {
        let addresses = json!([
            { "type": "Hostname", "address": name }, { "type": "InternalIP", "address": ip },
        ]);
        server.put(
            NODES,
            json!({ "metadata": { "name": name }, "status": { "addresses": addresses } }),
        );
    }
    server
}

async fn list(server: &Server, format: Option<Format>) -> (String, String, Result<(), Failure>) {
    let (mut console, out, err) = script::console(None);
    let command = args::Subnet::List {
        config_map: "kube-system/floatingip-config".into(),
        listing: Listing {
            output: Output { format },
            no_headers: false,
        },
    };
    let result = run(&fixture::cluster(server), &mut console, &command).await;
    (out.text(), err.text(), result)
}

#[tokio::test]
async fn ranges_are_shown_with_how_full_they_are() {
    let (out, told, result) = list(&inhabited(), None).await;
    result.unwrap();
    assert_eq!(
        out,
        "SUBNET         USAGE                       CAPACITY               FREE                   BOUND   KEPT   SPARE   RESERVED   NODE-SUBNETS\n\
         10.0.71.0/24   ███▓▓▓▓▓▓▓▒▒▒░░░░░░░  63%   8                      3                      1       1      1       1          10.0.0.0/16\n\
         10.0.70.0/24   ████░░░░░░░░░░░░░░░░  20%   5                      4                      1       0      0       0          10.0.0.0/16,10.1.0.0/16\n\
         fd00::/64      ░░░░░░░░░░░░░░░░░░░░   0%   18446744073709551614   18446744073709551614   0       0      0       0          10.0.0.0/16\n"
    );
    assert_eq!(
        told,
        "1 more records are of addresses outside of the configuration.\n"
    );
}

#[tokio::test]
async fn values_have_the_shape_of_the_api() {
    let (out, _, result) = list(&inhabited(), Some(Format::Json)).await;
    result.unwrap();
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["outside"], 1);
    assert_eq!(
        value["items"][0],
        json!({
            "subnet": "10.0.71.0/24", "gateway": "10.0.71.1", "vlan": 2, "ranges": ["10.0.71.2~10.0.71.9"],
            "capacity": "8", "free": "3", "bound": 1, "kept": 1, "spare": 1, "reserved": 1, "foreign": 1, "shared": 0,
            "nodeSubnets": [{ "subnet": "10.0.0.0/16", "nodes": 2 }],
        })
    );
    let (yaml, _, result) = list(&inhabited(), Some(Format::Yaml)).await;
    result.unwrap();
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), value);
}

#[tokio::test]
async fn who_may_not_list_nodes_sees_the_rest() {
    let server = inhabited();
    server.always(Method::GET, NODES, Fault::Refuse(403));
    let (out, told, result) = list(&server, Some(Format::Wide)).await;
    result.unwrap();
    assert!(
        told.contains("warning: how many nodes there are is not known: you may not list nodes"),
        "{told}"
    );
    let row: Vec<_> = out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[9..13], ["10.0.0.0/16", "1", "10.0.71.1", "2"], "{out}");
    server.heal();
    let (out, _, result) = list(&server, Some(Format::Wide)).await;
    result.unwrap();
    assert!(out.contains("10.0.0.0/16 (2),10.1.0.0/16 (0)"), "{out}");
}

#[tokio::test]
async fn a_missing_or_bad_configuration_is_told() {
    let (_, _, result) = list(&Server::default(), None).await;
    let failure = result.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "no such ConfigMap \"floatingip-config\" in namespace kube-system"
    );
    assert!(failure.hint().unwrap().contains("--config-map"));

    let server = inhabited();
    configure(
        &server,
        r#"[{"nodeSubnets":["10.0.0.0/16"],"ips":[],"subnet":"10.0.70.0/24","gateway":"10.0.70.1/24"},{}]"#,
    );
    let (_, _, result) = list(&server, None).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.reason(), "InvalidGateway");
    assert_eq!(
        failure.to_string(),
        "the configuration in ConfigMap kube-system/floatingip-config cannot be used:\n  \
         entry [0], field gateway: invalid IP address: 10.0.70.1/24 (an address without a prefix length is needed)\n  \
         entry [1], field nodeSubnets: node subnet is empty\n  \
         entry [1], field subnet: subnet is empty\n  \
         entry [1], field gateway: gateway is empty"
    );
}

#[tokio::test]
async fn what_only_floe_minds_is_a_warning() {
    let server = inhabited();
    let entries = r#"[{"nodeSubnets":["10.0.0.0/16"],"ips":["10.0.70.1~10.0.70.4"],"subnet":"10.0.70.0/24","gateway":"10.0.70.1"}]"#;
    configure(&server, entries);
    let (out, told, result) = list(&server, None).await;
    result.unwrap();
    assert!(
        told.starts_with(
            "warning: ConfigMap kube-system/floatingip-config: entry [0], field ips: "
        ),
        "{told}"
    );
    assert!(told.contains("; left out: 10.0.70.1\n"), "{told}");
    assert!(
        out.lines().nth(1).unwrap().contains("33%   3          2"),
        "{out}"
    );
}

#[tokio::test]
async fn the_place_must_be_a_namespace_and_a_name() {
    for place in ["floatingip-config", "/x", "a/", "a/b/c"] {
        let (mut console, ..) = script::console(None);
        let command = args::Subnet::List {
            config_map: place.into(),
            listing: Listing::default(),
        };
        let result = run(
            &fixture::cluster(&Server::default()),
            &mut console,
            &command,
        )
        .await;
        assert_eq!(result.unwrap_err().exit_code(), 2, "{place}");
    }
}
