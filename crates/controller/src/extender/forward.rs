//! A follower's way to the leader.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes, to_bytes},
    http::{Request, StatusCode, header, uri::InvalidUri},
    response::{IntoResponse as _, Response},
};
use hyper_util::client::legacy;
use jiff::Timestamp;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use super::{
    call::{self, Call},
    proof,
};
use crate::{
    shared_key::Shared,
    transport::{FORWARDED, peer::Peers, tls::Secrets},
};

/// What a follower adds to the time that the leader has, so that the answer of
/// a slow leader still comes through.
const DETOUR: Duration = Duration::from_millis(500);

/// How long a connection is kept for the next call. It is shorter than what the
/// server keeps, which would otherwise close one under a call.
const KEEP: Duration = Duration::from_mins(1);

/// The longest answer: the nodes of a request, and some more.
const LARGEST: usize = 512 * 1024 * 1024;

/// Forwards calls to the leader.
#[derive(Clone)]
pub struct Forwarder {
    peers: Arc<Peers>,
    /// By which the leader knows that another replica has accepted a call.
    key: watch::Receiver<Shared>,
}

/// Why the leader gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// What it tells about itself is no address.
    #[error("that is no address")]
    Address(#[from] InvalidUri),
    /// No connection, or it has ended.
    #[error("the request has failed")]
    Request(#[from] legacy::Error),
    /// The answer has no end.
    #[error("cannot read the answer")]
    Read(#[source] axum::Error),
    /// It takes too long.
    #[error("no answer in time")]
    Late,
    /// It answers what no extender answers.
    #[error("unexpected status {0}")]
    Status(StatusCode),
}

impl Forwarder {
    /// Forwards over TLS if there are secrets, else without. Calls are signed with the key as
    /// soon as it is known; without it the leader judges a call by the address of this replica.
    pub fn new(
        secrets: Option<watch::Receiver<Arc<Secrets>>>,
        key: watch::Receiver<Shared>,
    ) -> Self {
        let peers = Arc::new(Peers::new(secrets, KEEP));
        Self { peers, key }
    }

    /// Has the leader answer a call that came at `begin`.
    pub async fn send(
        &self,
        call: Call,
        leader: &str,
        body: Bytes,
        begin: Instant,
    ) -> Result<Response, ForwardError> {
        let deadline = begin + call::LIMIT + DETOUR;
        let sent = timeout_at(deadline, self.ask(call, leader, body)).await;
        let result = sent.unwrap_or(Err(ForwardError::Late));
        self.peers.note(leader, &result);
        result
    }

    async fn ask(&self, call: Call, leader: &str, body: Bytes) -> Result<Response, ForwardError> {
        let uri: axum::http::Uri = format!("{leader}{}", call.path()).parse()?;
        let key = self.key.borrow().clone();
        let proof = key.map(|key| proof::sign(&key.0, call, &body, Timestamp::now()));
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = axum::http::Method::POST;
        *request.uri_mut() = uri;
        let json = header::HeaderValue::from_static("application/json");
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, json);
        headers.insert(FORWARDED, header::HeaderValue::from_static("true"));
        if let Some(proof) = proof {
            headers.insert(proof::HEADER, proof);
        }

        let answer = self.peers.client().request(request).await?;
        // A body that cannot be read is as bad for the leader as for us.
        let status = answer.status();
        let is_passed_on = [
            StatusCode::OK,
            StatusCode::INTERNAL_SERVER_ERROR,
            StatusCode::FORBIDDEN,
        ];
        if !is_passed_on.contains(&status) {
            return Err(ForwardError::Status(status));
        }
        let kind = answer.headers().get(header::CONTENT_TYPE).cloned();
        let body = Body::new(answer.into_body());
        let body = to_bytes(body, LARGEST).await.map_err(ForwardError::Read)?;
        let mut answer = (status, body).into_response();
        if let Some(kind) = kind {
            answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        }
        Ok(answer)
    }
}
