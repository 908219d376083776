//! A follower's way to the leader: whole calls there, and answers back as they come.

use std::{io, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, Request, header, request::Parts,
        uri::InvalidUri,
    },
    response::Response,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use hyper_util::client::legacy;
use tokio::time::timeout;

use super::ANSWER;
use crate::transport::{FORWARDED, peer::Peers};

/// What a follower adds to the time that the leader has.
const DETOUR: Duration = Duration::from_secs(2);

/// How long a change may take before its caller is told that it takes too long. It goes
/// on at the leader.
const CHANGE: Duration = Duration::from_mins(5);

/// How long the rest of an answer may stay away. Streams of changes say something more
/// often than that, so a leader that is silent for longer is gone.
const SILENCE: Duration = Duration::from_secs(45);

/// What is about one connection only, RFC 9110 section 7.6.1, and what the client
/// and the server of each connection say themselves.
const OF_ONE_CONNECTION: [HeaderName; 10] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
    header::HOST,
    HeaderName::from_static("keep-alive"),
];

/// Forwards calls to the leader.
#[derive(Clone)]
pub struct Forwarder(Arc<Peers>);

/// Why the leader gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// What it tells about itself is no address.
    #[error("that is no address")]
    Address(#[from] InvalidUri),
    /// No connection, or it has ended.
    #[error("the request has failed")]
    Request(#[from] legacy::Error),
    /// It takes too long.
    #[error("no answer in time")]
    Late,
}

impl Forwarder {
    /// Goes this way.
    pub fn new(peers: Peers) -> Self {
        Self(Arc::new(peers))
    }

    /// Has the leader answer a call. The body of the answer comes as it is sent.
    pub async fn send(
        &self,
        leader: &str,
        parts: Parts,
        body: Bytes,
    ) -> Result<Response, ForwardError> {
        let reads = parts.method == Method::GET || parts.method == Method::HEAD;
        let limit = if reads { ANSWER + DETOUR } else { CHANGE };
        let sent = timeout(limit, self.ask(leader, parts, body)).await;
        let result = sent.unwrap_or(Err(ForwardError::Late));
        self.0.note(leader, &result);
        result
    }

    async fn ask(&self, leader: &str, parts: Parts, body: Bytes) -> Result<Response, ForwardError> {
        let target = parts
            .uri
            .path_and_query()
            .map_or("/", |target| target.as_str());
        let mut request = Request::new(Body::from(body));
        *request.uri_mut() = format!("{leader}{target}").parse()?;
        *request.method_mut() = parts.method;
        let mut headers = parts.headers;
        strip(&mut headers);
        // That of the body as it is sent now.
        headers.remove(header::CONTENT_LENGTH);
        if !self.0.is_private() {
            // A token must not be read by others on the way.
            headers.remove(header::AUTHORIZATION);
        }
        headers.insert(FORWARDED, HeaderValue::from_static("true"));
        *request.headers_mut() = headers;
        let mut answer = self.0.client().request(request).await?;
        strip(answer.headers_mut());
        Ok(answer.map(|body| heard(Body::new(body))))
    }
}

/// A body that breaks off when nothing comes any more: the host of the leader may be
/// gone without a word, and the caller would wait for ever.
fn heard(body: Body) -> Body {
    let chunks = body.into_data_stream().map_err(io::Error::other);
    let chunks = stream::try_unfold(chunks, async |mut chunks| {
        match timeout(SILENCE, chunks.next()).await {
            Ok(chunk) => Ok(chunk.transpose()?.map(|chunk| (chunk, chunks))),
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
        }
    });
    Body::from_stream(chunks)
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in OF_ONE_CONNECTION.iter().chain(&named) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_breaks_off_when_the_leader_falls_silent() {
        let some = stream::iter([Ok::<_, io::Error>("a"), Ok("b")]);
        let mut chunks = heard(Body::from_stream(some.chain(stream::pending()))).into_data_stream();
        assert_eq!(chunks.next().await.unwrap().unwrap(), "a");
        assert_eq!(chunks.next().await.unwrap().unwrap(), "b");
        let begin = Instant::now();
        assert!(chunks.next().await.unwrap().is_err());
        assert_eq!(begin.elapsed(), SILENCE);
        assert!(chunks.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_ends_or_breaks_is_passed_on_as_it_is() {
        let whole = stream::iter([Ok::<_, io::Error>("a")]);
        let mut chunks = heard(Body::from_stream(whole)).into_data_stream();
        assert_eq!(chunks.next().await.unwrap().unwrap(), "a");
        assert!(chunks.next().await.is_none());
        let broken = stream::iter([Err::<&str, _>(io::Error::other("gone"))]);
        let mut chunks = heard(Body::from_stream(broken)).into_data_stream();
        assert!(chunks.next().await.unwrap().is_err());
    }
}
