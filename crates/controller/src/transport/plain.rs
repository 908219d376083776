//! Plain HTTP on a port that speaks TLS: it is answered with the URL to use instead.

use std::io;

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, header},
    response::IntoResponse,
};
use tokio::net::TcpStream;

/// Waits for the first byte of a client, and whether plain HTTP begins with it: a method
/// begins with a letter, and TLS with a number that is none.
pub async fn is_spoken(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let count = stream.peek(&mut first).await?;
    Ok(count > 0 && first[0].is_ascii_alphabetic())
}

/// The routes of such a connection.
pub fn router() -> Router {
    Router::new().fallback(refuse)
}

async fn refuse(request: Request) -> impl IntoResponse {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|it| it.to_str().ok());
    let host = host.or_else(|| request.uri().host()).unwrap_or("HOST");
    let path = request.uri().path_and_query().map_or("/", |it| it.as_str());
    let text = format!("HttpsRequired: this port speaks TLS only. Use https://{host}{path}\n");
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONNECTION, "close"),
    ];
    (StatusCode::BAD_REQUEST, headers, text)
}
