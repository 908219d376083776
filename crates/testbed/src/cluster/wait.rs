//! Waiting for a condition, with a limit and a story to tell when it is reached.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often a condition is looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// Long enough for anything in a cluster to settle on a busy machine. It is
/// never waited for when all is well.
pub const SETTLED: Duration = Duration::from_secs(90);

/// Looks at a condition until it yields a value.
///
/// `Ok(None)` and errors both mean "not yet"; the last error is told when the
/// limit is reached.
pub async fn until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        let last = match probe().await {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => "it did not hold".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        if Instant::now() > deadline {
            bail!("waited {} s in vain until {what}: {last}", limit.as_secs());
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
