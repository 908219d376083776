use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, StatusCode, header},
    response::Response,
};
use floe_shell::mock::Server;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::{
    claims::scene::PODS,
    reclaim::scene::{FIPS, POOLS, STATEFUL_SETS, Scene, fip, numbered, stateful_set},
    rest::access::{Caller, Reviewer, tests::Registry},
};

mod changes;
mod explain;
mod lists;
mod pools;
mod vips;
mod watch;

/// The API with a caller.
#[derive(Clone)]
struct Api {
    router: Router,
    caller: Caller,
}

/// An answer: the status, and the body as JSON.
type Told = (u16, Value);

impl Api {
    fn of(scene: &Scene) -> Self {
        Self {
            router: router().with_state(scene.rest()),
            caller: Caller::anybody(),
        }
    }

    /// With a caller who has these rights only.
    async fn allowing(scene: &Scene, allowed: &[&str]) -> Self {
        let reviewer = Reviewer::new(Registry::allowing(allowed).client());
        Self {
            caller: Caller::with_token("ada-token", reviewer).await.unwrap(),
            ..Self::of(scene)
        }
    }

    async fn call(&self, mut request: Request<Body>) -> Response {
        request.extensions_mut().insert(self.caller.clone());
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn get(&self, path: &str) -> Told {
        told(
            self.call(Request::get(path).body(Body::empty()).unwrap())
                .await,
        )
        .await
    }

    async fn delete(&self, path: &str) -> Told {
        told(
            self.call(Request::delete(path).body(Body::empty()).unwrap())
                .await,
        )
        .await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Told {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json; charset=utf-8")
            .body(Body::from(body.to_string()));
        told(self.call(request.unwrap()).await).await
    }

    async fn post(&self, path: &str, body: Value) -> Told {
        self.send(Method::POST, path, &body).await
    }
}

async fn told(response: Response) -> Told {
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    if body.is_empty() {
        return (status, Value::Null);
    }
    (status, serde_json::from_slice(&body).unwrap())
}

/// Status, reason and field of a refusal.
fn refusal((status, body): &Told) -> (u16, &str, &str) {
    assert_eq!(body["status"], *status, "{body}");
    assert!(!body["message"].as_str().unwrap().is_empty());
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    (*status, text("reason"), text("field"))
}

/// One address of each sort.
async fn world() -> Scene {
    Scene::start(|server: &Server| {
        server.put(PODS, numbered("a-0", "u0"));
        server.put(STATEFUL_SETS, stateful_set(2));
        server.put(FIPS, fip("10.0.70.2", "sts_ns_a_a-0", 1, "u0"));
        server.put(FIPS, fip("10.0.70.3", "sts_ns_a_a-1", 1, ""));
        server.put(FIPS, fip("10.0.70.4", "pool__p_", 2, ""));
        server.put(FIPS, fip("10.0.70.5", "pool__p_dp_ns_web_web-1", 2, "u5"));
        let mut reserved = fip("10.0.70.6", "pool__reserved-for-router_", 2, "");
        reserved["metadata"]["labels"] = json!({ "reserved": "this-is-not-for-pods" });
        server.put(FIPS, reserved);
        server.put(FIPS, fip("10.0.80.2", "what", 0, ""));
        server.put(FIPS, fip("192.0.2.7", "dp_other_x_x-1", 0, "u7"));
        let pool = json!({
            "metadata": { "name": "q", "namespace": "kube-system" }, "size": 3,
        });
        server.put(POOLS, pool);
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_wrong_method_is_told_which_ones_are_right() {
    let scene = world().await;
    let api = Api::of(&scene);
    let request = Request::post("/v2/subnets").body(Body::empty()).unwrap();
    let response = api.call(request).await;
    assert_eq!(response.headers()[header::ALLOW], "GET,HEAD");
    assert_eq!(
        refusal(&told(response).await),
        (405, "MethodNotAllowed", "")
    );
    let wrong = api.get("/v2/ips/release").await;
    assert_eq!(refusal(&wrong), (405, "MethodNotAllowed", ""));
}

#[tokio::test(start_paused = true)]
async fn whoever_lacks_the_right_learns_nothing_and_changes_nothing() {
    let scene = world().await;
    let reads = Api::allowing(&scene, &["list floatingips"]).await;
    let writes = Api::allowing(&scene, &["delete floatingips", "create floatingips"]).await;
    for path in [
        "/v2/ips?page=x",
        "/v2/ips/10.0.70.2",
        "/v2/subnets",
        "/v2/holders",
        "/v2/explain?ip=10.0.70.2",
        "/v2/watch",
        "/v2/pools",
        "/v2/pools/kube-system/q",
    ] {
        let refused = writes.get(path).await;
        assert_eq!(refusal(&refused), (403, "Forbidden", ""), "{path}");
    }
    let pod = reads.get("/v2/explain?pod=ns/a-0").await;
    assert_eq!(refusal(&pod), (403, "Forbidden", ""));
    for path in ["release", "reserve", "unreserve"] {
        // Not even a body that makes no sense is looked at.
        let refused = reads.post(&format!("/v2/ips/{path}"), json!(7)).await;
        assert_eq!(refusal(&refused), (403, "Forbidden", ""), "{path}");
    }
    let settings = json!({ "size": 9 });
    for path in ["/v2/pools/kube-system/q", "/v2/pools/kube-system/new"] {
        let refused = reads.send(Method::PUT, path, &settings).await;
        assert_eq!(refusal(&refused), (403, "Forbidden", ""), "{path}");
    }
    let refused = reads.delete("/v2/pools/kube-system/q").await;
    assert_eq!(refusal(&refused), (403, "Forbidden", ""));
    assert_eq!(scene.server.objects(POOLS).len(), 1);
    assert_eq!(scene.server.object(POOLS, "q").unwrap()["size"], 3);
    assert_eq!(scene.server.objects(FIPS).len(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_has_let_in_is_refused() {
    let scene = world().await;
    let router = router().with_state(scene.rest());
    let request = Request::get("/v2/ips").body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn the_documentation_is_open_and_the_page_may_do_little() {
    let scene = world().await;
    let router = router().with_state(scene.rest());
    for (path, kind) in [
        ("/openapi.json", "application/json"),
        ("/docs", "text/html; charset=utf-8"),
        ("/docs/style.css", "text/css; charset=utf-8"),
        ("/docs/script.js", "text/javascript; charset=utf-8"),
    ] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let headers = response.headers();
        assert_eq!(headers[header::CONTENT_TYPE], kind);
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'"));
        assert!(!policy.contains("unsafe"));
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        // It works where there is no way out.
        assert!(
            !text.contains("//cdn") && !text.contains("src=\"http"),
            "{path}"
        );
    }
}
