use floe_shell::mock::Server;
use serde_json::{Value, json};

use super::*;
use crate::{
    args::Consent,
    console::script,
    fixture::{self, RECORDS, record},
    remote::stage::{Stage, problem},
};

fn outcome(ip: &str, done: bool, reason: &str, message: &str) -> Value {
    json!({ "ip": ip, "done": done, "reason": reason, "message": message })
}

fn answer(dry_run: bool, results: &[Value]) -> (u16, Value) {
    (200, json!({ "results": results, "dryRun": dry_run }))
}

fn released(ip: &str) -> Value {
    outcome(ip, true, "Released", "released")
}

fn runs(ip: &str) -> Value {
    let message = "pod default/web-0 (uid u) runs with it";
    outcome(ip, false, "PodRuns", message)
}

/// One address of each kind.
fn inhabited() -> Server {
    let server = Server::default();
    server.put(
        RECORDS,
        record("10.0.70.2", "sts_default_web_web-0", "node-1"),
    );
    server.put(RECORDS, record("10.0.70.3", "pool__blue_", ""));
    server
}

async fn release_it(
    server: &Server,
    stage: &Stage,
    answers: Option<&'static str>,
    ips: &[&str],
    (dry_run, yes): (bool, bool),
) -> (String, String, Result<(), Failure>) {
    let (mut console, out, err) = script::console(answers);
    let args = args::Release {
        ips: ips.iter().map(|&ip| ip.to_owned()).collect(),
        dry_run,
        consent: Consent { yes },
        api: fixture::api(),
    };
    let cluster = fixture::cluster(server);
    let ips = ip::expand(&args.ips).unwrap();
    let result = release(&cluster, &mut console, &mut stage.remote(), ips, &args).await;
    (out.text(), err.text(), result)
}

#[tokio::test]
async fn what_goes_is_listed_before_it_goes_and_only_with_the_holder_that_was_shown() {
    let stage = Stage::secure(vec![
        answer(true, &[released("10.0.70.3")]),
        answer(false, &[released("10.0.70.3")]),
    ]);
    let (out, err, result) = release_it(
        &inhabited(),
        &stage,
        Some("y\n"),
        &["10.0.70.3"],
        (false, false),
    )
    .await;
    result.unwrap();
    assert_eq!(out, "floatingip.galaxy.k8s.io/10.0.70.3 released\n");
    assert_eq!(
        err,
        "Others can get these addresses when they are released:\n  \
         10.0.70.3  pool/blue (Spare)\n\
         Go on? [y/N] "
    );
    let asked: Vec<_> = stage.asked().into_iter().map(|it| it.body).collect();
    let ips = json!([{ "ip": "10.0.70.3", "key": "pool__blue_" }]);
    assert_eq!(
        asked,
        [
            json!({ "ips": ips, "dryRun": true }),
            json!({ "ips": ips, "dryRun": false }),
        ]
    );
}

#[tokio::test]
async fn a_spare_that_is_allocated_again_is_announced_before_and_after() {
    let note = "pool blue has preAllocateIP, so floe allocates another address for it";
    let refilled = || outcome("10.0.70.3", true, "Released", &format!("released; {note}"));
    let stage = Stage::secure(vec![
        answer(true, &[refilled()]),
        answer(false, &[refilled()]),
    ]);
    let ips = ["10.0.70.3"];
    let typed = Some("y\n");
    let (out, err, result) = release_it(&inhabited(), &stage, typed, &ips, (false, false)).await;
    result.unwrap();
    assert_eq!(out, "floatingip.galaxy.k8s.io/10.0.70.3 released\n");
    assert_eq!(
        err,
        format!(
            "Others can get these addresses when they are released:\n  \
             10.0.70.3  pool/blue (Spare); {note}\n\
             Go on? [y/N] warning: 10.0.70.3: {note}\n"
        )
    );
}

#[tokio::test]
async fn without_a_yes_nothing_is_done() {
    for (typed, reason) in [(Some("n\n"), "Declined"), (None, "ConfirmationNeeded")] {
        let stage = Stage::secure(vec![answer(true, &[released("10.0.70.3")])]);
        let (out, _, result) =
            release_it(&inhabited(), &stage, typed, &["10.0.70.3"], (false, false)).await;
        assert_eq!(result.unwrap_err().reason(), reason);
        assert_eq!(out, "");
        assert_eq!(stage.asked().len(), 1, "only the dry run");
    }
}

#[tokio::test]
async fn each_address_has_its_result_and_one_failure_is_enough_to_fail() {
    let stage = Stage::secure(vec![
        answer(
            true,
            &[
                runs("10.0.70.2"),
                released("10.0.70.3"),
                outcome("10.0.70.4", true, "AlreadyFree", "it was free already"),
            ],
        ),
        answer(false, &[released("10.0.70.3")]),
    ]);
    let (out, err, result) = release_it(
        &inhabited(),
        &stage,
        None,
        &["10.0.70.2~10.0.70.4"],
        (false, true),
    )
    .await;
    assert_eq!(
        out,
        "floatingip.galaxy.k8s.io/10.0.70.4 not released: it was free already\n\
         floatingip.galaxy.k8s.io/10.0.70.3 released\n"
    );
    assert_eq!(
        err,
        "error: 10.0.70.2 is not released: pod default/web-0 (uid u) runs with it (PodRuns)\n"
    );
    let failure = result.unwrap_err();
    assert_eq!(failure.to_string(), "1 of 3 failed");
    assert_eq!(failure.exit_code(), 1);
    let asked = stage.asked();
    assert_eq!(asked[1].body["ips"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_holder_that_changes_in_the_last_moment_keeps_the_address() {
    let other = outcome(
        "10.0.70.3",
        false,
        "HeldByAnother",
        "held by another one: x",
    );
    let stage = Stage::secure(vec![
        answer(true, &[released("10.0.70.3")]),
        answer(false, &[other]),
    ]);
    let (out, err, result) =
        release_it(&inhabited(), &stage, None, &["10.0.70.3"], (false, true)).await;
    assert_eq!(out, "");
    assert!(
        err.contains("10.0.70.3 is not released") && err.contains("HeldByAnother"),
        "{err}"
    );
    assert_eq!(result.unwrap_err().reason(), "SomeFailed");
}

#[tokio::test]
async fn a_dry_run_asks_nobody_and_changes_nothing() {
    let stage = Stage::secure(vec![answer(
        true,
        &[runs("10.0.70.2"), released("10.0.70.3")],
    )]);
    let (out, _, result) = release_it(
        &inhabited(),
        &stage,
        None,
        &["10.0.70.2", "10.0.70.3"],
        (true, false),
    )
    .await;
    assert_eq!(
        out,
        "floatingip.galaxy.k8s.io/10.0.70.3 released (server dry run): pool/blue (Spare)\n"
    );
    assert_eq!(result.unwrap_err().reason(), "SomeFailed");
    assert_eq!(stage.asked().len(), 1);
}

#[tokio::test]
async fn a_refusal_and_an_answer_to_another_question_change_nothing() {
    let stage = Stage::secure(vec![problem(403, "Forbidden", "jane may not")]);
    let (.., result) = release_it(&inhabited(), &stage, None, &["10.0.70.3"], (false, true)).await;
    assert_eq!(result.unwrap_err().reason(), "Forbidden");

    // A server that took the dry run for earnest must not be believed.
    let stage = Stage::secure(vec![answer(false, &[released("10.0.70.3")])]);
    let (.., result) = release_it(&inhabited(), &stage, None, &["10.0.70.3"], (false, true)).await;
    assert_eq!(result.unwrap_err().reason(), "Unprintable");
    assert_eq!(stage.asked().len(), 1);
}

#[tokio::test]
async fn whoever_got_the_address_just_now_keeps_it() {
    let stage = Stage::secure(vec![answer(true, &[released("10.0.70.9")])]);
    let (out, told, result) =
        release_it(&inhabited(), &stage, None, &["10.0.70.9"], (false, true)).await;
    assert_eq!(result.unwrap_err().reason(), "SomeFailed");
    assert_eq!(out, "");
    let wanted = "error: the record of 10.0.70.9 was changed by somebody else at the same time\n";
    assert_eq!(told, wanted);
    assert_eq!(stage.asked().len(), 1, "nobody was asked to do it");
}
