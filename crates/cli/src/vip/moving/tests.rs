use floe_shell::mock::{Fault, Server};
use http::Method;
use serde_json::Value;

use super::*;
use crate::{
    args::Consent,
    console::script,
    fixture,
    vip::tests::{SHOP, held, place},
};

const EVENTS: &str = "/api/v1/namespaces/default/events";

fn wish(to: &str) -> VipMove {
    VipMove {
        name: "web".into(),
        to: to.into(),
        consent: Consent { yes: true },
        no_wait: false,
        timeout: Duration::from_secs(20),
    }
}

fn server() -> Server {
    let server = Server::default();
    let mut vip = held("web");
    vip["metadata"]["uid"] = json!("u1");
    server.put(SHOP, vip);
    server
}

fn vip(server: &Server) -> Value {
    server.object(SHOP, "web").unwrap()
}

fn change(server: &Server, change: impl FnOnce(&mut Value)) {
    let mut object = vip(server);
    change(&mut object);
    server.put(SHOP, object);
}

fn wished(server: &Server) -> bool {
    vip(server)["metadata"]["annotations"][MOVE_TO] == "b"
}

/// Waits until the client has seen what is there now.
async fn seen(server: &Server) {
    let looks = |server: &Server| server.count(&Method::GET, "virtualips/web");
    let before = looks(server);
    server.until(|it| looks(it) >= before + 2).await;
}

fn event(name: &str, reason: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": name },
        "involvedObject": { "uid": "u1" }, "type": "Warning", "action": "Move",
        "reason": reason, "message": "the move is refused: pod b is no candidate",
    })
}

async fn go(
    server: &Server,
    answers: Option<&'static str>,
    wish: &VipMove,
) -> (String, String, Result<(), Failure>) {
    let (mut console, out, err) = script::console(answers);
    let cluster = fixture::cluster(server);
    let result = run(&cluster, &mut console, wish).await;
    (out.text(), err.text(), result)
}

/// What happens to the wish, beside a client who waits for it.
async fn with(
    server: &Server,
    wish: &VipMove,
    world: impl Future<Output = ()>,
) -> (String, String, Result<(), Failure>) {
    let (gone, ()) = tokio::join!(go(server, None, wish), world);
    gone
}

fn reason(result: Result<(), Failure>) -> String {
    result.unwrap_err().reason().to_owned()
}

#[tokio::test]
async fn a_move_is_followed_until_the_pod_has_the_addresses() {
    let server = server();
    let world = async {
        server.until(wished).await;
        seen(&server).await;
        change(&server, |vip| {
            vip["status"]["successor"] = place("b", "n2");
            vip["metadata"]["annotations"] = json!({});
        });
        seen(&server).await;
        change(&server, |vip| {
            vip["status"]["successor"]["ready"] = json!(true);
        });
        seen(&server).await;
        change(&server, |vip| {
            vip["status"]["successor"] = Value::Null;
            vip["status"]["holder"] = place("b", "n2");
        });
    };
    let (out, err, result) = with(&server, &wish("pod/b"), world).await;
    result.unwrap();
    assert_eq!(out, "virtualip.floe.dev/web moved to pod b on node n2\n");
    assert_eq!(
        err,
        "waiting for the controller\n\
         node n2 prepares\n\
         node n2 is prepared; the holder gives the addresses away\n"
    );
}

#[tokio::test]
async fn a_refusal_is_told_with_the_words_of_the_event() {
    let server = server();
    server.put(EVENTS, event("old", "MoveWithoutHolder"));
    let world = async {
        server.until(wished).await;
        change(&server, |vip| vip["metadata"]["annotations"] = json!({}));
        // The Event comes a little later.
        server
            .until(|it| it.count(&Method::GET, "/events") >= 3)
            .await;
        let mut other = event("other", "Other");
        other["involvedObject"]["uid"] = json!("u2");
        server.put(EVENTS, other);
        server.put(EVENTS, event("new", "MoveToNoCandidate"));
    };
    let (out, _, result) = with(&server, &wish("b"), world).await;
    let failure = result.unwrap_err();
    assert_eq!(
        (failure.reason(), failure.to_string().as_str()),
        (
            "MoveToNoCandidate",
            "not moved: the move is refused: pod b is no candidate"
        )
    );
    assert_eq!((out.as_str(), failure.exit_code()), ("", 1));
}

#[tokio::test]
async fn a_plan_that_is_given_up_is_told() {
    let server = server();
    let world = async {
        server.until(wished).await;
        change(&server, |vip| {
            vip["status"]["successor"] = place("b", "n2");
            vip["metadata"]["annotations"] = json!({});
        });
        seen(&server).await;
        change(&server, |vip| vip["status"]["successor"] = Value::Null);
    };
    let (_, _, result) = with(&server, &wish("b"), world).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.reason(), "MoveGivenUp");
    assert!(failure.to_string().ends_with("pod a has it"), "{failure}");
}

#[tokio::test]
async fn a_wish_that_somebody_replaces_or_an_object_that_goes_ends_the_wait() {
    let server_ = server();
    let world = async {
        server_.until(wished).await;
        change(&server_, |vip| {
            vip["metadata"]["annotations"] = json!({ MOVE_TO: "c" });
        });
    };
    let (.., result) = with(&server_, &wish("b"), world).await;
    assert_eq!(reason(result), "MoveReplaced");
    let server_ = server();
    let world = async {
        server_.until(wished).await;
        server_.delete(SHOP, "web");
    };
    let (.., result) = with(&server_, &wish("b"), world).await;
    assert_eq!(reason(result), "Deleting");
}

#[tokio::test]
async fn a_wait_has_an_end_and_tells_how_to_take_the_wish_back() {
    let server = server();
    let mut short = wish("b");
    short.timeout = Duration::from_millis(1);
    let (_, _, result) = go(&server, None, &short).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.reason(), "MoveLate");
    let hint = failure.hint().unwrap();
    assert!(
        hint.contains("kubectl -n default annotate vip web floe.dev/move-to-"),
        "{hint}"
    );
    assert!(wished(&server));
}

#[tokio::test]
async fn a_server_that_is_away_for_a_moment_does_not_end_the_wait() {
    let server = server();
    let world = async {
        server.until(wished).await;
        server.fault(Method::GET, "virtualips/web", Fault::Break);
        seen(&server).await;
        change(&server, |vip| vip["status"]["holder"] = place("b", "n2"));
    };
    let (_, err, result) = with(&server, &wish("b"), world).await;
    result.unwrap();
    assert!(err.contains("trying again"), "{err}");
}

#[tokio::test]
async fn what_cannot_be_is_not_asked_for() {
    let server = server();
    let (_, _, result) = go(&server, None, &wish("z")).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.reason(), "MoveToNoCandidate");
    assert_eq!(failure.hint().unwrap(), "these are: a, b");
    let (out, _, result) = go(&server, None, &wish("a")).await;
    result.unwrap();
    assert_eq!(out, "virtualip.floe.dev/web is at pod a already\n");
    change(&server, |vip| vip["status"]["holder"] = Value::Null);
    let (.., result) = go(&server, None, &wish("b")).await;
    assert_eq!(reason(result), "MoveWithoutHolder");
    change(&server, |vip| {
        vip["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    let (.., result) = go(&server, None, &wish("b")).await;
    assert_eq!(reason(result), "Deleting");
    assert_eq!(server.count(&Method::PATCH, ""), 0);
}

#[tokio::test]
async fn nothing_is_asked_for_without_a_yes_and_nothing_is_waited_for_if_nobody_wants() {
    let server = server();
    let mut wish = wish("b");
    wish.no_wait = true;
    wish.consent.yes = false;
    let (_, err, result) = go(&server, Some("n\n"), &wish).await;
    assert_eq!(reason(result), "Declined");
    assert_eq!(
        err,
        "10.0.70.20 moves from pod a to pod b; connections to a end.\nGo on? [y/N] "
    );
    let (.., result) = go(&server, None, &wish).await;
    assert_eq!(reason(result), "ConfirmationNeeded");
    assert_eq!(server.count(&Method::PATCH, ""), 0);
    let (out, _, result) = go(&server, Some("y\n"), &wish).await;
    result.unwrap();
    assert_eq!(out, "virtualip.floe.dev/web asked to move to pod b\n");
    assert!(wished(&server));
}

#[tokio::test]
async fn another_object_of_the_same_name_is_left_alone() {
    let server = server();
    server.fault(
        Method::PATCH,
        "virtualips",
        Fault::Before(Box::new(|state| {
            state.remove_named(SHOP, "web");
            let mut vip = held("web");
            vip["metadata"]["uid"] = json!("u2");
            state.put(SHOP, vip);
        })),
    );
    let (.., result) = go(&server, None, &wish("b")).await;
    assert_eq!(reason(result), "Conflict");
    assert!(!wished(&server));
    server.fault(Method::PATCH, "virtualips", Fault::Refuse(403));
    let (.., result) = go(&server, None, &wish("b")).await;
    assert_eq!(
        result.unwrap_err().to_string(),
        "you may not patch virtualips.floe.dev in namespace default"
    );
}
