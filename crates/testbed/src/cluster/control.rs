//! What can be asked of a running cluster, as one JSON line each way.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::spec::ClusterSpec;
use crate::host::HostRef;

/// A request to the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// How is it?
    Status,
    /// Pull the plug of a node.
    PowerOff(String),
    /// Switch a node on again, with the disk it had.
    PowerOn(String),
    /// Pull or plug the network cable of a host.
    Cable {
        /// Which host.
        host: String,
        /// In or out.
        plugged: bool,
    },
    /// Freeze or thaw all processes of a node.
    Pause {
        /// Which node.
        node: String,
        /// Frozen or running.
        paused: bool,
    },
    /// End a program.
    Stop {
        /// The program.
        program: ProgramName,
        /// At once (SIGKILL), or asking it to (SIGTERM).
        kill: bool,
    },
    /// Start a program that is not running.
    Start(ProgramName),
    /// Cut a host and its pods, or all of them, off from the control plane.
    CutOff {
        /// Which host; nobody means everybody.
        host: Option<String>,
        /// Cut or mend.
        cut: bool,
    },
    /// Delay everything that passes to and from the API server.
    Slow {
        /// The delay of each piece of data, in either direction.
        milliseconds: u64,
    },
    /// Change what etcd has on its disk.
    Storage(Storage),
    /// Start everything again that has read what is not true any more.
    ReadAnew,
    /// Mend everything that was broken on purpose.
    Heal,
    /// End the cluster.
    Down,
}

/// A change of what etcd has on its disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Storage {
    /// Keep a copy under a name.
    Save(String),
    /// Go back to the copy of that name.
    Restore(String),
    /// Lose all of it.
    Lose,
}

/// A program on a host, such as `node-1/kubelet`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProgramName {
    /// The host it runs on.
    pub host: String,
    /// Its own name.
    pub program: String,
}

impl ProgramName {
    /// `host/program`.
    pub fn new(host: impl Into<String>, program: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            program: program.into(),
        }
    }
}

impl std::fmt::Display for ProgramName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.host, self.program)
    }
}

/// The supervisor's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Done as asked.
    Done,
    /// How it is.
    Status(Status),
    /// Not done, and why.
    Refused(String),
}

/// A running cluster, as its supervisor sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// What was asked for.
    pub spec: ClusterSpec,
    /// The supervisor's process.
    pub supervisor: u32,
    /// When it was started.
    pub since: jiff::Timestamp,
    /// Hosts that are switched on.
    pub hosts: Vec<HostRef>,
    /// Every program and whether it runs.
    pub programs: Vec<ProgramStatus>,
    /// Whether something was broken on purpose and not mended.
    pub is_broken: bool,
    /// Bytes of memory that all of it uses.
    pub memory: u64,
}

/// One program of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// Which one.
    pub name: ProgramName,
    /// How it ended, if it does not run.
    pub ended: Option<String>,
}

/// How long an answer may take; switching a node on is the longest.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends one request and waits for the answer.
pub async fn ask(socket: &Path, request: &Request) -> Result<Reply> {
    let answered = tokio::time::timeout(PATIENCE, converse(socket, request)).await;
    answered.with_context(|| format!("no answer to {request:?} within {PATIENCE:?}"))?
}

async fn converse(socket: &Path, request: &Request) -> Result<Reply> {
    let stream = UnixStream::connect(socket)
        .await
        .with_context(|| format!("no cluster answers at {}", socket.display()))?;
    let (read, mut write) = stream.into_split();
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    write.write_all(&line).await?;
    let mut answer = String::new();
    BufReader::new(read).read_line(&mut answer).await?;
    if answer.is_empty() {
        bail!("the cluster's supervisor ended without an answer");
    }
    serde_json::from_str(&answer).context("the cluster's supervisor gave an answer that is no JSON")
}
