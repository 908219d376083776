//! A read-only image registry for the nodes, in place of every registry there is.
//!
//! It speaks the pull half of the OCI distribution protocol and knows images by
//! repository only: any host and any tag of a repository that was made here is
//! the image that was made here. A repository nobody made is refused by name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path as UrlPath, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use crate::image::MANIFEST_TYPE;

/// The registry over a directory that [`crate::image::Image::store`] fills.
pub fn router(directory: PathBuf) -> Router {
    Router::new()
        .route("/v2/", get(async || StatusCode::OK))
        .route("/v2/{*path}", get(pull))
        .with_state(Arc::from(directory))
}

async fn pull(State(directory): State<Arc<Path>>, UrlPath(path): UrlPath<String>) -> Response {
    let parts: Vec<&str> = path.split('/').collect();
    let [repository @ .., kind, reference] = parts.as_slice() else {
        return refuse("NAME_INVALID", &path);
    };
    let Some(repository) = repository_file(repository) else {
        return refuse("NAME_INVALID", &path);
    };
    match *kind {
        "manifests" => {
            let digest = if reference.starts_with("sha256:") {
                (*reference).to_owned()
            } else {
                match tokio::fs::read_to_string(directory.join("repositories").join(&repository))
                    .await
                {
                    Ok(digest) => digest,
                    Err(_) => return refuse("NAME_UNKNOWN", &repository.replace('%', "/")),
                }
            };
            blob(&directory, &digest, MANIFEST_TYPE).await
        }
        "blobs" => blob(&directory, reference, "application/octet-stream").await,
        _ => refuse("UNSUPPORTED", &path),
    }
}

/// The file that names a repository's manifest. Docker Hub's own images have an
/// implied folder, which nobody writes in a manifest.
fn repository_file(parts: &[&str]) -> Option<String> {
    let parts = parts.strip_prefix(&["library"]).unwrap_or(parts);
    let ordinary = |part: &&str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    (!parts.is_empty() && parts.iter().all(ordinary)).then(|| parts.join("%"))
}

async fn blob(directory: &Path, digest: &str, media_type: &'static str) -> Response {
    let hex = digest.strip_prefix("sha256:").unwrap_or_default();
    if hex.len() != 64 || !hex.chars().all(|c| c.is_ascii_hexdigit()) {
        return refuse("DIGEST_INVALID", digest);
    }
    match tokio::fs::read(directory.join("blobs").join(hex)).await {
        Ok(bytes) => {
            let mut response = Response::new(Body::from(bytes));
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
            if let Ok(value) = HeaderValue::from_str(digest) {
                response
                    .headers_mut()
                    .insert("docker-content-digest", value);
            }
            response
        }
        Err(_) => refuse("BLOB_UNKNOWN", digest),
    }
}

fn refuse(code: &str, what: &str) -> Response {
    let message = format!("{what}: the testbed made no such image; nothing is pulled from outside");
    let body = json!({ "errors": [{ "code": code, "message": message }] }).to_string();
    (
        StatusCode::NOT_FOUND,
        [(header::CONTENT_TYPE, "application/json")],
        body,
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use tower::ServiceExt;

    use super::*;
    use crate::image::Image;

    async fn get_status(registry: &Path, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router(registry.to_owned()).oneshot(request).await.unwrap();
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20)
            .await
            .unwrap();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn any_tag_of_a_known_repository_is_served_and_its_blobs_too() {
        let registry = tempfile::tempdir().unwrap();
        Image::empty().store(registry.path(), &["nginx"]).unwrap();
        for path in [
            "/v2/nginx/manifests/1.7.9",
            "/v2/library/nginx/manifests/latest?ns=docker.io",
        ] {
            let (status, body) = get_status(registry.path(), path).await;
            assert_eq!(status, StatusCode::OK, "{path}");
            let manifest: serde_json::Value = serde_json::from_str(&body).unwrap();
            let config = manifest["config"]["digest"].as_str().unwrap();
            let (status, _) =
                get_status(registry.path(), &format!("/v2/nginx/blobs/{config}")).await;
            assert_eq!(status, StatusCode::OK);
        }
    }

    #[tokio::test]
    async fn an_image_nobody_made_is_refused_by_name() {
        let registry = tempfile::tempdir().unwrap();
        let (status, body) = get_status(registry.path(), "/v2/team/typo/manifests/1").await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert!(
            body.contains("NAME_UNKNOWN") && body.contains("team/typo"),
            "{body}"
        );
    }

    #[tokio::test]
    async fn paths_that_leave_the_directory_are_refused() {
        let registry = tempfile::tempdir().unwrap();
        for path in [
            "/v2/../x/manifests/1",
            "/v2/a%2f..%2fb/manifests/1",
            "/v2/a/blobs/sha256:..",
            "/v2/x",
        ] {
            let (status, _) = get_status(registry.path(), path).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        }
    }
}
