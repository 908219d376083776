//! Bodies are taken within limits of size, time and number.
//!
//! An object has up to 3 MiB, and comes twice when it is changed.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::Request,
    http::{HeaderMap, StatusCode, header},
};
use futures::StreamExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

use super::review::ReadError;

/// The largest body.
pub const LARGEST: usize = 8 * 1024 * 1024;

/// How long a body may take to come.
pub const BODY: Duration = Duration::from_secs(5);

/// How much of bodies is in memory at once, in kibibytes.
const ROOM: usize = 32 * 1024;

/// How many reviews are answered at once.
const CALLS: usize = 64;

/// How long a review waits for others. The API server itself waits for few seconds.
const QUEUE: Duration = Duration::from_secs(1);

/// Why a review is not answered.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It is something else than JSON.
    #[error("a review has the content type application/json")]
    ContentType,
    /// The body is too long.
    #[error("the body is longer than {LARGEST} bytes")]
    TooLarge,
    /// The body does not come.
    #[error("the body did not come within {BODY:?}")]
    Slow,
    /// The body has ended too early.
    #[error("the body cannot be read: {0}")]
    Broken(axum::Error),
    /// Others are being answered.
    #[error("too many reviews at once")]
    Overloaded,
    /// It is no review.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

impl Refusal {
    /// The stable reason for answers and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::ContentType => "ContentTypeNotJson",
            Self::TooLarge => "BodyTooLarge",
            Self::Slow => "BodyTooSlow",
            Self::Broken(_) => "BodyBroken",
            Self::Overloaded => "Overloaded",
            Self::Unreadable(error) => error.reason(),
        }
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken(_) | Self::Unreadable(_) => StatusCode::BAD_REQUEST,
            Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Where reviews come in.
#[derive(Clone)]
pub struct Intake {
    calls: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

/// A body, and the place that it takes until this is dropped.
pub struct Body {
    bytes: Vec<u8>,
    _places: (Option<OwnedSemaphorePermit>, OwnedSemaphorePermit),
}

impl Body {
    /// What came.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            calls: Arc::new(Semaphore::new(CALLS)),
            room: Arc::new(Semaphore::new(ROOM)),
        }
    }
}

impl Intake {
    /// Takes the body of a review.
    pub async fn take(&self, request: Request) -> Result<Body, Refusal> {
        if !is_json(request.headers()) {
            return Err(Refusal::ContentType);
        }
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > LARGEST as u64) {
            return Err(Refusal::TooLarge);
        }
        let call = timeout(QUEUE, Arc::clone(&self.calls).acquire_owned()).await;
        // It is never closed, so that an error is only the time.
        let call = call.ok().and_then(Result::ok).ok_or(Refusal::Overloaded)?;
        let deadline = Instant::now() + BODY;
        let mut chunks = request.into_body().into_data_stream();
        let (mut bytes, mut held) = (Vec::new(), None::<OwnedSemaphorePermit>);
        loop {
            let chunk = timeout_at(deadline, chunks.next()).await;
            let Some(chunk) = chunk.map_err(|_| Refusal::Slow)? else {
                break;
            };
            let chunk = chunk.map_err(Refusal::Broken)?;
            if bytes.len() + chunk.len() > LARGEST {
                return Err(Refusal::TooLarge);
            }
            bytes.extend_from_slice(&chunk);
            self.hold(&mut held, bytes.len().div_ceil(1024))?;
        }
        Ok(Body {
            bytes,
            _places: (held, call),
        })
    }

    /// Takes room for so many kibibytes in all; a client that sends nothing takes none.
    fn hold(&self, held: &mut Option<OwnedSemaphorePermit>, wanted: usize) -> Result<(), Refusal> {
        let has = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = u32::try_from(wanted.saturating_sub(has)).map_err(|_| Refusal::TooLarge)?;
        let room = Arc::clone(&self.room).try_acquire_many_owned(more);
        let room = room.map_err(|_| Refusal::Overloaded)?;
        match held {
            Some(held) => held.merge(room),
            None => *held = Some(room),
        }
        Ok(())
    }
}

/// Whether the body is said to be JSON, perhaps with parameters behind.
fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = value.split(';').next().unwrap_or("").trim();
    kind.eq_ignore_ascii_case("application/json")
}
