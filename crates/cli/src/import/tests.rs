use std::path::PathBuf;

use floe_shell::mock::Server;
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
    let line = "error: pool kube-system/blue: it differs: size 5 now, 4 in the backup";
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
