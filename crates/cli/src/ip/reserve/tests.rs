use floe_shell::mock::Server;
use serde_json::{Value, json};

use super::*;
use crate::{
    console::script,
    fixture::{self, RECORDS, record, reservation},
    remote::stage::{Stage, problem},
};

fn outcome(ip: &str, done: bool, reason: &str) -> Value {
    json!({ "ip": ip, "done": done, "reason": reason, "message": "in words" })
}

async fn reserve_it(
    server: &Server,
    stage: &Stage,
    ips: &[&str],
) -> (String, String, Result<(), Failure>) {
    let (mut console, out, err) = script::console(None);
    let wish = Wish::read(&Reserve {
        ips: ips.iter().map(|&ip| ip.to_owned()).collect(),
        purpose: Some("router".into()),
        dry_run: false,
        api: fixture::api(),
    })
    .unwrap();
    let asked = ask(&mut console, &mut stage.remote(), &wish).await;
    let result = reserve(&fixture::cluster(server), &mut console, &wish, asked).await;
    (out.text(), err.text(), result)
}

#[tokio::test]
async fn the_controller_reserves_and_nothing_is_written_beside_it() {
    let server = Server::default();
    server.put(RECORDS, record("10.0.70.3", "sts_db_pg_pg-0", "n1"));
    server.put(RECORDS, reservation("10.0.70.4", "reserved-for-printer"));
    let results = [
        outcome("10.0.70.2", true, "Reserved"),
        outcome("10.0.70.3", false, "HeldByAnother"),
        outcome("10.0.70.4", true, "AlreadyReserved"),
        outcome("10.0.70.5", false, "Conflict"),
    ];
    let stage = Stage::secure(vec![(200, json!({ "results": results, "dryRun": false }))]);
    let (out, told, result) = reserve_it(&server, &stage, &["10.0.70.2~10.0.70.5"]).await;
    assert_eq!(
        out,
        "floatingip.galaxy.k8s.io/10.0.70.2 reserved\n\
         floatingip.galaxy.k8s.io/10.0.70.4 is reserved already: reserved-for-printer\n"
    );
    assert_eq!(
        told,
        "error: 10.0.70.3 is held by db/pg-0 (Bound)\n\
         error: 10.0.70.5 is not reserved: in words (Conflict)\n"
    );
    assert_eq!(result.unwrap_err().to_string(), "2 of 4 failed");
    let asked = &stage.asked()[0];
    assert_eq!(asked.what, "POST /v2/ips/reserve");
    assert_eq!(asked.body["purpose"], "router");
    assert_eq!(asked.body["ips"][3], "10.0.70.5");
    let calls = server.state().calls.clone();
    assert!(calls.iter().all(|it| it.starts_with("GET")), "{calls:?}");
}

#[tokio::test]
async fn what_the_controller_does_not_know_is_reserved_with_a_warning() {
    let server = Server::default();
    let results = [outcome("10.9.9.9", false, "NotConfigured")];
    let stage = Stage::secure(vec![(200, json!({ "results": results, "dryRun": false }))]);
    let (out, told, result) = reserve_it(&server, &stage, &["10.9.9.9"]).await;
    result.unwrap();
    assert_eq!(out, "floatingip.galaxy.k8s.io/10.9.9.9 reserved\n");
    assert_eq!(told, "warning: 10.9.9.9 is in no configured range\n");
    assert!(server.object(RECORDS, "10.9.9.9").is_some());
}

#[tokio::test]
async fn a_controller_that_is_there_and_refuses_is_not_passed_by() {
    for (status, reason) in [(403, "Forbidden"), (400, "Invalid"), (503, "NotReady")] {
        let server = Server::default();
        let stage = Stage::secure(vec![problem(status, reason, "no")]);
        let mut remote = stage.remote().impatient();
        let (mut console, ..) = script::console(None);
        let wish = Wish::read(&Reserve {
            ips: vec!["10.0.70.2".into()],
            purpose: None,
            dry_run: false,
            api: fixture::api(),
        })
        .unwrap();
        let asked = ask(&mut console, &mut remote, &wish).await;
        let result = reserve(&fixture::cluster(&server), &mut console, &wish, asked).await;
        assert_eq!(result.unwrap_err().reason(), reason);
        assert_eq!(server.objects(RECORDS).len(), 0);
    }
}
