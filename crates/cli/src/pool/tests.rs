use floe_shell::mock::{Fault, Server};
use http::Method;

use super::*;
use crate::{
    args::{Consent, Format, Listing, Output},
    console::script,
    fixture::{self, POOLS, RECORDS, pool, record, reservation},
};

const WEB: &str = "/apis/galaxy.k8s.io/v1alpha1/namespaces/web/pools";

fn inhabited() -> Server {
    let server = Server::default();
    server.put(POOLS, pool("blue", 4, true));
    server.put(POOLS, pool("green", 2, false));
    server.put(WEB, pool("blue", 1, false));
    server.put(
        RECORDS,
        record("10.0.70.2", "pool__blue_dp_web_shop_shop-1", "node-1"),
    );
    server.put(
        RECORDS,
        record("10.0.70.3", "pool__blue_sts_db_pg_pg-0", ""),
    );
    server.put(RECORDS, record("10.0.70.4", "pool__blue_", ""));
    server.put(
        RECORDS,
        record("10.0.70.5", "pool__old_dp_web_shop_shop-2", "node-1"),
    );
    server.put(RECORDS, reservation("10.0.70.6", "blue"));
    server
}

async fn run_in(
    server: &Server,
    namespace: Option<&str>,
    answers: Option<&'static str>,
    command: args::Pool,
) -> (String, String, Result<(), Failure>) {
    let (mut console, out, err) = script::console(answers);
    let mut cluster = fixture::cluster(server);
    cluster.typed_namespace = namespace.map(str::to_owned);
    let result = run(&cluster, &mut console, &command).await;
    (out.text(), err.text(), result)
}

fn list(all_namespaces: bool, format: Option<Format>) -> args::Pool {
    args::Pool::List {
        all_namespaces,
        selector: None,
        listing: Listing {
            output: Output { format },
            no_headers: false,
        },
    }
}

/// The columns but the age, which changes from day to day.
fn columns(out: &str) -> Vec<Vec<&str>> {
    out.lines()
        .map(|line| line.split_whitespace().take(6).collect())
        .collect()
}

#[tokio::test]
async fn pools_are_listed_with_what_they_have() {
    let server = inhabited();
    let (out, _, result) = run_in(&server, None, None, list(true, None)).await;
    result.unwrap();
    assert_eq!(
        columns(&out),
        [
            ["NAMESPACE", "NAME", "SIZE", "USED", "SPARE", "PREALLOCATE"],
            ["kube-system", "blue", "4", "2", "1", "true"],
            ["web", "blue", "1", "1", "1", "false"],
            ["kube-system", "green", "2", "0", "0", "false"],
            ["<none>", "old", "<none>", "1", "0", "<none>"],
        ]
    );
    let (out, _, result) = run_in(&server, Some("web"), None, list(false, None)).await;
    result.unwrap();
    assert_eq!(
        columns(&out)[1..],
        [["web", "blue", "1", "1", "1", "false"]]
    );
    let (out, _, result) = run_in(&server, None, None, list(false, Some(Format::Name))).await;
    result.unwrap();
    assert_eq!(out, "pool.galaxy.k8s.io/blue\npool.galaxy.k8s.io/green\n");
}

#[tokio::test]
async fn who_may_not_see_records_sees_pools_without_figures() {
    let server = inhabited();
    server.always(Method::GET, "floatingips", Fault::Refuse(403));
    let (out, told, result) = run_in(&server, None, None, list(false, None)).await;
    result.unwrap();
    assert_eq!(
        columns(&out)[1],
        ["kube-system", "blue", "4", "?", "?", "true"]
    );
    assert_eq!(
        told,
        "warning: what the pools have is not known: you may not list floatingips.galaxy.k8s.io\n"
    );
}

fn show(name: &str) -> args::Pool {
    args::Pool::Show {
        names: vec![name.into()],
        output: Output::default(),
    }
}

#[tokio::test]
async fn show_tells_all_about_a_pool() {
    let (out, _, result) = run_in(&inhabited(), None, None, show("blue")).await;
    result.unwrap();
    assert_eq!(
        out,
        "Name:         blue\n\
         Namespace:    kube-system\n\
         Counts:       the pods of all namespaces\n\
         Size:         4\n\
         Preallocate:  true\n\
         Used:         2\n\
         Spare:        1\n\
         Workloads:    db/statefulset/pg (1)\n\
         \x20             web/deployment/shop (1)\n\
         Addresses:    10.0.70.2 Bound web/shop-1\n\
         \x20             10.0.70.3 Kept db/pg-0\n\
         \x20             10.0.70.4 Spare pool/blue\n"
    );
}

#[tokio::test]
async fn a_slip_is_noticed() {
    let server = inhabited();
    for (namespace, name, hint) in [
        (None, "gren", Some("did you mean \"green\"?")),
        (
            Some("web"),
            "green",
            Some("there is one in namespace kube-system: repeat it with -n kube-system"),
        ),
        (None, "something", None),
    ] {
        let (_, _, result) = run_in(&server, namespace, None, show(name)).await;
        let failure = result.unwrap_err();
        let place = namespace.unwrap_or("kube-system");
        assert_eq!(
            failure.to_string(),
            format!("no such pool {name:?} in namespace {place}")
        );
        assert_eq!(failure.hint().as_deref(), hint, "{name}");
        assert_eq!(failure.exit_code(), 1);
    }
}

fn set(name: &str, size: Option<i64>, preallocate: Option<bool>) -> args::Pool {
    args::Pool::Set {
        name: name.into(),
        size,
        preallocate,
        dry_run: false,
    }
}

#[tokio::test]
async fn set_creates_and_changes_only_what_is_named() {
    let server = inhabited();
    let table = [
        (set("new", Some(3), None), "created", 3, false),
        (set("new", None, Some(true)), "configured", 3, true),
        (set("new", Some(5), None), "configured", 5, true),
        (set("new", Some(5), Some(true)), "unchanged", 5, true),
    ];
    for (command, done, size, preallocate) in table {
        let (out, _, result) = run_in(&server, None, None, command).await;
        result.unwrap();
        assert_eq!(out, format!("pool.galaxy.k8s.io/new {done}\n"));
        let object = server.object(POOLS, "new").unwrap();
        assert_eq!(object["size"], size);
        assert_eq!(object["preAllocateIP"], preallocate);
    }
}

#[tokio::test]
async fn a_pool_that_makes_no_sense_is_not_set() {
    let server = inhabited();
    for command in [set("a_b", Some(1), None), set("new", None, Some(true))] {
        let (_, _, result) = run_in(&server, None, None, command).await;
        assert_eq!(result.unwrap_err().exit_code(), 2);
    }
    assert_eq!(server.count(&Method::POST, "pools"), 0);
}

fn delete(names: &[&str], yes: bool) -> args::Pool {
    args::Pool::Delete {
        names: names.iter().map(|&name| name.to_owned()).collect(),
        consent: Consent { yes },
    }
}

#[tokio::test]
async fn a_pool_is_deleted_only_after_a_yes() {
    let server = inhabited();
    let (_, _, result) = run_in(&server, None, None, delete(&["blue"], false)).await;
    assert_eq!(result.unwrap_err().exit_code(), 2);
    let (_, asked, result) = run_in(&server, None, Some("\n"), delete(&["blue"], false)).await;
    assert_eq!(result.unwrap_err().reason(), "Declined");
    assert!(asked.contains("  kube-system/blue  size 4\n"), "{asked}");
    assert!(server.object(POOLS, "blue").is_some());

    let (out, _, result) = run_in(&server, None, None, delete(&["blue", "blue"], true)).await;
    result.unwrap();
    assert_eq!(out, "pool.galaxy.k8s.io/blue deleted\n");
    assert!(server.object(POOLS, "blue").is_none());
    assert!(
        server.object(WEB, "blue").is_some(),
        "that of another namespace stays"
    );
    assert_eq!(server.objects(RECORDS).len(), 5, "no address goes with it");
}

#[tokio::test]
async fn one_missing_pool_keeps_all_of_them() {
    let server = inhabited();
    let (_, _, result) = run_in(&server, None, None, delete(&["blue", "bleu"], true)).await;
    assert_eq!(
        result.unwrap_err().hint().unwrap(),
        "did you mean \"blue\"?"
    );
    assert!(server.object(POOLS, "blue").is_some());
}
