//! The token that callers have to send, from a file that may change.

use std::{io, path::PathBuf, time::Duration};

use floe_shell::{logs, stop::Stop};
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use crate::extender::proof;

/// How often the file is read.
const PERIOD: Duration = Duration::from_secs(20);

/// A shorter token can be guessed.
const SHORTEST: usize = 16;

/// Why a file has no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// There is too little in it.
    #[error("{} has a token of less than {SHORTEST} characters", path.display())]
    Short {
        /// The file.
        path: PathBuf,
    },
}

/// A file with a token.
pub struct TokenFile {
    path: PathBuf,
    digest: watch::Sender<String>,
}

impl TokenFile {
    /// Reads the file for the first time.
    pub async fn new(path: PathBuf) -> Result<Self, TokenError> {
        let digest = watch::Sender::new(read(&path).await?);
        Ok(Self { path, digest })
    }

    /// The digest of the token that is in force. The token itself is not kept.
    pub fn digest(&self) -> watch::Receiver<String> {
        self.digest.subscribe()
    }

    /// Reads the file again and again until `stop`. The last good token stays in force.
    pub async fn run(self, mut stop: Stop) {
        let mut logged = None;
        loop {
            tokio::select! {
                () = stop.requested() => return,
                () = sleep(PERIOD) => {}
            }
            match read(&self.path).await {
                Ok(digest) => {
                    logged = None;
                    let changed = self.digest.send_if_modified(|held| {
                        let changed = *held != digest;
                        *held = digest;
                        changed
                    });
                    if changed {
                        info!("the token of the scheduler extender has changed");
                    }
                }
                Err(error) => {
                    let error = logs::with_causes(&error);
                    if logged.replace(error.clone()).as_ref() != Some(&error) {
                        let reason = "ExtenderTokenUnusable";
                        warn!(reason, error, "the old token stays in force");
                    }
                }
            }
        }
    }
}

async fn read(path: &PathBuf) -> Result<String, TokenError> {
    let read = tokio::fs::read(path).await;
    let contents = read.map_err(|source| TokenError::Read {
        path: path.clone(),
        source,
    })?;
    let token = contents.trim_ascii();
    if token.len() < SHORTEST {
        return Err(TokenError::Short { path: path.clone() });
    }
    Ok(proof::digest_of(token))
}
