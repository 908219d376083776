use serde_json::{Value, json};

use super::{
    stage::{Stage, problem},
    *,
};
use crate::console::script;

async fn get(remote: &mut Remote<Stage>) -> (Result<Value, Failure>, String) {
    let (mut console, _, err) = script::console(None);
    let result = remote.get(&mut console, "/v2/explain?ip=10.0.70.2").await;
    (result, err.text())
}

#[tokio::test]
async fn the_token_goes_inside_of_tls_to_the_named_server() {
    let stage = Stage::secure(vec![(200, json!({ "summary": [] }))]);
    let (answer, remarks) = get(&mut stage.remote()).await;
    assert_eq!(answer.unwrap(), json!({ "summary": [] }));
    assert_eq!(remarks, "");
    let asked = stage.asked();
    assert_eq!(asked[0].what, "GET /v2/explain?ip=10.0.70.2");
    assert_eq!(asked[0].headers["authorization"], "Bearer secret");
    assert_eq!(asked[0].headers["host"], stage::NAME);
}

#[tokio::test]
async fn an_open_api_is_told_of_and_never_sees_the_token() {
    let stage = Stage::open(vec![(200, json!(1))]);
    let mut remote = stage.remote();
    let (answer, remarks) = get(&mut remote).await;
    assert_eq!(answer.unwrap(), json!(1));
    assert!(
        remarks.starts_with("warning: the management API is open"),
        "{remarks}"
    );
    let (_, remarks) = get(&mut remote).await;
    assert_eq!(remarks, "", "once is enough");
    let asked = stage.asked();
    assert_eq!(asked.len(), 2);
    assert!(
        asked
            .iter()
            .all(|it| !it.headers.contains_key("authorization"))
    );
}

#[tokio::test]
async fn who_has_another_authority_is_not_asked() {
    let other = Stage::secure(vec![(200, json!(1))]);
    let stage = Stage::secure(vec![(200, json!(1))]);
    for authority in [other.authority(), ""] {
        let (answer, _) = get(&mut stage.remote_trusting(authority)).await;
        assert_eq!(answer.unwrap_err().reason(), "ApiUntrusted");
    }
    assert!(stage.asked().is_empty());
}

#[tokio::test]
async fn a_controller_that_cannot_answer_now_is_asked_again() {
    let stage = Stage::secure(vec![
        problem(503, "NoLeader", "no replica leads at the moment"),
        problem(503, "NotReady", "the leader has not read all"),
        (200, json!("at last")),
    ]);
    let (answer, remarks) = get(&mut stage.remote()).await;
    assert_eq!(answer.unwrap(), json!("at last"));
    assert_eq!(
        remarks,
        "the management API refuses it: no replica leads at the moment; trying again for a while\n"
    );
    assert_eq!(stage.asked().len(), 3);
}

#[tokio::test]
async fn trying_again_has_an_end() {
    let stage = Stage::secure(vec![problem(503, "NoLeader", "no replica leads")]);
    let mut remote = stage.remote();
    remote.tries = (Duration::from_secs(2), Duration::from_millis(1));
    let (answer, _) = get(&mut remote).await;
    assert_eq!(answer.unwrap_err().reason(), "NoLeader");
    assert!(stage.asked().len() > 1);
}

#[tokio::test]
async fn a_refusal_keeps_its_reason_and_is_final() {
    let stage = Stage::secure(vec![problem(
        403,
        "Forbidden",
        "jane may not delete floatingips.galaxy.k8s.io",
    )]);
    let (answer, _) = get(&mut stage.remote()).await;
    let failure = answer.unwrap_err();
    assert_eq!(failure.reason(), "Forbidden");
    assert_eq!(
        failure.to_string(),
        "the management API refuses it: jane may not delete floatingips.galaxy.k8s.io"
    );
    assert_eq!(stage.asked().len(), 1);
    let stage = Stage::secure(vec![(418, json!("what?"))]);
    let (answer, _) = get(&mut stage.remote()).await;
    assert_eq!(answer.unwrap_err().reason(), "UnknownAnswer");
}

#[tokio::test]
async fn who_has_no_token_hears_how_to_get_one_only_if_one_is_needed() {
    let lacking = Bearer::Lacking {
        context: "lab".into(),
        why: "the user is known by a client certificate",
    };
    let stage = Stage::secure(vec![problem(401, "Unauthenticated", "no token")]);
    let mut remote = stage.remote();
    remote.bearer = lacking.clone();
    let failure = get(&mut remote).await.0.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "the management API needs a token, and context \"lab\" has none: the user is known by \
         a client certificate"
    );
    let hint = failure.hint().unwrap();
    assert!(hint.contains("--as-service-account"), "{hint}");
    assert!(
        hint.contains("apply -f deploy/examples/operator.yaml"),
        "{hint}"
    );

    let open = Stage::open(vec![(200, json!(1))]);
    let mut remote = open.remote();
    remote.bearer = lacking;
    assert_eq!(get(&mut remote).await.0.unwrap(), json!(1));

    let failure = get(&mut stage.remote()).await.0.unwrap_err();
    assert_eq!(
        failure.reason(),
        "Unauthenticated",
        "a token that is not good"
    );
}

#[tokio::test]
async fn a_connection_that_breaks_tells_what_the_other_end_said() {
    struct Broken;
    impl Connect for Broken {
        async fn connect(&self) -> Result<Line, Failure> {
            let (here, _) = tokio::io::duplex(1);
            Ok(Line {
                stream: Box::new(here),
                trouble: Box::pin(async { Some("connection refused\n".to_owned()) }),
            })
        }
    }
    let Remote {
        trust,
        bearer,
        patience,
        ..
    } = Stage::secure(vec![(200, json!(1))]).remote();
    let mut remote = Remote {
        connect: Broken,
        trust,
        bearer,
        is_open: false,
        patience,
        tries: (Duration::ZERO, Duration::from_millis(1)),
    };
    let (mut console, ..) = script::console(None);
    let failure = remote.get::<Value>(&mut console, "/").await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "cannot talk to the management API: connection refused"
    );
}

#[tokio::test]
async fn who_never_answers_is_not_waited_for() {
    struct Silent;
    impl Connect for Silent {
        async fn connect(&self) -> Result<Line, Failure> {
            std::future::pending().await
        }
    }
    let Remote { trust, bearer, .. } = Stage::secure(vec![(200, json!(1))]).remote();
    let mut remote = Remote {
        connect: Silent,
        trust,
        bearer,
        is_open: false,
        patience: Some(Duration::from_millis(5)),
        tries: (Duration::from_millis(5), Duration::from_millis(1)),
    };
    let (mut console, ..) = script::console(None);
    let failure = remote.get::<Value>(&mut console, "/").await.unwrap_err();
    assert_eq!(failure.reason(), "ApiLate");
}

#[test]
fn a_text_in_a_query_stays_one_text() {
    assert_eq!(encoded("web/web-0"), "web/web-0");
    assert_eq!(encoded("fd00:73::2"), "fd00:73::2");
    assert_eq!(encoded("a&b=c d#é"), "a%26b%3Dc%20d%23%C3%A9");
}
