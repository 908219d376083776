//! Single questions to the API server, each with a limit.

use std::{fmt, time::Duration};

use floe_shell::logs;
use kube::Error;
use tokio::time::timeout;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(4);

/// What a question needs, to be named where it is refused.
#[derive(Clone, Copy, Debug)]
pub struct Right<'a> {
    /// For example `get`.
    pub verbs: &'a str,
    /// The plural.
    pub resource: &'a str,
    /// The API group; empty for the core group.
    pub group: &'a str,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There is no such thing.
    #[error("not found")]
    NotFound,
    /// A right is missing.
    #[error("forbidden: floe-controller lacks the right to {0}")]
    Forbidden(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
    /// Nobody answers.
    #[error("no answer within {0:?}")]
    Silent(Duration),
}

/// Whether a text can be the name of an object. Names that come from outside, be it
/// a request, an owner or a key, would become parts of paths.
pub fn is_name(text: &str) -> bool {
    let is_fine =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let is_long = text.len() > 253;
    !text.is_empty() && !is_long && text.bytes().all(is_fine) && !text.starts_with('.')
}

/// Waits for an answer.
pub async fn ask<T>(
    question: impl Future<Output = Result<T, Error>>,
    right: Right<'_>,
) -> Result<T, Failure> {
    match timeout(PATIENCE, question).await {
        Ok(answer) => answer.map_err(|error| Failure::of(&error, right)),
        Err(_) => Err(Failure::Silent(PATIENCE)),
    }
}

impl Failure {
    /// What an error means.
    pub fn of(error: &Error, right: Right<'_>) -> Self {
        let code = if let Error::Api(status) = error {
            status.code
        } else {
            0
        };
        match code {
            404 => Self::NotFound,
            403 => Self::Forbidden(right.to_string()),
            _ => Self::Failed(logs::with_causes(error)),
        }
    }
}

impl fmt::Display for Right<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verbs,
            resource,
            group,
        } = self;
        write!(out, "{verbs} {resource}")?;
        if group.is_empty() {
            write!(out, " of the core API group")
        } else {
            write!(out, " of API group {group}")
        }
    }
}
