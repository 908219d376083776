//! The API server: whether it answers, which version it is.

use std::{fmt, time::Duration};

use floe_shell::{backoff, logs, stop::Stop};
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Client;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::contact::Contact;

/// The oldest Kubernetes that floe supports.
const OLDEST: Release = Release(1, 30);

/// Asks the API server for its version again and again until `stop`, and notes
/// each answer in `contact`. A server that is away is asked with growing
/// pauses; it is never a reason to end.
pub async fn keep_contact(client: Client, contact: Contact, pace: Pace, mut stop: Stop) {
    tokio::select! {
        () = stop.requested() => {}
        () = ask_forever(&client, &contact, pace) => {}
    }
}

/// How often to ask, and how long to wait for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The pause after an answer.
    pub period: Duration,
    /// How long an answer may take.
    pub limit: Duration,
}

async fn ask_forever(client: &Client, contact: &Contact, pace: Pace) {
    let mut known: Option<Info> = None;
    let mut failures = 0;
    loop {
        let pause = match ask(client, pace.limit).await {
            Ok(info) => {
                contact.mark();
                if failures > 0 && known.is_some() {
                    info!(failures, "API server answers again");
                }
                failures = 0;
                if known.as_ref() != Some(&info) {
                    report(&info);
                    known = Some(info);
                }
                pace.period
            }
            Err(error) => {
                let pause = backoff(failures);
                failures += 1;
                warn!(
                    reason = "ApiServerUnreachable",
                    error = logs::with_causes(&error), attempt = failures, retry_in = ?pause,
                    "API server cannot be reached",
                );
                pause
            }
        };
        sleep(pause).await;
    }
}

#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("request failed")]
    Request(#[from] kube::Error),
    #[error("no answer within {0:?}")]
    Silent(Duration),
}

async fn ask(client: &Client, limit: Duration) -> Result<Info, AskError> {
    let answer = timeout(limit, client.apiserver_version()).await;
    Ok(answer.map_err(|_| AskError::Silent(limit))??)
}

fn report(info: &Info) {
    info!(
        server = info.git_version,
        platform = info.platform,
        "API server found"
    );
    match Release::of(info) {
        Some(release) if release < OLDEST => warn!(
            reason = "KubernetesTooOld",
            server = %release, oldest = %OLDEST,
            "API server is older than floe supports",
        ),
        Some(_) => {}
        None => warn!(
            reason = "KubernetesVersionUnknown",
            major = info.major,
            minor = info.minor,
            "API server has no readable version",
        ),
    }
}

/// A Kubernetes release, such as 1.30.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Release(u32, u32);

impl Release {
    /// Managed clusters append to the minor version, as in `30+`.
    fn of(info: &Info) -> Option<Self> {
        let digits = info.minor.trim_end_matches(|c: char| !c.is_ascii_digit());
        Some(Self(info.major.parse().ok()?, digits.parse().ok()?))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests;
