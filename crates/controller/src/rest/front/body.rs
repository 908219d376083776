//! Bodies are read into memory here, within limits of size and time.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, header},
};
use futures::StreamExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

use super::Refusal;

/// The largest body.
pub const LARGEST: usize = 1024 * 1024;

/// How long a body may take to come.
pub const BODY: Duration = Duration::from_secs(10);

/// How much of bodies is in memory at once, in kibibytes.
const ROOM: usize = 64 * 1024;

/// How much of a body that is too long is read and thrown away. Many clients do not
/// look for an answer before they have sent all.
const DISCARDED: usize = 8 * LARGEST;

/// How long that may take.
const DISCARD: Duration = Duration::from_secs(2);

/// Where bodies are.
#[derive(Clone)]
pub struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM)))
    }
}

impl Room {
    /// Reads a body. Room is taken for what has come so far, and until the permit
    /// is dropped; so a client that sends nothing takes none.
    pub async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refusal> {
        let length = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > LARGEST as u64) {
            // Who waits for leave to send need not be heard.
            if !headers.contains_key(header::EXPECT) {
                discard(body, 0).await;
            }
            return Err(Refusal::TooLarge);
        }
        let deadline = Instant::now() + BODY;
        let mut chunks = body.into_data_stream();
        let (mut whole, mut held) = (Vec::new(), None::<OwnedSemaphorePermit>);
        loop {
            let chunk = timeout_at(deadline, chunks.next()).await;
            let Some(chunk) = chunk.map_err(|_| Refusal::Slow)? else {
                return Ok((whole.into(), held));
            };
            let chunk = chunk.map_err(Refusal::Broken)?;
            if whole.len() + chunk.len() > LARGEST {
                discard(Body::from_stream(chunks), whole.len()).await;
                return Err(Refusal::TooLarge);
            }
            whole.extend_from_slice(&chunk);
            let kibibytes = whole.len().div_ceil(1024);
            let more = kibibytes - held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            let more = Arc::clone(&self.0).try_acquire_many_owned(more);
            let more = more.map_err(|_| Refusal::Overloaded)?;
            match &mut held {
                Some(held) => held.merge(more),
                None => held = Some(more),
            }
        }
    }
}

async fn discard(body: Body, read: usize) {
    let mut chunks = body.into_data_stream();
    let mut read = read;
    let rest = async {
        while let Some(Ok(chunk)) = chunks.next().await {
            read += chunk.len();
            if read > DISCARDED {
                return;
            }
        }
    };
    // Whatever comes of it, the answer is the same.
    let _ = timeout(DISCARD, rest).await;
}
