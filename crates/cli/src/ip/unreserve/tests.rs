use clap::Parser as _;
use floe_shell::mock::Server;
use serde_json::json;

use super::*;
use crate::{
    args::{Account, Args, Command, Ip},
    console::script,
    fixture::{self, RECORDS, reservation},
    remote::stage::Stage,
};

#[test]
fn a_service_account_can_be_named() {
    let line = "kubectl-floe ip unreserve 10.0.70.2 --as-service-account kube-system/floe-operator";
    let args = Args::try_parse_from(line.split(' ')).unwrap();
    let Command::Ip(Ip::Unreserve(unreserve)) = args.command else {
        panic!("another command");
    };
    let account: Account = "kube-system/floe-operator".parse().unwrap();
    assert_eq!(unreserve.api.as_service_account, Some(account));
}

#[tokio::test]
async fn with_a_service_account_the_controller_ends_the_reservation() {
    let server = Server::default();
    for (ip, purpose) in [("10.0.70.2", "router"), ("10.0.70.3", "printer")] {
        server.put(RECORDS, reservation(ip, &format!("reserved-for-{purpose}")));
    }
    let result = |ip: &str, done: bool, reason: &str| json!({ "ip": ip, "done": done, "reason": reason, "message": "in words" });
    let results = [
        result("10.0.70.2", true, "Unreserved"),
        result("10.0.70.3", false, "HeldByPod"),
    ];
    let stage = Stage::secure(vec![(200, json!({ "results": results, "dryRun": false }))]);
    let (mut console, out, err) = script::console(None);
    let ips = ["10.0.70.2", "10.0.70.3"].map(|ip| ip.parse().unwrap());
    let ended = unreserve(
        &fixture::cluster(&server),
        &mut console,
        Some(&mut stage.remote()),
        &ips,
        true,
    )
    .await;
    assert_eq!(ended.unwrap_err().to_string(), "1 of 2 failed");
    assert_eq!(
        out.text(),
        "floatingip.galaxy.k8s.io/10.0.70.2 unreserved\n"
    );
    assert_eq!(
        err.text(),
        "error: 10.0.70.3 is still reserved: in words (HeldByPod)\n"
    );
    let asked = &stage.asked()[0];
    assert_eq!(asked.what, "POST /v2/ips/unreserve");
    assert_eq!(asked.body["ips"], json!(["10.0.70.2", "10.0.70.3"]));
    assert_eq!(server.objects(RECORDS).len(), 2, "the user deletes nothing");
}
