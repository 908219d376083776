use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use serde_json::Value;
use tokio::time::advance;
use tower::ServiceExt as _;

use super::*;

/// Everything that readiness looks at, and the router over it.
struct Setup {
    apiserver: Contact,
    lease: Contact,
    standing: watch::Sender<Standing>,
    warmth: watch::Sender<Warmth>,
    router: Router,
}

fn setup() -> Setup {
    let (apiserver, lease) = (Contact::new(), Contact::new());
    let (standing, receiver) = watch::channel(Standing::Unknown);
    let (warmth, lists) = watch::channel(WARM);
    let router = router(Probes {
        apiserver: apiserver.clone(),
        lease: Some(lease.clone()),
        standing: receiver,
        warmth: lists,
        configuration: configuration(),
        installation: Installation::default(),
        limit: Duration::from_secs(10),
    });
    Setup {
        apiserver,
        lease,
        standing,
        warmth,
        router,
    }
}

const WARM: Warmth = Warmth {
    records: true,
    pools: true,
    configuration: true,
    pods: true,
    nodes: true,
    workloads: true,
};

fn configuration() -> watch::Receiver<addresses::State> {
    let state = addresses::State {
        reason: "ConfigMapMissing",
        message: "there is no such ConfigMap".into(),
    };
    watch::channel(state).1
}

async fn get(router: &Router, path: &str) -> (u16, Value) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 10_000).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

/// Status, and the reasons of both checks.
async fn readyz(router: &Router) -> (u16, String, String) {
    let (status, body) = get(router, "/readyz").await;
    assert_eq!(body["ready"], status == 200);
    assert_eq!(body["checks"][0]["name"], "apiserver");
    assert_eq!(body["checks"][1]["name"], "lease");
    let reason = |index: usize| body["checks"][index]["reason"].as_str().unwrap().to_owned();
    (status, reason(0), reason(1))
}

fn answer(status: u16, apiserver: &str, lease: &str) -> (u16, String, String) {
    (status, apiserver.into(), lease.into())
}

#[tokio::test]
async fn a_process_that_answers_is_alive_even_without_an_api_server() {
    let (status, body) = get(&setup().router, "/healthz").await;
    assert_eq!((status, body), (200, json!({ "alive": true })));
}

#[tokio::test]
async fn the_version_is_served() {
    let (status, body) = get(&setup().router, "/version").await;
    assert_eq!(status, 200);
    assert_eq!(body["version"], env!("CARGO_PKG_VERSION"));
    assert!(body.get("commit").is_some(), "null when unknown, but there");
}

#[tokio::test]
async fn other_paths_are_not_found() {
    assert_eq!(get(&setup().router, "/").await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn readiness_needs_both_the_api_server_and_the_lease() {
    let setup = setup();
    let router = &setup.router;
    let none = answer(503, "ApiServerUnreachable", "LeaseUnknown");
    assert_eq!(readyz(router).await, none);
    setup.apiserver.mark();
    let half = answer(503, "ApiServerReached", "LeaseUnknown");
    assert_eq!(readyz(router).await, half);
    setup.lease.mark();
    let ready = answer(200, "ApiServerReached", "LeaseKnown");
    assert_eq!(readyz(router).await, ready);
}

#[tokio::test(start_paused = true)]
async fn readiness_ends_after_the_renew_deadline_and_comes_back() {
    let setup = setup();
    let router = &setup.router;
    let ready = answer(200, "ApiServerReached", "LeaseKnown");
    setup.apiserver.mark();
    setup.lease.mark();
    advance(Duration::from_secs(10)).await;
    assert_eq!(readyz(router).await, ready);
    advance(Duration::from_millis(1)).await;
    let lost = answer(503, "ApiServerUnreachable", "LeaseUnknown");
    assert_eq!(readyz(router).await, lost);
    setup.apiserver.mark();
    setup.lease.mark();
    assert_eq!(readyz(router).await, ready);
}

#[tokio::test]
async fn readiness_tells_the_standing_and_followers_are_ready() {
    let setup = setup();
    setup.apiserver.mark();
    setup.lease.mark();
    let holder = Some("other".to_owned());
    let cases = [
        (Standing::Leading, "Leading", Value::Null),
        (
            Standing::Following {
                holder,
                extender: Some("http://10.0.0.1:9040".into()),
                api: None,
            },
            "Following",
            json!("other"),
        ),
        (
            Standing::Following {
                holder: None,
                extender: None,
                api: None,
            },
            "Following",
            Value::Null,
        ),
    ];
    for (standing, name, holder) in cases {
        setup.standing.send_replace(standing);
        let (status, body) = get(&setup.router, "/readyz").await;
        assert_eq!(status, 200, "{name}");
        assert_eq!(body["standing"], name);
        assert_eq!(body["holder"], holder, "{name}");
        let extender = holder.as_str().map(|_| "http://10.0.0.1:9040");
        assert_eq!(body["extender"].as_str(), extender, "{name}");
    }
}

#[tokio::test]
async fn without_an_election_the_lease_is_no_condition() {
    let apiserver = Contact::new();
    apiserver.mark();
    let router = router(Probes {
        apiserver,
        lease: None,
        standing: watch::channel(Standing::Leading).1,
        warmth: watch::channel(WARM).1,
        configuration: configuration(),
        installation: Installation::default(),
        limit: Duration::from_secs(10),
    });
    let ready = answer(200, "ApiServerReached", "LeaderElectionDisabled");
    assert_eq!(readyz(&router).await, ready);
}

#[tokio::test]
async fn readiness_needs_all_first_lists_but_no_configuration() {
    let setup = setup();
    setup.apiserver.mark();
    setup.lease.mark();
    setup.warmth.send_replace(Warmth {
        records: false,
        pools: false,
        ..WARM
    });
    let (status, body) = get(&setup.router, "/readyz").await;
    assert_eq!(status, 503);
    let check = &body["checks"][2];
    assert_eq!(
        (&check["name"], &check["ok"]),
        (&json!("store"), &json!(false))
    );
    assert_eq!(check["reason"], "StoreCold");
    assert_eq!(
        check["message"],
        "not listed yet: FloatingIP records, Pools"
    );

    setup.warmth.send_replace(WARM);
    let (status, body) = get(&setup.router, "/readyz").await;
    assert_eq!(
        (status, &body["checks"][2]["reason"]),
        (200, &json!("StoreWarm"))
    );
    assert_eq!(body["configuration"]["reason"], "ConfigMapMissing");
}
