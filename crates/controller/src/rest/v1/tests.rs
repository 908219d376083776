use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    http::{Method, Request, StatusCode, header},
};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::router;
use crate::{
    claims::scene::PODS,
    reclaim::scene::{FIPS, POOLS, Scene, fip, numbered, running},
    rest::{
        access::{Caller, Reviewer, tests::Registry},
        v1::swagger::Scheme,
    },
};

mod ips;
mod pools;

const IP: &str = "10.0.70.2";

fn routes(scene: &Scene) -> Router {
    routes_for(scene, Caller::anybody())
}

fn routes_for(scene: &Scene, caller: Caller) -> Router {
    let routes = router().with_state(scene.rest());
    routes.layer(Extension(caller))
}

/// Status and text of an answer.
async fn send(scene: &Scene, request: Request<Body>) -> (u16, String) {
    let answer = routes(scene).oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn call(scene: &Scene, method: Method, path: &str) -> (u16, String) {
    let request = Request::builder().method(method).uri(path);
    send(scene, request.body(Body::empty()).unwrap()).await
}

async fn get(scene: &Scene, path: &str) -> Value {
    let (status, text) = call(scene, Method::GET, path).await;
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

async fn post(scene: &Scene, path: &str, body: impl Into<Body>) -> (u16, String) {
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json");
    send(scene, request.body(body.into()).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn bodies_and_answers_are_json_or_nothing() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, "sts_ns_a_a-0", 2, ""));
    })
    .await;
    let release =
        json!({ "ips": [{ "ip": IP, "namespace": "ns", "appName": "a", "podName": "a-0" }] });
    let request = |kind: Option<&str>, accept: Option<&str>| {
        let mut request = Request::builder().method(Method::POST).uri("/v1/ip");
        if let Some(kind) = kind {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        if let Some(accept) = accept {
            request = request.header(header::ACCEPT, accept);
        }
        request.body(Body::from(release.to_string())).unwrap()
    };
    let json = Some("application/json");
    let table = [
        (None, None, "415: Unsupported Media Type"),
        (
            Some("application/x-www-form-urlencoded"),
            None,
            "415: Unsupported Media Type",
        ),
        (
            Some("text/json"),
            Some("text/html"),
            "415: Unsupported Media Type",
        ),
        (json, Some("text/html"), "406: Not Acceptable"),
        (
            json,
            Some("text/html, application/json;q=0"),
            "406: Not Acceptable",
        ),
    ];
    for (kind, accept, wanted) in table {
        let (status, text) = send(&scene, request(kind, accept)).await;
        assert_eq!(text, wanted, "{kind:?} {accept:?}");
        assert_eq!(status.to_string(), wanted[..3]);
    }
    assert_eq!(scene.held(IP), "sts_ns_a_a-0", "nothing was released");
    let table = [
        (json, None),
        (Some("Application/JSON; charset=utf-8"), Some("*/*")),
        (json, Some("text/html, application/json;q=0.1")),
        (json, Some("application/*")),
    ];
    for (kind, accept) in table {
        let (status, _) = send(&scene, request(kind, accept)).await;
        assert_eq!(status, 200, "{kind:?} {accept:?}");
    }
    let request = Request::get("/v1/ip").header(header::ACCEPT, "text/plain");
    let (status, _) = send(&scene, request.body(Body::empty()).unwrap()).await;
    assert_eq!(status, 406);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_method_is_told_before_anything_else() {
    let scene = Scene::start(|_| ()).await;
    let table = [
        ("PUT", "/v1/ip", "GET,HEAD,POST"),
        ("DELETE", "/v1/ip", "GET,HEAD,POST"),
        ("GET", "/v1/pool", "POST"),
        ("DELETE", "/v1/pool", "POST"),
        // It brings no JSON either.
        ("POST", "/v1/pool/p", "GET,HEAD,DELETE"),
        ("PUT", "/v1/pool/p", "GET,HEAD,DELETE"),
    ];
    for (method, path, allowed) in table {
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::empty()).unwrap();
        let answer = routes(&scene).oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 405, "{method} {path}");
        assert_eq!(answer.headers()[header::ALLOW], allowed);
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["code"], 405);
        let message = body["message"].as_str().unwrap();
        assert!(message.starts_with("method not allowed: "), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slash_at_the_end_of_a_path_does_not_matter() {
    let scene = Scene::start(|_| ()).await;
    assert_eq!(get(&scene, "/v1/ip/?size=1").await["size"], 1);
    let (status, text) = post(&scene, "/v1/pool/", r#"{"name":"p","size":1}"#).await;
    assert_eq!(status, 200, "{text}");
    assert_eq!(get(&scene, "/v1/pool/p/").await["pool"]["size"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_whom_nobody_has_looked_at_gets_nothing() {
    let scene = Scene::start(|_| ()).await;
    let routes = router().with_state(scene.rest());
    for path in ["/v1/ip", "/v1/pool/p"] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = routes.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test(start_paused = true)]
async fn the_api_describes_itself() {
    let scene = Scene::start(|_| ()).await;
    let listing = get(&scene, "/apidocs.json").await;
    assert_eq!(listing["apis"][0]["path"], "/v1");
    let request = |host: &str| {
        let request = Request::get("/apidocs.json/v1").header(header::HOST, host);
        request.body(Body::empty()).unwrap()
    };
    let (_, text) = send(&scene, request("192.168.99.100:32761")).await;
    let declared: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(declared["basePath"], "http://192.168.99.100:32761");
    let mut by_tls = request("floe");
    by_tls.extensions_mut().insert(Scheme("https"));
    let (_, text) = send(&scene, by_tls).await;
    let declared: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(declared["basePath"], "https://floe");
}
