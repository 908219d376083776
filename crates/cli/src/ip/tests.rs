use floe_shell::mock::{Fault, Server};
use http::Method;
use serde_json::json;

use super::*;
use crate::{
    args::{Format, IpList, Listing, Output, Selection},
    console::script,
    fixture::{self, RECORDS, record, reservation},
};

fn texts(ips: &[&str]) -> Vec<String> {
    ips.iter().map(|&ip| ip.to_owned()).collect()
}

fn inhabited() -> Server {
    let server = Server::default();
    server.put(
        RECORDS,
        record("10.0.70.10", "sts_default_pg_pg-0", "node-1"),
    );
    server.put(
        RECORDS,
        record("10.0.70.9", "pool__blue_dp_web_shop_shop-1", "node-2"),
    );
    server.put(RECORDS, record("10.0.70.3", "pool__blue_", ""));
    server.put(RECORDS, reservation("10.0.70.2", "reserved-for-node"));
    server
}

/// Runs a command; gives what it wrote, what it remarked and how it ended.
async fn run_it(
    server: &Server,
    answers: Option<&'static str>,
    command: args::Ip,
) -> (String, String, Result<(), Failure>) {
    let (mut console, out, err) = script::console(answers);
    let result = run(&fixture::cluster(server), &mut console, &command).await;
    (out.text(), err.text(), result)
}

fn list(all_namespaces: bool, format: Option<Format>) -> args::Ip {
    args::Ip::List(IpList {
        selection: Selection {
            all_namespaces,
            ..Selection::default()
        },
        listing: Listing {
            output: Output { format },
            no_headers: false,
        },
    })
}

/// The age changes with the day on which the test runs.
fn without_age(text: &str) -> String {
    let old = jiff::Timestamp::now().as_second()
        - "2026-01-01T00:00:00Z"
            .parse::<jiff::Timestamp>()
            .unwrap()
            .as_second();
    let then = jiff::Timestamp::from_second(0).unwrap();
    let age = crate::render::age::since(Some(then), jiff::Timestamp::from_second(old).unwrap());
    text.replace(&age, "AGE")
}

#[tokio::test]
async fn a_list_shows_the_namespace_or_everything() {
    let server = inhabited();
    let (out, _, result) = run_it(&server, None, list(false, None)).await;
    result.unwrap();
    assert_eq!(
        without_age(&out),
        "ADDRESS      STATE   HOLDER         POLICY   NODE     SINCE\n\
         10.0.70.10   Bound   default/pg-0   never    node-1   AGE\n"
    );
    let (out, _, result) = run_it(&server, None, list(true, None)).await;
    result.unwrap();
    assert_eq!(
        without_age(&out),
        "ADDRESS      STATE      HOLDER              POLICY   NODE     SINCE\n\
         10.0.70.2    Reserved   reserved-for-node   never    <none>   AGE\n\
         10.0.70.3    Spare      pool/blue           never    <none>   AGE\n\
         10.0.70.9    Bound      web/shop-1          never    node-2   AGE\n\
         10.0.70.10   Bound      default/pg-0        never    node-1   AGE\n"
    );
}

#[tokio::test]
async fn wide_lists_have_more_columns() {
    let (out, _, result) = run_it(&inhabited(), None, list(true, Some(Format::Wide))).await;
    result.unwrap();
    let lines: Vec<Vec<_>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0][6..],
        ["POOL", "WORKLOAD", "POD-UID", "CONFIGURED", "KEY"]
    );
    assert_eq!(
        lines[3][6..],
        [
            "blue",
            "deployment/shop",
            "uid-1",
            "yes",
            "pool__blue_dp_web_shop_shop-1"
        ]
    );
}

#[tokio::test]
async fn an_empty_list_says_where_it_looked() {
    let (out, told, result) = run_it(&Server::default(), None, list(false, None)).await;
    result.unwrap();
    assert_eq!(out, "");
    assert_eq!(
        told,
        "No addresses found in namespace default. -A shows those of all namespaces.\n"
    );
    let (out, _, result) = run_it(&Server::default(), None, list(false, Some(Format::Json))).await;
    result.unwrap();
    let list: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn show_tells_all_about_an_address() {
    let show = args::Ip::Show {
        ips: texts(&["10.0.70.9"]),
        output: Output::default(),
    };
    let (out, _, result) = run_it(&inhabited(), None, show).await;
    result.unwrap();
    assert_eq!(
        without_age(&out),
        "Address:     10.0.70.9\n\
         State:       Bound\n\
         Holder:      web/shop-1\n\
         Pool:        blue\n\
         Namespace:   web\n\
         Workload:    deployment/shop\n\
         Pod:         shop-1\n\
         Pod UID:     uid-1\n\
         Node:        node-2\n\
         Policy:      never (released by hand only)\n\
         Since:       2026-01-01T00:00:00Z (AGE ago)\n\
         Configured:  yes\n\
         Key:         pool__blue_dp_web_shop_shop-1\n\
         Object:      floatingip.galaxy.k8s.io/10.0.70.9\n\
         Labels:      <none>\n"
    );
    let show = args::Ip::Show {
        ips: texts(&["10.0.70.77"]),
        output: Output::default(),
    };
    let (_, _, result) = run_it(&inhabited(), None, show).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.to_string(), "no such record \"10.0.70.77\"");
    assert!(
        failure
            .hint()
            .unwrap()
            .starts_with("nobody holds this address")
    );
}

#[tokio::test]
async fn a_user_without_the_right_is_told_which_one() {
    let server = inhabited();
    server.always(Method::GET, "floatingips", Fault::Refuse(403));
    let (_, _, result) = run_it(&server, None, list(true, None)).await;
    assert_eq!(
        result.unwrap_err().to_string(),
        "you may not list floatingips.galaxy.k8s.io"
    );
}

#[test]
fn ranges_and_networks_become_addresses_each_once() {
    let expanded = expand(&texts(&["10.0.70.6~10.0.70.7", "10.0.70.4/30", "fd00::1"])).unwrap();
    let shown: Vec<_> = expanded.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "10.0.70.4",
            "10.0.70.5",
            "10.0.70.6",
            "10.0.70.7",
            "fd00::1"
        ]
    );
    let names = [
        "floatingip.galaxy.k8s.io/10.0.70.4",
        "floatingips/10.0.70.5",
    ];
    assert_eq!(expand(&texts(&names)).unwrap(), expanded[..2]);
    let six = "floatingip.galaxy.k8s.io/fd00-0000-0000-0000-0000-0000-0000-0001";
    assert_eq!(
        expand(&texts(&[six])).unwrap(),
        expanded[4..],
        "as -o name says"
    );
    assert_eq!(expand(&texts(&["10.0.70.0/24"])).unwrap().len(), 256);
    for wrong in [
        "10.0.70.0/23",
        "fd00::/64",
        "10.0.70.9~10.0.70.1",
        "web",
        "10.0.70.0/33",
    ] {
        assert_eq!(
            expand(&texts(&[wrong])).unwrap_err().exit_code(),
            2,
            "{wrong}"
        );
    }
}

fn reserve(ips: &[&str], purpose: Option<&str>) -> args::Ip {
    args::Ip::Reserve(args::Reserve {
        ips: texts(ips),
        purpose: purpose.map(str::to_owned),
        dry_run: false,
        api: fixture::api(),
    })
}

/// That there is no controller, which this server never has.
const ALONE: &str = "warning: no controller of floe runs in namespace kube-system; the records are \
written without the controller, so nobody looks whether a pod runs with an address that has lost \
its record\n";

#[tokio::test]
async fn a_reservation_is_a_record_as_galaxy_documents_it() {
    let server = Server::default();
    let (out, _, result) = run_it(
        &server,
        None,
        reserve(&["10.0.70.5", "fd00:70::5"], Some("printer")),
    )
    .await;
    result.unwrap();
    assert_eq!(
        out,
        "floatingip.galaxy.k8s.io/10.0.70.5 reserved\n\
         floatingip.galaxy.k8s.io/fd00-0070-0000-0000-0000-0000-0000-0005 reserved\n"
    );
    let object = server.object(RECORDS, "10.0.70.5").unwrap();
    assert_eq!(object["metadata"]["labels"], json!({ "reserved": "true" }));
    assert_eq!(object["spec"]["key"], "pool__reserved-for-printer_");
    assert_eq!(object["spec"]["policy"], 2);
    let again = run_it(&server, None, reserve(&["10.0.70.5"], None)).await;
    again.2.unwrap();
    assert_eq!(
        again.0,
        "floatingip.galaxy.k8s.io/10.0.70.5 is reserved already: reserved-for-printer\n"
    );
}

#[tokio::test]
async fn nobody_loses_an_address_by_a_reservation() {
    let server = inhabited();
    let before = server.object(RECORDS, "10.0.70.9");
    let (out, told, result) = run_it(&server, None, reserve(&["10.0.70.8~10.0.70.9"], None)).await;
    assert_eq!(out, "floatingip.galaxy.k8s.io/10.0.70.8 reserved\n");
    let error = "error: 10.0.70.9 is held by web/shop-1 (Bound)\n";
    assert!(told.ends_with(error), "{told}");
    assert_eq!(result.unwrap_err().to_string(), "1 of 2 failed");
    assert_eq!(server.object(RECORDS, "10.0.70.9"), before);
    let (_, _, result) = run_it(&server, None, reserve(&["10.0.70.8"], Some("a_b"))).await;
    assert_eq!(result.unwrap_err().exit_code(), 2);
}

#[tokio::test]
async fn a_reservation_outside_of_all_ranges_is_made_with_a_warning() {
    let server = Server::default();
    let (_, told, result) = run_it(&server, None, reserve(&["10.0.70.5"], None)).await;
    result.unwrap();
    let told = told.strip_prefix(ALONE).unwrap();
    assert!(
        told.starts_with("warning: whether these addresses are configured is not known: no such"),
        "{told}"
    );
    let entry = json!([{
        "nodeSubnets": ["10.0.0.0/16"], "ips": ["10.0.70.2~10.0.70.9"],
        "subnet": "10.0.70.0/24", "gateway": "10.0.70.1",
    }]);
    server.put(
        "/api/v1/namespaces/kube-system/configmaps",
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "floatingip-config" },
            "data": { "floatingips": entry.to_string() },
        }),
    );
    let ips = ["10.0.70.8~10.0.70.11", "10.0.7.5"];
    let (out, told, result) = run_it(&server, None, reserve(&ips, None)).await;
    result.unwrap();
    assert_eq!(out.lines().count(), 5);
    assert_eq!(
        told.strip_prefix(ALONE).unwrap(),
        "warning: 10.0.7.5 is in no configured range\n\
         warning: 10.0.70.10~10.0.70.11 are in no configured range\n"
    );
    let (_, told, _) = run_it(&server, None, reserve(&["10.0.70.2"], None)).await;
    assert_eq!(told, ALONE);
}

fn unreserve(ips: &[&str], yes: bool) -> args::Ip {
    args::Ip::Unreserve(args::Unreserve {
        ips: texts(ips),
        consent: args::Consent { yes },
        api: fixture::api(),
    })
}

#[tokio::test]
async fn a_reservation_ends_only_after_a_yes() {
    let server = inhabited();
    for (answers, code) in [(None, 2), (Some("n\n"), 1)] {
        let (_, _, result) = run_it(&server, answers, unreserve(&["10.0.70.2"], false)).await;
        assert_eq!(result.unwrap_err().exit_code(), code);
        assert!(server.object(RECORDS, "10.0.70.2").is_some());
    }
    let (out, asked, result) = run_it(&server, Some("y\n"), unreserve(&["10.0.70.2"], false)).await;
    result.unwrap();
    assert_eq!(
        asked,
        "Pods can get these addresses when they are no longer reserved:\n  \
         10.0.70.2  reserved-for-node\nGo on? [y/N] "
    );
    assert_eq!(out, "floatingip.galaxy.k8s.io/10.0.70.2 unreserved\n");
    assert!(server.object(RECORDS, "10.0.70.2").is_none());
    let (out, _, result) = run_it(&server, None, unreserve(&["10.0.70.2"], false)).await;
    result.unwrap();
    assert_eq!(out, "floatingip.galaxy.k8s.io/10.0.70.2 is free already\n");
}

#[tokio::test]
async fn only_reservations_are_ended() {
    let server = inhabited();
    let mut taken = record("10.0.70.4", "sts_default_pg_pg-1", "node-1");
    taken["metadata"]["labels"] = json!({ "reserved": "" });
    server.put(RECORDS, taken);
    let (out, told, result) =
        run_it(&server, None, unreserve(&["10.0.70.2~10.0.70.4"], true)).await;
    assert_eq!(out, "floatingip.galaxy.k8s.io/10.0.70.2 unreserved\n");
    assert_eq!(
        told,
        "error: 10.0.70.3 is not reserved but held by pool/blue (Spare); see kubectl floe ip release\n\
         error: 10.0.70.4 is reserved, but its record is that of pod default/pg-1\n"
    );
    assert_eq!(result.unwrap_err().to_string(), "2 of 3 failed");
    assert_eq!(server.objects(RECORDS).len(), 4);
}

#[tokio::test]
async fn a_record_that_changes_before_it_is_deleted_stays() {
    let server = inhabited();
    let changed = record("10.0.70.2", "sts_default_pg_pg-2", "node-1");
    let act = move |state: &mut floe_shell::mock::State| {
        state.put(RECORDS, changed.clone());
    };
    server.fault(Method::DELETE, "10.0.70.2", Fault::Before(Box::new(act)));
    let (_, told, result) = run_it(&server, None, unreserve(&["10.0.70.2"], true)).await;
    assert_eq!(
        told,
        "error: the record of 10.0.70.2 was changed by somebody else at the same time\n"
    );
    assert!(result.is_err());
    assert!(server.object(RECORDS, "10.0.70.2").is_some());
}

#[tokio::test]
async fn all_is_done_also_when_nobody_reads_what_is_said() {
    let server = Server::default();
    let cluster = fixture::cluster(&server);
    let range = ["10.0.70.2~10.0.70.5"];
    let mut console = script::deserted();
    run(&cluster, &mut console, &reserve(&range, None))
        .await
        .unwrap();
    assert_eq!(server.objects(RECORDS).len(), 4);
    let mut console = script::deserted();
    run(&cluster, &mut console, &unreserve(&range, true))
        .await
        .unwrap();
    assert_eq!(server.objects(RECORDS).len(), 0);
}
