//! The routes as a service, with a stand-in for those who know the answers.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::body::{Body, to_bytes};
use floe_api::extender::Verdict;
use floe_core::schedule::caller::Source;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use super::*;
use crate::{cluster::Cluster, metrics::Metrics};

mod callers;
mod network;
mod transport;

const WARM: Warmth = Warmth {
    records: true,
    pools: true,
    configuration: true,
    pods: true,
    nodes: true,
    workloads: true,
};

/// Knows that "full" is full, and that "best" is best.
#[derive(Clone)]
struct Clerk {
    /// What was asked.
    asked: Arc<Mutex<Vec<String>>>,
    /// What was answered.
    done: watch::Sender<usize>,
    /// Each answer takes one of these.
    leave: Arc<Semaphore>,
}

impl Clerk {
    fn new() -> Self {
        Self::with(Semaphore::MAX_PERMITS)
    }

    /// One that answers no more often than this.
    fn with(answers: usize) -> Self {
        Self {
            asked: Arc::default(),
            done: watch::Sender::new(0),
            leave: Arc::new(Semaphore::new(answers)),
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    async fn work(&self, what: String) {
        self.asked.lock().unwrap().push(what);
        self.leave.acquire().await.unwrap().forget();
        self.done.send_modify(|done| *done += 1);
    }
}

impl Answers for Clerk {
    async fn filter<'a>(&self, offer: &'a Offer<'a>) -> FilterAnswer<'a> {
        self.work(format!("filter {}", offer.pod.name)).await;
        offer.nodes.judge(|node| match node {
            "full" => Verdict::Fails("it is full".into()),
            _ => Verdict::Fits,
        })
    }

    async fn prioritize<'a>(&self, offer: &'a Offer<'a>) -> Vec<HostScore<'a>> {
        self.work(format!("prioritize {}", offer.pod.name)).await;
        let names = offer.nodes.names();
        let score = |host| HostScore {
            host,
            score: i64::from(host == "best"),
        };
        names.map(score).collect()
    }

    async fn bind(&self, request: &BindRequest) -> BindAnswer {
        let BindRequest { pod, node } = request;
        self.work(format!("bind {} to {node}", pod.name)).await;
        match node.as_str() {
            "full" => BindAnswer::refused("it is full"),
            "broken" => panic!("on purpose"),
            _ => BindAnswer::bound(),
        }
    }

    async fn preempt<'r, 'a>(&self, request: &'r PreemptRequest<'a>) -> PreemptAnswer<'r, 'a> {
        self.work(format!("preempt {}", request.pod.name)).await;
        request.keep(|node| node != "full")
    }
}

struct Setup {
    clerk: Clerk,
    standing: watch::Sender<Standing>,
    warmth: watch::Sender<Warmth>,
    entry: Entry,
    router: Router,
}

fn setup(clerk: Clerk, standing: Standing) -> Setup {
    setup_with(clerk, standing, forwarder(None))
}

/// A way to the leader without a key to sign with.
fn forwarder(secrets: Option<watch::Receiver<Arc<Secrets>>>) -> Forwarder {
    Forwarder::new(secrets, watch::channel(None).1)
}

/// Answers every caller.
fn open_to_all() -> Callers {
    Callers {
        sources: [Source::Any].into(),
        token: None,
        cluster: Cluster::new(),
        api_servers: watch::channel(None).1,
        key: watch::channel(None).1,
        metrics: Metrics::default(),
        logged: Arc::default(),
    }
}

fn setup_with(clerk: Clerk, standing: Standing, forwarder: Forwarder) -> Setup {
    setup_for(open_to_all(), clerk, standing, forwarder)
}

fn setup_for(callers: Callers, clerk: Clerk, standing: Standing, forwarder: Forwarder) -> Setup {
    let standing = watch::Sender::new(standing);
    let warmth = watch::Sender::new(WARM);
    let entry = Entry::default();
    Setup {
        router: router(Reception {
            answers: clerk.clone(),
            callers,
            standing: standing.subscribe(),
            warmth: warmth.subscribe(),
            forwarder,
            entry: entry.clone(),
        }),
        clerk,
        standing,
        warmth,
        entry,
    }
}

fn follower_of(extender: Option<&str>) -> Standing {
    Standing::Following {
        holder: Some("other".into()),
        extender: extender.map(str::to_owned),
        api: None,
    }
}

fn post_of(path: &str, body: impl Into<Body>) -> Request {
    let request = Request::post(path).header("content-type", "application/json");
    request.body(body.into()).unwrap()
}

async fn text(router: &Router, request: Request) -> (u16, String) {
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// The answer to a body that can be read.
async fn ask(router: &Router, path: &str, body: &Value) -> Value {
    let (status, answer) = text(router, post_of(path, body.to_string())).await;
    assert_eq!(status, 200, "{answer}");
    serde_json::from_str(&answer).unwrap()
}

fn names() -> Value {
    json!({
        "Pod": { "metadata": { "namespace": "t", "name": "p", "uid": "u" } },
        "Nodes": null,
        "NodeNames": ["best", "full"],
    })
}

fn objects() -> Value {
    json!({
        "pod": { "metadata": { "namespace": "t", "name": "p", "uid": "u" } },
        "nodes": { "items": [
            { "metadata": { "name": "best" }, "unknown": 1 },
            { "metadata": { "name": "full" } },
        ] },
    })
}

fn binding(node: &str) -> Value {
    json!({ "PodName": "p", "PodNamespace": "t", "PodUID": "u", "Node": node })
}

fn victims() -> Value {
    json!({
        "Pod": { "metadata": { "namespace": "t", "name": "p", "uid": "u" } },
        "NodeNameToMetaVictims": {
            "best": { "Pods": [{ "UID": "v" }], "NumPDBViolations": 2 },
            "full": { "Pods": [{ "UID": "w" }] },
        },
    })
}

/// The answers of one that decides nothing, which all tell this reason.
async fn assert_excuses(router: &Router, reason: &str) {
    let told = |value: &Value| {
        let told = value.as_str().unwrap();
        assert!(told.starts_with(&format!("{reason}: ")), "{told}");
    };
    let answer = ask(router, "/v1/filter", &names()).await;
    assert_eq!(answer["nodes"], Value::Null);
    assert_eq!(answer["nodenames"], json!([]));
    told(&answer["error"]);
    let answer = ask(router, "/v1/filter", &objects()).await;
    assert_eq!(answer["nodes"]["items"], json!([]));
    assert_eq!(answer.get("nodenames"), None);
    told(&answer["error"]);
    assert_eq!(ask(router, "/v1/priority", &names()).await, json!([]));
    told(&ask(router, "/v1/bind", &binding("best")).await["Error"]);
    let answer = ask(router, "/v1/preempt", &victims()).await;
    assert_eq!(
        answer,
        json!({ "NodeNameToMetaVictims": {
            "best": { "Pods": [{ "UID": "v" }], "NumPDBViolations": 2 },
            "full": { "Pods": [{ "UID": "w" }], "NumPDBViolations": 0 },
        } })
    );
    for path in ["/v1/filter", "/v1/priority", "/v1/bind", "/v1/preempt"] {
        let (status, answer) = text(router, post_of(path, "{}")).await;
        assert_eq!(status, 500, "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_leader_answers_names_and_objects_in_kind() {
    let setup = setup(Clerk::new(), Standing::Leading);
    assert_eq!(
        ask(&setup.router, "/v1/filter", &names()).await,
        json!({
            "nodes": null,
            "nodenames": ["best"],
            "failedNodes": { "full": "it is full" },
        })
    );
    assert_eq!(
        ask(&setup.router, "/v1/filter", &objects()).await,
        json!({
            "nodes": { "metadata": {}, "items": [
                { "metadata": { "name": "best" }, "unknown": 1 },
            ] },
            "failedNodes": { "full": "it is full" },
        })
    );
    assert_eq!(
        ask(&setup.router, "/v1/priority", &objects()).await,
        json!([{ "host": "best", "score": 1 }, { "host": "full", "score": 0 }])
    );
    assert_eq!(
        setup.clerk.asked(),
        ["filter p", "filter p", "prioritize p"]
    );
}

#[tokio::test]
async fn a_leader_binds_and_reviews_victims() {
    let setup = setup(Clerk::new(), Standing::Leading);
    let router = &setup.router;
    let bound = ask(router, "/v1/bind", &binding("best")).await;
    assert_eq!(bound, json!({ "Error": "" }));
    let refused = ask(router, "/v1/bind", &binding("full")).await;
    assert_eq!(refused, json!({ "Error": "it is full" }));
    let lower = json!({ "podname": "p", "podnamespace": "t", "poduid": "u", "node": "n" });
    let bound = ask(router, "/v1/bind", &lower).await;
    assert_eq!(bound, json!({ "Error": "" }));
    let kept = ask(router, "/v1/preempt", &victims()).await;
    let nodes = kept["NodeNameToMetaVictims"].as_object().unwrap();
    assert_eq!(nodes.keys().collect::<Vec<_>>(), ["best"]);
    assert_eq!(
        setup.clerk.asked(),
        [
            "bind p to best",
            "bind p to full",
            "bind p to n",
            "preempt p"
        ]
    );
}

#[tokio::test]
async fn who_cannot_decide_says_so_in_the_form_of_each_answer() {
    let cold = Warmth {
        pods: false,
        ..WARM
    };
    let none = Standing::Following {
        holder: None,
        extender: None,
        api: None,
    };
    for (standing, warmth, reason) in [
        (Standing::Leading, cold, "NotReady"),
        (Standing::Unknown, WARM, "NoLeader"),
        (none, WARM, "NoLeader"),
        (follower_of(None), WARM, "LeaderUnreachable"),
        (follower_of(Some("no address")), WARM, "LeaderUnreachable"),
        // Nothing listens there.
        (
            follower_of(Some("http://127.0.0.1:1")),
            WARM,
            "LeaderUnreachable",
        ),
    ] {
        let setup = setup(Clerk::new(), standing);
        setup.warmth.send_replace(warmth);
        assert_excuses(&setup.router, reason).await;
        assert_eq!(setup.clerk.asked(), [""; 0], "{reason}");
    }
}

#[tokio::test]
async fn a_new_leader_answers_at_once() {
    let setup = setup(Clerk::new(), follower_of(None));
    assert_excuses(&setup.router, "LeaderUnreachable").await;
    setup.standing.send_replace(Standing::Leading);
    let answer = ask(&setup.router, "/v1/filter", &names()).await;
    assert_eq!(answer["nodenames"], json!(["best"]));
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_too_long_is_excused_before_the_scheduler_gives_up() {
    for path in ["/v1/filter", "/v1/priority", "/v1/bind", "/v1/preempt"] {
        let setup = setup(Clerk::with(0), Standing::Leading);
        let begin = Instant::now();
        let body = match path {
            "/v1/bind" => binding("best"),
            "/v1/preempt" => victims(),
            _ => names(),
        };
        let answer = ask(&setup.router, path, &body).await;
        assert_eq!(begin.elapsed().as_secs(), 4, "{path}");
        let error = answer.get("error").or(answer.get("Error"));
        match (path, error.and_then(Value::as_str)) {
            ("/v1/filter" | "/v1/bind", told) => {
                assert!(told.unwrap().starts_with("DeadlinePassed: "), "{told:?}");
            }
            ("/v1/priority", _) => assert_eq!(answer, json!([])),
            (_, _) => assert_eq!(
                answer["NodeNameToMetaVictims"].as_object().unwrap().len(),
                2
            ),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_bind_goes_on_when_its_time_is_up_or_its_caller_leaves() {
    let setup = setup(Clerk::with(0), Standing::Leading);
    ask(&setup.router, "/v1/bind", &binding("best")).await;

    let left = setup
        .router
        .clone()
        .oneshot(post_of("/v1/bind", binding("other").to_string()));
    let left = tokio::time::timeout(Duration::from_secs(1), left).await;
    assert!(left.is_err(), "the caller has left");
    assert_eq!(setup.clerk.asked().len(), 2);
    assert_eq!(*setup.clerk.done.borrow(), 0);

    let empty = setup.entry.empty();
    let mut empty = std::pin::pin!(empty);
    let waited = tokio::time::timeout(Duration::from_mins(1), empty.as_mut()).await;
    assert!(waited.is_err(), "a stop waits for them");
    setup.clerk.leave.add_permits(2);
    empty.await;
    assert_eq!(*setup.clerk.done.borrow(), 2);
}

#[tokio::test]
async fn a_bind_that_panics_is_an_error_for_this_call_only() {
    let setup = setup(Clerk::new(), Standing::Leading);
    let answer = ask(&setup.router, "/v1/bind", &binding("broken")).await;
    let told = answer["Error"].as_str().unwrap();
    assert!(told.starts_with("InternalError: "), "{told}");
    let bound = ask(&setup.router, "/v1/bind", &binding("best")).await;
    assert_eq!(bound, json!({ "Error": "" }));
    setup.entry.empty().await;
}
