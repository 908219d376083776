//! How much is taken at once: bodies are read into memory here, within limits.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes, HttpBody as _},
    extract::Request,
    http::{StatusCode, header},
};
use futures::StreamExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

/// The largest body. A scheduler that sends whole node objects sends some 20 kB
/// for each of its nodes.
const LARGEST: usize = 256 * MIB;

/// How much is in memory at once; each call counts for a MiB at least, so this
/// is also the number of calls at once.
const ROOM: u32 = 512;

const MIB: usize = 1024 * 1024;

/// Where calls come in.
#[derive(Clone)]
pub struct Entry(Arc<Semaphore>);

/// Why a call is not taken. Its body was not read, so that it cannot be answered
/// in the scheduler's own form.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Others are being answered.
    #[error("too many calls at once")]
    Overloaded,
    /// The body is too long.
    #[error("the body is longer than {LARGEST} bytes")]
    TooLarge,
    /// The body does not come.
    #[error("the body did not come in time")]
    Slow,
    /// The body has ended too early.
    #[error("the body cannot be read: {0}")]
    Broken(axum::Error),
}

impl Refused {
    /// The stable reason for answers and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Overloaded => "Overloaded",
            Self::TooLarge => "BodyTooLarge",
            Self::Slow => "BodyTooSlow",
            Self::Broken(_) => "BodyBroken",
        }
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// The text of the answer.
    pub fn told(&self) -> String {
        format!("{}: {self}", self.reason())
    }
}

impl Default for Entry {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM as usize)))
    }
}

impl Entry {
    /// Reads a body when there is room for it. The room is taken until the
    /// permit is dropped.
    pub async fn admit(
        &self,
        request: Request,
        deadline: Instant,
    ) -> Result<(Bytes, OwnedSemaphorePermit), Refused> {
        let length = request
            .headers()
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let length = length.or_else(|| request.body().size_hint().upper());
        // One that does not tell its length may have any.
        let length = length.map_or(Ok(LARGEST), usize::try_from);
        let length = length.map_err(|_| Refused::TooLarge)?;
        if length > LARGEST {
            return Err(Refused::TooLarge);
        }
        let weight = u32::try_from(length.div_ceil(MIB).max(1)).unwrap_or(ROOM);
        let room = Arc::clone(&self.0).acquire_many_owned(weight);
        // It is never closed, so that an error is only the time.
        let Ok(Ok(permit)) = timeout_at(deadline, room).await else {
            return Err(Refused::Overloaded);
        };
        let body = timeout_at(deadline, read(request.into_body(), length)).await;
        Ok((body.map_err(|_| Refused::Slow)??, permit))
    }

    /// Waits until all calls are answered and all binds are done.
    pub async fn empty(&self) {
        // It is never closed, so that this cannot fail.
        let _ = self.0.acquire_many(ROOM).await;
    }
}

async fn read(body: Body, length: usize) -> Result<Bytes, Refused> {
    let mut chunks = body.into_data_stream();
    // Memory that is not written to costs nothing yet.
    let mut whole = Vec::with_capacity(length);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(Refused::Broken)?;
        if whole.len() + chunk.len() > LARGEST {
            return Err(Refused::TooLarge);
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.into())
}
