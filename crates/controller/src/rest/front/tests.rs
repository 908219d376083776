//! Calls before they reach their routes, without a network.

use axum::{
    Extension,
    body::{Bytes, to_bytes},
    extract::Path,
    response::IntoResponse as _,
    routing::{get, post},
};
use floe_shell::stop::{self, Stopper};
use futures::stream;
use serde_json::Value;
use tokio::time::Instant;
use tower::ServiceExt as _;

use super::*;
use crate::{
    rest::access::{Access, tests::Registry},
    store::Store,
};

mod network;

const WARM: Warmth = Warmth {
    records: true,
    pools: true,
    configuration: true,
    pods: true,
    nodes: true,
    workloads: true,
};

/// A replica with routes for tests.
struct Setup {
    router: Router,
    front: Front,
    metrics: Metrics,
    /// Nobody else keeps it.
    _standing: watch::Sender<Standing>,
    warmth: watch::Sender<Warmth>,
    stopper: Stopper,
    /// Changes take one of these each.
    leave: Arc<Semaphore>,
    /// How many changes have been made.
    changes: watch::Sender<usize>,
}

fn setup(registry: Option<&Registry>, standing: Standing) -> Setup {
    setup_with(registry, standing, Peers::new(None, KEEP))
}

fn setup_with(registry: Option<&Registry>, standing: Standing, peers: Peers) -> Setup {
    let standing = watch::Sender::new(standing);
    let warmth = watch::Sender::new(WARM);
    let (stopper, stop) = stop::channel();
    let reviewer = registry.map(|registry| Reviewer::new(registry.client()));
    let metrics = Metrics::default();
    let replica = Replica {
        standing: standing.subscribe(),
        warmth: warmth.subscribe(),
        metrics: metrics.clone(),
    };
    let front = Front::new(reviewer, replica, peers, stop);
    let leave = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
    let changes = watch::Sender::new(0);
    Setup {
        router: front.clone().before(routes(&leave, &changes)),
        front,
        metrics,
        _standing: standing,
        warmth,
        stopper,
        leave,
        changes,
    }
}

fn routes(leave: &Arc<Semaphore>, changes: &watch::Sender<usize>) -> Router {
    let (leave, changes) = (Arc::clone(leave), changes.clone());
    let list = async |caller: Caller, request: Request| {
        let may = caller.may(&Access::ips("list")).await;
        let path = request.uri().path();
        if let Err(denied) = may {
            let status = StatusCode::from_u16(denied.status()).unwrap();
            return refuse(path, status, denied.reason(), &denied.to_string());
        }
        let query = request.uri().query().unwrap_or_default();
        format!("{} {query}", caller.name().unwrap_or("anybody")).into_response()
    };
    let change = async move |Path(what): Path<String>, _: Caller, body: Bytes| {
        assert_ne!(what, "broken", "on purpose");
        leave.acquire().await.unwrap().forget();
        changes.send_modify(|changes| *changes += 1);
        format!("{} bytes", body.len())
    };
    let watch = async |_: Caller| {
        let first = stream::iter([Ok::<_, std::io::Error>("data: 1\n\n")]);
        Body::from_stream(first.chain(stream::pending()))
    };
    Router::new()
        .route("/v1/ip", get(list))
        .route("/v2/ips", get(list))
        .route(
            "/v2/slow",
            get(async |_: Caller| std::future::pending::<()>().await),
        )
        .route("/v2/change/{what}", post(change))
        .route("/v2/watch", get(watch))
        .route("/metrics", get(async || "figures"))
        .layer(Extension(()))
}

fn follower_of(api: Option<&str>) -> Standing {
    Standing::Following {
        holder: Some("other".into()),
        extender: None,
        api: api.map(str::to_owned),
    }
}

fn get_of(path: &str, token: Option<&str>) -> Request {
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(Body::empty()).unwrap()
}

fn change_of(what: &str, body: impl Into<Body>) -> Request {
    let path = format!("/v2/change/{what}");
    let request = Request::post(path).header("authorization", "Bearer ada-token");
    request.body(body.into()).unwrap()
}

async fn ask(router: &Router, request: Request) -> Response {
    router.clone().oneshot(request).await.unwrap()
}

async fn text(answer: Response) -> String {
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Status and reason of a refusal.
async fn refused(router: &Router, request: Request) -> (u16, String) {
    let answer = ask(router, request).await;
    let status = answer.status().as_u16();
    let body: Value = serde_json::from_str(&text(answer).await).unwrap();
    assert_eq!(body["status"], status);
    (status, body["reason"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_call_needs_a_token_that_is_known() {
    let registry = Registry::allowing(&["list floatingips"]);
    let setup = setup(Some(&registry), Standing::Leading);
    let cases: [(&[&str], u16); 9] = [
        (&["Bearer ada-token"], 200),
        (&["bearer  ada-token "], 200),
        (&["Bearer bob-token"], 403),
        (&["Bearer wrong"], 401),
        (&["Bearer"], 401),
        (&["Bearer "], 401),
        (&["Basic YTpi"], 401),
        (&["Bearer ada-token", "Bearer ada-token"], 401),
        (&[], 401),
    ];
    for (headers, want) in cases {
        for path in ["/v1/ip", "/v2/ips"] {
            let mut request = get_of(path, None);
            for header in headers {
                let header = header.parse().unwrap();
                request.headers_mut().append("authorization", header);
            }
            let answer = ask(&setup.router, request).await;
            assert_eq!(answer.status(), want, "{headers:?}");
            let how = answer.headers().get("www-authenticate").cloned();
            assert_eq!(how.is_some(), want == 401, "{headers:?}");
        }
    }
}

#[tokio::test]
async fn refusals_have_the_shape_of_their_path() {
    let registry = Registry::default();
    let setup = setup(Some(&registry), Standing::Leading);
    let answer = ask(&setup.router, get_of("/v1/ip", Some("bob-token"))).await;
    assert_eq!(answer.headers()["content-type"], "application/json");
    let told = "bob may not list floatingips.galaxy.k8s.io";
    assert_eq!(
        text(answer).await,
        format!(r#"{{"code":403,"message":"Forbidden: {told}"}}"#)
    );
    let answer = ask(&setup.router, get_of("/v2/ips", Some("bob-token"))).await;
    assert_eq!(
        text(answer).await,
        format!(r#"{{"status":403,"reason":"Forbidden","message":"{told}"}}"#)
    );
    let nothing = get_of("/v2/nothing", Some("ada-token"));
    assert_eq!(
        refused(&setup.router, nothing).await,
        (404, "PathNotFound".into())
    );
    // A stranger learns nothing of the paths.
    let nothing = get_of("/v2/nothing", None);
    assert_eq!(refused(&setup.router, nothing).await.0, 401);
}

#[tokio::test]
async fn figures_and_unknown_paths_need_no_token_and_no_leader() {
    let registry = Registry::default();
    let setup = setup(Some(&registry), Standing::Unknown);
    let figures = ask(&setup.router, get_of("/metrics", None)).await;
    assert_eq!(text(figures).await, "figures");
    for path in ["/", "/v3", "/v1x", "/%761/ip", "//v1/ip"] {
        let answer = refused(&setup.router, get_of(path, None)).await;
        assert_eq!(answer, (404, "PathNotFound".into()), "{path}");
    }
    assert_eq!(registry.asked(), (0, 0));
}

#[tokio::test]
async fn everybody_may_do_everything_when_nobody_asks() {
    let setup = setup(None, Standing::Leading);
    for token in [None, Some("wrong")] {
        let answer = ask(&setup.router, get_of("/v1/ip?a=b", token)).await;
        assert_eq!(text(answer).await, "anybody a=b");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_api_server_nobody_is_let_in() {
    let registry = Registry::default();
    registry.silence();
    let setup = setup(Some(&registry), Standing::Leading);
    let answer = ask(&setup.router, get_of("/v2/ips", Some("ada-token"))).await;
    assert_eq!(answer.headers()["retry-after"], "1");
    assert_eq!(answer.status(), 503);
    assert!(text(answer).await.contains("AccessUndecided"));
}

#[tokio::test]
async fn only_a_leader_that_knows_all_answers() {
    let nobody = Standing::Following {
        holder: None,
        extender: None,
        api: None,
    };
    let cold = Warmth {
        pods: false,
        ..WARM
    };
    let cases = [
        (Standing::Unknown, WARM, false, "NoLeader"),
        (nobody, WARM, false, "NoLeader"),
        (follower_of(None), WARM, false, "LeaderUnreachable"),
        (
            follower_of(Some("no address")),
            WARM,
            false,
            "LeaderUnreachable",
        ),
        // Nothing listens there.
        (
            follower_of(Some("http://127.0.0.1:1")),
            WARM,
            false,
            "LeaderUnreachable",
        ),
        (
            follower_of(Some("http://127.0.0.1:1")),
            WARM,
            true,
            "Misdirected",
        ),
        (Standing::Leading, cold, false, "NotReady"),
    ];
    for (standing, warmth, forwarded, reason) in cases {
        let setup = setup(None, standing);
        setup.warmth.send_replace(warmth);
        let mut request = get_of("/v2/ips", None);
        if forwarded {
            request
                .headers_mut()
                .insert(FORWARDED, "true".parse().unwrap());
        }
        let answer = ask(&setup.router, request).await;
        assert_eq!(answer.headers()["retry-after"], "1", "{reason}");
        assert_eq!(answer.status(), 503, "{reason}");
        assert!(text(answer).await.contains(reason), "{reason}");
    }
}

#[tokio::test]
async fn bodies_have_a_limit_and_those_of_strangers_are_not_read() {
    let registry = Registry::default();
    let setup = setup(Some(&registry), Standing::Leading);
    let largest = vec![b' '; body::LARGEST];
    let answer = ask(&setup.router, change_of("x", largest)).await;
    assert_eq!(text(answer).await, format!("{} bytes", body::LARGEST));
    let (status, reason) = refused(&setup.router, change_of("x", vec![0; body::LARGEST + 1])).await;
    assert_eq!((status, reason.as_str()), (413, "BodyTooLarge"));
    // One that does not tell its length, and never ends.
    let endless = stream::repeat_with(|| Ok::<_, axum::Error>(Bytes::from(vec![0; 100_000])));
    let endless = change_of("x", Body::from_stream(endless));
    assert_eq!(refused(&setup.router, endless).await.0, 413);

    let unread = stream::poll_fn(|_| -> std::task::Poll<Option<Result<Bytes, axum::Error>>> {
        panic!("the body of a stranger is read")
    });
    let mut stranger = change_of("x", Body::from_stream(unread));
    stranger.headers_mut().remove("authorization");
    assert_eq!(refused(&setup.router, stranger).await.0, 401);
    assert_eq!(*setup.changes.borrow(), 1);
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_come_or_break_off_change_nothing() {
    let registry = Registry::default();
    let setup = setup(Some(&registry), Standing::Leading);
    let some = || stream::iter([Ok(Bytes::from_static(b"{"))]);
    let never = some().chain(stream::pending::<Result<_, axum::Error>>());
    let begin = Instant::now();
    let (status, reason) = refused(&setup.router, change_of("x", Body::from_stream(never))).await;
    assert_eq!((status, reason.as_str()), (408, "BodyTooSlow"));
    assert_eq!(begin.elapsed(), body::BODY);
    let broken = some().chain(stream::iter([Err(axum::Error::new("gone"))]));
    let (status, reason) = refused(&setup.router, change_of("x", Body::from_stream(broken))).await;
    assert_eq!((status, reason.as_str()), (400, "BodyBroken"));
    assert_eq!(*setup.changes.borrow(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_slow_bodies_keep_nobody_else_waiting() {
    let setup = setup(None, Standing::Leading);
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..1_000 {
        let router = setup.router.clone();
        slow.spawn(async move {
            let never = stream::pending::<Result<Bytes, axum::Error>>();
            let mut request = change_of("x", Body::from_stream(never));
            let length = body::LARGEST.into();
            request.headers_mut().insert("content-length", length);
            ask(&router, request).await.status()
        });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begin = Instant::now();
    let answer = ask(&setup.router, change_of("x", vec![0; 1_000])).await;
    assert_eq!(text(answer).await, "1000 bytes");
    assert_eq!(begin.elapsed(), Duration::ZERO);
    while let Some(status) = slow.join_next().await {
        assert_eq!(status.unwrap(), 408);
    }
}

#[tokio::test(start_paused = true)]
async fn one_caller_cannot_take_the_room_of_all_bodies() {
    let registry = Registry::default();
    let setup = setup(Some(&registry), Standing::Leading);
    // All but the end of a large body.
    let almost = || {
        let most = Bytes::from(vec![b' '; body::LARGEST - 1]);
        let most = stream::iter([Ok::<_, axum::Error>(most)]);
        change_of("x", Body::from_stream(most.chain(stream::pending())))
    };
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (router, request) = (setup.router.clone(), almost());
        slow.spawn(async move { ask(&router, request).await.status() });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let answer = refused(&setup.router, change_of("x", "more")).await;
    assert_eq!(answer, (503, "Overloaded".into()));
    let mut other = change_of("x", "more");
    let token = "Bearer bob-token".parse().unwrap();
    other.headers_mut().insert("authorization", token);
    assert_eq!(text(ask(&setup.router, other).await).await, "4 bytes");
    while let Some(status) = slow.join_next().await {
        assert_eq!(status.unwrap(), 408);
    }
    // His share is his again.
    assert_eq!(
        ask(&setup.router, change_of("x", "more")).await.status(),
        200
    );
}

#[tokio::test]
async fn calls_are_counted_by_their_route_and_refusals_by_their_reason() {
    let registry = Registry::allowing(&["list floatingips"]);
    let setup = setup(Some(&registry), Standing::Leading);
    let calls = [
        get_of("/v2/ips?page=1", Some("ada-token")),
        get_of("/v2/ips?page=2", Some("ada-token")),
        get_of("/v2/ips", Some("bob-token")),
        get_of("/v2/ips", None),
        get_of("/metrics", None),
        get_of("/v2/of-my-own", Some("ada-token")),
        change_of("one", "x"),
        change_of("another", "x"),
        change_of("broken", ""),
        Request::builder()
            .method("INVENT")
            .uri("/of-my-own")
            .body(Body::empty())
            .unwrap(),
    ];
    for call in calls {
        ask(&setup.router, call).await;
    }
    assert_eq!(
        figures(&setup.metrics),
        [
            r#"floe_api_calls_total{route="/metrics",method="GET",status="200"} 1"#,
            r#"floe_api_calls_total{route="/v2/change/{what}",method="POST",status="200"} 2"#,
            r#"floe_api_calls_total{route="/v2/change/{what}",method="POST",status="500"} 1"#,
            r#"floe_api_calls_total{route="/v2/ips",method="GET",status="200"} 2"#,
            r#"floe_api_calls_total{route="/v2/ips",method="GET",status="401"} 1"#,
            r#"floe_api_calls_total{route="/v2/ips",method="GET",status="403"} 1"#,
            r#"floe_api_calls_total{route="other",method="GET",status="404"} 1"#,
            r#"floe_api_calls_total{route="other",method="other",status="404"} 1"#,
            r#"floe_api_refusals_total{reason="Forbidden"} 1"#,
            r#"floe_api_refusals_total{reason="InternalError"} 1"#,
            r#"floe_api_refusals_total{reason="PathNotFound"} 2"#,
            r#"floe_api_refusals_total{reason="Unauthenticated"} 1"#,
        ]
    );
}

/// What was counted of calls, sorted.
fn figures(metrics: &Metrics) -> Vec<String> {
    let standing = watch::channel(Standing::Leading).1;
    let registry = metrics.registry(Store::default(), standing);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("floe_api_"));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_are_refused_and_a_stop_waits_for_changes() {
    let setup = setup(None, Standing::Leading);
    setup.leave.forget_permits(Semaphore::MAX_PERMITS);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..CALLS {
        let router = setup.router.clone();
        calls.spawn(async move { ask(&router, change_of("x", "")).await.status() });
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let answer = ask(&setup.router, change_of("x", "")).await;
    assert_eq!(answer.headers()["retry-after"], "1");
    assert!(text(answer).await.contains("Overloaded"));
    let waiting = tokio::time::timeout(Duration::from_mins(1), setup.front.empty());
    assert!(waiting.await.is_err(), "changes are under way");

    // Their callers leave, and still all is done.
    calls.shutdown().await;
    assert_eq!(*setup.changes.borrow(), 0);
    setup.leave.add_permits(CALLS as usize);
    setup.front.empty().await;
    assert_eq!(*setup.changes.borrow(), CALLS as usize);
    // Nobody has waited for the answers, but they count.
    let done = r#"floe_api_calls_total{route="/v2/change/{what}",method="POST",status="200"} 128"#;
    while !figures(&setup.metrics).contains(&done.to_owned()) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_and_one_that_fails_are_told() {
    let setup = setup(None, Standing::Leading);
    let begin = Instant::now();
    let (status, reason) = refused(&setup.router, get_of("/v2/slow", None)).await;
    assert_eq!((status, reason.as_str()), (503, "DeadlinePassed"));
    assert_eq!(begin.elapsed(), ANSWER);
    let (status, reason) = refused(&setup.router, change_of("broken", "")).await;
    assert_eq!((status, reason.as_str()), (500, "InternalError"));
}

#[tokio::test]
async fn followers_of_changes_have_their_own_limit_and_end_with_the_process() {
    let setup = setup(None, Standing::Leading);
    let mut streams = Vec::new();
    for _ in 0..WATCHES {
        let answer = ask(&setup.router, get_of("/v2/watch", None)).await;
        let mut chunks = answer.into_body().into_data_stream();
        let first = chunks.next().await.unwrap().unwrap();
        assert_eq!(first, "data: 1\n\n");
        streams.push(chunks);
    }
    let (status, reason) = refused(&setup.router, get_of("/v2/watch", None)).await;
    assert_eq!((status, reason.as_str()), (503, "TooManyWatches"));
    // They take no room from others, and one that leaves makes room.
    assert_eq!(
        ask(&setup.router, get_of("/v2/ips", None)).await.status(),
        200
    );
    streams.pop();
    let answer = ask(&setup.router, get_of("/v2/watch", None)).await;
    assert_eq!(answer.status(), 200);
    setup.stopper.stop();
    for mut chunks in streams {
        assert!(chunks.next().await.is_none());
    }
}

#[tokio::test]
async fn one_caller_cannot_take_the_places_of_all_followers() {
    let registry = Registry::default();
    let setup = setup(Some(&registry), Standing::Leading);
    let mut streams = Vec::new();
    for _ in 0..WATCHES_OF_ONE {
        let answer = ask(&setup.router, get_of("/v2/watch", Some("ada-token"))).await;
        assert_eq!(answer.status(), 200);
        streams.push(answer);
    }
    let answer = refused(&setup.router, get_of("/v2/watch", Some("ada-token"))).await;
    assert_eq!(answer, (503, "TooManyWatches".into()));
    let other = ask(&setup.router, get_of("/v2/watch", Some("bob-token"))).await;
    assert_eq!(other.status(), 200);
    streams.pop();
    let again = ask(&setup.router, get_of("/v2/watch", Some("ada-token"))).await;
    assert_eq!(again.status(), 200);
}
