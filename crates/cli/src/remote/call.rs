//! One call over a connection.

use std::{
    error::Error,
    future::poll_fn,
    pin::{Pin, pin},
    time::Duration,
};

use futures::future::{BoxFuture, Either, select};
use http::{
    HeaderValue, Method, Request, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST},
};
use hyper::{
    body::{Body as _, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio::time::timeout;

use super::Stream;
use crate::failure::Failure;

/// The longest answer that is read.
const LONGEST: usize = 16 << 20;

/// How long to wait for a word about a connection that has broken.
const LAST_WORD: Duration = Duration::from_millis(500);

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    /// How it went.
    pub status: StatusCode,
    /// The rest.
    pub body: Vec<u8>,
}

/// The call as HTTP has it.
pub fn request(
    method: &Method,
    path: &str,
    host: &str,
    authorization: Option<&HeaderValue>,
    body: &[u8],
) -> http::Result<Request<Body>> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, host)
        .header(ACCEPT, "application/json");
    if let Some(authorization) = authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    if body.is_empty() {
        return request.body(Body::empty());
    }
    let request = request.header(CONTENT_TYPE, "application/json");
    request.body(Body::from(body.to_vec()))
}

/// Sends a call and waits for the answer.
pub async fn send(
    stream: impl Stream + 'static,
    request: http::Result<Request<Body>>,
    trouble: BoxFuture<'static, Option<String>>,
) -> Result<Answer, Failure> {
    let request = request.map_err(|error| Failure::Usage(error.to_string()))?;
    match converse(stream, request).await {
        Ok(answer) => Ok(answer),
        Err(error) => Err(broken(error.as_ref(), trouble).await),
    }
}

/// What it means that a connection broke: the other end may have said why.
pub async fn broken(
    error: &(dyn Error + Send + Sync),
    trouble: BoxFuture<'static, Option<String>>,
) -> Failure {
    let word = timeout(LAST_WORD, trouble).await.ok().flatten();
    let told = word.unwrap_or_else(|| {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    });
    Failure::ApiUnreachable(told.trim().to_owned())
}

async fn converse(
    stream: impl Stream + 'static,
    request: Request<Body>,
) -> Result<Answer, Box<dyn Error + Send + Sync>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = pin!(async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = collect(response.into_body()).await?;
        Ok::<_, Box<dyn Error + Send + Sync>>(Answer { status, body })
    });
    // The connection moves the bytes of the exchange, and may end before it.
    match select(exchange, pin!(connection)).await {
        Either::Left((answer, _)) => answer,
        Either::Right((ended, exchange)) => {
            ended?;
            exchange.await
        }
    }
}

pub async fn collect(mut body: Incoming) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > LONGEST {
            return Err("the answer is too long".into());
        }
    }
    Ok(bytes)
}
