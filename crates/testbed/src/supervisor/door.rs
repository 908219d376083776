//! How the outside reaches a supervisor: its socket, its lifeline, its signals.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use crate::cluster::control::{Reply, Request};

/// The word on the lifeline that lets the cluster outlive its starter.
pub const DETACH: &str = "detach";

/// What the supervisor tells its starter, one JSON line each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// A step began, and the one before it is done.
    Step(String),
    /// The cluster is up.
    Ready,
    /// It will not come up, and why.
    Failed(String),
}

/// Tells the starter; without one there is nobody to tell.
pub fn report(progress: &Progress) {
    if let Ok(line) = serde_json::to_string(progress) {
        let mut stdout = std::io::stdout().lock();
        let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    }
}

/// Something that came in through the door.
pub enum Call {
    /// A request, and where its answer goes.
    Request(Request, oneshot::Sender<Reply>),
    /// The cluster shall end, and why.
    End(&'static str),
}

/// All ways in, joined into one.
pub struct Door {
    enter: mpsc::Sender<Call>,
    calls: mpsc::Receiver<Call>,
}

impl Door {
    /// Watches the lifeline (standard input) and signals.
    pub fn open() -> Result<Self> {
        let (enter, calls) = mpsc::channel(16);
        tokio::spawn(watch_lifeline(enter.clone()));
        for kind in [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
        ] {
            let mut arriving = signal(kind)?;
            let enter = enter.clone();
            tokio::spawn(async move {
                arriving.recv().await;
                let _ = enter.send(Call::End("asked by a signal")).await;
            });
        }
        Ok(Self { enter, calls })
    }

    /// Takes requests on a socket from now on.
    pub fn listen(&self, socket: &Path) -> Result<()> {
        let listener = UnixListener::bind(socket)
            .with_context(|| format!("cannot listen on {}", socket.display()))?;
        let enter = self.enter.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, enter.clone()));
            }
        });
        Ok(())
    }

    /// Waits for whatever comes next.
    pub async fn next(&mut self) -> Call {
        self.calls
            .recv()
            .await
            .expect("the door itself holds a sender, so the channel stays open")
    }
}

async fn watch_lifeline(enter: mpsc::Sender<Call>) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(word)) = lines.next_line().await {
        if word == DETACH {
            return;
        }
    }
    let _ = enter
        .send(Call::End("the process that started the cluster is gone"))
        .await;
}

async fn converse(stream: UnixStream, enter: mpsc::Sender<Call>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let reply = match serde_json::from_str(&line) {
            Err(error) => Reply::Refused(format!("not a request: {error}")),
            Ok(request) => {
                let (answer, answered) = oneshot::channel();
                if enter.send(Call::Request(request, answer)).await.is_err() {
                    return;
                }
                answered
                    .await
                    .unwrap_or_else(|_| Reply::Refused("the supervisor is ending".to_owned()))
            }
        };
        let Ok(mut text) = serde_json::to_vec(&reply) else {
            return;
        };
        text.push(b'\n');
        if write.write_all(&text).await.is_err() {
            return;
        }
    }
}
