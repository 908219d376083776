//! A move of the host's address to a bridge that was cut short, as by a plugin that was
//! killed, is finished when the agent starts: nobody knows when the next pod comes.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use floe_core::node::moves::Move;
use floe_net::{
    lock::Lock,
    moves::{self, MovesError},
    netlink::Netlink,
};
use floe_shell::logs;
use tracing::{info, warn};

use crate::places;

/// How long to wait for plugins that are at work. One that is at a move finishes it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Finishes all moves that were begun on this host. What fails is told and left to the
/// next pod's plugin: an agent that does not start mends nothing.
pub async fn finish() {
    let (state, run) = (places::state(), places::run());
    let done = tokio::task::spawn_blocking(move || finish_all(&state, &run)).await;
    if let Err(error) = done {
        std::panic::resume_unwind(error.into_panic());
    }
}

fn finish_all(state: &Path, run: &Path) {
    let journals = match moves::all(state) {
        Ok(journals) => journals,
        Err(error) => return tell(&error),
    };
    let is_whole = |it: &Result<Move, MovesError>| it.as_ref().is_ok_and(|it| it.complete);
    if journals.iter().all(is_whole) {
        return;
    }
    let path = run.join("net.lock");
    let _lock = match Lock::take(&path, Instant::now() + PATIENCE) {
        Ok(lock) => lock,
        Err(error) => {
            warn!(reason = "HostBusy", error = %error, "unfinished moves stay as they are");
            return;
        }
    };
    // Once more: a plugin may have finished them meanwhile.
    let journals = moves::all(state).unwrap_or_default();
    let mut netlink = match Netlink::open() {
        Ok(netlink) => netlink,
        Err(error) => return tell(&error.into()),
    };
    for journal in journals {
        let finished = journal.and_then(|it| {
            let done = moves::finish(&mut netlink, state, &it)?;
            Ok(done.then_some(it))
        });
        match finished {
            Ok(None) => {}
            Ok(Some(journal)) => info!(
                device = journal.device,
                bridge = journal.bridge,
                "the move of the host's addresses is finished",
            ),
            Err(error) => tell(&error),
        }
    }
}

fn tell(error: &MovesError) {
    warn!(
        reason = error.reason(),
        error = logs::with_causes(error),
        "a move of the host's addresses is not finished",
    );
}
