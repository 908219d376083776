//! Bodies are read into memory here, within limits of size and time.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, header},
};
use futures::StreamExt as _;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    Refusal,
    shares::{Share, Shares},
};

/// The largest body.
pub const LARGEST: usize = 1024 * 1024;

/// How long a body may take to come.
pub const BODY: Duration = Duration::from_secs(10);

/// How much of bodies is in memory at once, in kibibytes.
const ROOM: usize = 64 * 1024;

/// How much of it one caller may have. Whoever has any token of the cluster gets as far
/// as here.
const SHARE: usize = ROOM / 8;

/// How much of a body that is too long is read and thrown away. Many clients do not
/// look for an answer before they have sent all.
const DISCARDED: usize = 8 * LARGEST;

/// How long that may take.
const DISCARD: Duration = Duration::from_secs(2);

/// Where bodies are.
#[derive(Clone)]
pub struct Room(Shares);

impl Default for Room {
    fn default() -> Self {
        Self(Shares::new(ROOM, SHARE))
    }
}

impl Room {
    /// Reads the body of a caller. Room is taken for what has come so far, until the
    /// share is dropped; so a client that sends nothing takes none.
    pub async fn read(
        &self,
        caller: Option<&str>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(Bytes, Option<Share>), Refusal> {
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
        let (mut whole, mut held) = (Vec::new(), None::<Share>);
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
            let held = held.get_or_insert_with(|| self.0.of(caller));
            let fits = held.up_to(whole.len().div_ceil(1024));
            fits.ok_or(Refusal::Overloaded)?;
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
