use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use serde_json::Value;
use tower::ServiceExt as _;

use super::*;
use crate::reclaim::scene::Scene;

#[tokio::test(start_paused = true)]
async fn the_root_leads_browsers_to_the_page_and_tells_tools_what_there_is() {
    let scene = Scene::start(|_| ()).await;
    let routes = crate::rest::router(scene.rest());
    let ask = async |path: &str, accept: &str| {
        let request = Request::get(path).header(header::ACCEPT, accept);
        let request = request.body(Body::empty()).unwrap();
        routes.clone().oneshot(request).await.unwrap()
    };
    let browser = "text/html,application/xhtml+xml,*/*;q=0.8";
    let answer = ask("/", browser).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    assert_eq!(answer.headers()[header::LOCATION], "/docs");
    let answer = ask("/", "*/*").await;
    assert_eq!(answer.status(), StatusCode::OK);
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let index: Value = serde_json::from_slice(&body).unwrap();
    let paths = index["paths"].as_object().unwrap();
    assert!(paths.len() > 4, "{index}");
    // Metrics are put beside these routes, and galaxy's and floe's own need a caller.
    for path in paths.keys().filter(|path| *path != "/metrics") {
        let found = ask(path, "*/*").await.status();
        let expected = if path.starts_with("/v") {
            StatusCode::UNAUTHORIZED
        } else {
            StatusCode::OK
        };
        assert_eq!(found, expected, "{path}");
    }
}
