use std::path::PathBuf;

use floe_shell::mock::{Fault, Server};
use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::{
    console::script,
    fixture::{self, POOLS, RECORDS, pool, record},
};

/// What the command says on both streams, and how it ends.
async fn import(server: &Server, text: &str, dry_run: bool) -> (String, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    fs::write(&file, text).unwrap();
    import_file(server, file, dry_run).await
}

async fn import_file(server: &Server, file: PathBuf, dry_run: bool) -> (String, String, String) {
    let (mut console, out, err) = script::console(None);
    let command = args::Import { file, dry_run };
    let result = run(&fixture::cluster(server), &mut console, &command).await;
    let end = result.map_or_else(|failure| failure.reason().to_owned(), |()| String::new());
    (out.text(), err.text(), end)
}

fn backup_of(server: &Server) -> String {
    let read = |path| -> Vec<DynamicObject> {
        let objects = server.objects(path).into_iter();
        objects
            .map(|it| serde_json::from_value(it).unwrap())
            .collect()
    };
    backup::list(read(RECORDS), read(POOLS)).to_string()
}

fn full() -> Server {
    let server = Server::default();
    server.put(RECORDS, record("10.0.70.2", "sts_db_pg_pg-0", "n1"));
    server.put(RECORDS, record("10.0.70.3", "dp_web_shop_", ""));
    server.put(POOLS, pool("blue", 4, true));
    server
}

fn specs(server: &Server) -> Vec<Value> {
    let records = server.objects(RECORDS).into_iter();
    records.map(|it| it["spec"].clone()).collect()
}

#[tokio::test]
async fn what_was_lost_comes_back_as_it_was_and_a_second_time_changes_nothing() {
    let (old, new) = (full(), Server::default());
    let text = backup_of(&old);
    let (out, _, end) = import(&new, &text, false).await;
    let said = "3 created, 0 unchanged, 0 not imported\n";
    assert_eq!((out.as_str(), end.as_str()), (said, ""));
    assert_eq!(specs(&new), specs(&old));
    assert_eq!(new.object(POOLS, "blue").unwrap()["size"], 4);
    let last = new.state().calls.last().unwrap().clone();
    assert!(last.contains("pools"), "pools come last: {last}");

    let (out, _, end) = import(&new, &text, false).await;
    let said = "0 created, 3 unchanged, 0 not imported\n";
    assert_eq!((out.as_str(), end.as_str()), (said, ""));
}

#[tokio::test]
async fn what_is_there_and_differs_is_told_and_stays() {
    let (old, new) = (full(), Server::default());
    new.put(RECORDS, record("10.0.70.2", "sts_db_pg_pg-7", "n2"));
    new.put(POOLS, pool("blue", 5, true));
    let (out, told, end) = import(&new, &backup_of(&old), false).await;
    assert_eq!(out, "1 created, 0 unchanged, 2 not imported\n");
    assert_eq!(end, "SomeFailed");
    let line =
        "error: record 10.0.70.2: db/pg-7 (Bound on n2) holds it now, not db/pg-0 (Bound on n1)";
    assert!(told.contains(line), "{told}");
    let line = "error: pool kube-system/blue: it differs: size 5 with preallocation now, \
                size 4 with preallocation in the backup";
    assert!(told.contains(line), "{told}");
    assert_eq!(
        new.object(RECORDS, "10.0.70.2").unwrap()["spec"]["key"],
        "sts_db_pg_pg-7"
    );
    assert_eq!(new.object(POOLS, "blue").unwrap()["size"], 5);
}

#[tokio::test]
async fn a_dry_run_asks_the_server_to_change_nothing() {
    let new = Server::default();
    let (out, _, end) = import(&new, &backup_of(&full()), true).await;
    assert_eq!(
        out,
        "3 created, 0 unchanged, 0 not imported (server dry run)\n"
    );
    assert_eq!(end, "");
    let state = new.state();
    let writes: Vec<_> = state
        .calls
        .iter()
        .filter(|it| it.starts_with("POST"))
        .collect();
    assert_eq!(writes.len(), 3);
    assert!(
        writes.iter().all(|it| it.contains("dryRun=All")),
        "{writes:?}"
    );
}

#[tokio::test]
async fn a_file_that_is_no_backup_changes_nothing() {
    let server = Server::default();
    let mut list: Value = serde_json::from_str(&backup_of(&full())).unwrap();
    list["items"][2]["kind"] = json!("Secret");
    let (_, _, end) = import(&server, &list.to_string(), false).await;
    assert_eq!(end, "Usage");
    let (_, _, end) = import_file(&server, "/nonexistent/backup".into(), false).await;
    assert_eq!(end, "InputOutput");
    assert_eq!(server.state().calls, [""; 0]);
}

#[tokio::test]
async fn what_the_server_says_of_one_object_does_not_stop_the_others() {
    for status in [400, 422, 429, 500, 504] {
        let new = Server::default();
        new.fault(Method::POST, "pools", Fault::Refuse(status));
        let mut backup: Value = serde_json::from_str(&backup_of(&full())).unwrap();
        let mut green = pool("green", 2, false);
        green["metadata"]["namespace"] = json!("kube-system");
        backup["items"].as_array_mut().unwrap().push(green);
        let (out, told, end) = import(&new, &backup.to_string(), false).await;
        assert_eq!(out, "3 created, 0 unchanged, 1 not imported\n", "{status}");
        assert!(told.starts_with("error: pool kube-system/blue: "), "{told}");
        assert!(!told.contains("newer"), "nothing is there: {told}");
        assert_eq!(end, "SomeFailed");
        assert!(new.object(POOLS, "green").is_some());
    }
}

#[tokio::test]
async fn whoever_cannot_go_on_hears_how_far_it_went() {
    let old = Server::default();
    for last in 1..=40 {
        old.put(
            RECORDS,
            record(&format!("10.0.70.{last}"), "dp_web_shop_", ""),
        );
    }
    let new = Server::default();
    new.always(Method::POST, "pools", Fault::Break);
    new.fault(Method::POST, "floatingips", Fault::Break);
    let (out, _, end) = import(&new, &backup_of(&old), false).await;
    assert_eq!(end, "Unreachable");
    let created = new.objects(RECORDS).len();
    let left = 40 - created - 1;
    assert!(left > 0, "it went on");
    let said = format!("{created} created, 0 unchanged, 1 not imported, {left} not tried\n");
    assert_eq!(out, said);

    let new = Server::default();
    new.always(Method::POST, "floatingips", Fault::Refuse(403));
    let (out, _, end) = import(&new, &backup_of(&old), false).await;
    assert_eq!(end, "Forbidden");
    assert!(out.starts_with("0 created, 0 unchanged, "), "{out}");
}

#[tokio::test]
async fn what_nobody_understands_is_brought_back_as_it_was() {
    let (old, new) = (full(), Server::default());
    let mut strange = record("10.0.70.4", "x", "");
    strange["spec"]["policy"] = json!("two");
    old.put(RECORDS, strange.clone());
    let text = backup_of(&old);
    let (out, told, end) = import(&new, &text, false).await;
    assert_eq!(out, "4 created, 0 unchanged, 0 not imported\n");
    assert_eq!(
        (told.as_str(), end.as_str()),
        (
            "warning: record 10.0.70.4 makes no sense; the server decides on it\n",
            ""
        )
    );
    assert_eq!(
        new.object(RECORDS, "10.0.70.4").unwrap()["spec"],
        strange["spec"]
    );
    let (out, ..) = import(&new, &text, false).await;
    assert_eq!(out, "0 created, 4 unchanged, 0 not imported\n");
}

#[tokio::test]
async fn all_is_imported_also_when_nobody_reads_what_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    fs::write(&file, backup_of(&full())).unwrap();
    let new = Server::default();
    let mut console = script::deserted();
    console.print("the line that was read").unwrap();
    let command = args::Import {
        file,
        dry_run: false,
    };
    let cluster = fixture::cluster(&new);
    run(&cluster, &mut console, &command).await.unwrap();
    assert_eq!(new.objects(RECORDS).len(), 2);
}
