//! What is left over of containers that are gone is found and removed: gather,
//! decide in [`floe_core::node::stale`], apply, report.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use floe_core::{
    lease::Moment,
    node::{
        notes::Note,
        stale::{self, Observation, Operation, Owner, Sandbox, StateFile, Suspects, Unjudged},
    },
};
use floe_shell::stop::Stop;
use futures::{FutureExt as _, future::BoxFuture};
use tokio::{
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tracing::{debug, info, warn};

use crate::{
    attach::Detached,
    cri::Cri,
    events::{self, Events, News},
    metrics::Metrics,
    pods::Pods,
    state::States,
    turns::{Turn, Turns},
};
pub use host::{Host, Kernel};

mod host;
mod notes;

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(30);

/// How long to wait for the turn of a container.
const TURN: Duration = Duration::from_secs(5);

/// Runs the DELs of what is forgotten, in the turn of its container, which it takes
/// itself.
pub type Detach =
    Arc<dyn Fn(Forgotten) -> BoxFuture<'static, Result<Detached, String>> + Send + Sync>;

/// What is to be detached though no runtime asks for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Forgotten {
    /// A container with a state file, which tells the DELs and goes with them.
    Container(String),
    /// What a plugin has noted, and removes by its DEL.
    Note(Note),
}

impl Forgotten {
    /// Whose turn it takes.
    pub fn container(&self) -> &str {
        match self {
            Self::Container(container) => container,
            Self::Note(note) => &note.attachment.container,
        }
    }
}

/// The task that cleans up.
pub struct Sweeper {
    /// The runtime.
    pub cri: Cri,
    /// The state files.
    pub states: States,
    /// Who works on which container.
    pub turns: Turns,
    /// The pods of this node.
    pub pods: Pods,
    /// Where to tell what was removed.
    pub events: Events,
    /// This node.
    pub node: String,
    /// The folder of the plugins' state, which has their notes.
    pub plugins: PathBuf,
    /// How a container is detached.
    pub detach: Detach,
    /// The network of this host.
    pub host: Arc<dyn Host>,
    /// Where it is counted.
    pub metrics: Metrics,
}

impl Sweeper {
    /// Looks at once, and then again and again until `stop`. What was begun is
    /// finished.
    pub async fn run(self, mut stop: Stop) {
        match self.cri.version().await {
            Ok(runtime) => info!(runtime, "container runtime answers"),
            Err(error) => {
                warn!(reason = error.reason(), error = %error, "container runtime does not answer");
            }
        }
        let start = Instant::now();
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut suspects = Suspects::new();
        let mut told = None;
        loop {
            tokio::select! {
                () = stop.requested() => return,
                _ = ticks.tick() => {}
            }
            let now = Moment(start.elapsed());
            let unjudged = self.round(now, &mut suspects, &mut stop).await;
            if unjudged != told {
                tell(unjudged);
                told = unjudged;
            }
        }
    }

    /// One look, and what it leads to. After `stop` nothing more is begun.
    async fn round(
        &self,
        now: Moment,
        suspects: &mut Suspects,
        stop: &mut Stop,
    ) -> Option<Unjudged> {
        let seen = match self.gather(now).await {
            Ok(seen) => seen,
            Err(error) => {
                let reason = "LeftoversUnreadable";
                warn!(reason, error, "leftovers cannot be looked for");
                // Not to have looked is no observation: two in a row are needed.
                suspects.clear();
                return None;
            }
        };
        let plan = stale::decide(&seen, suspects);
        debug!(
            suspects = plan.suspects.len(),
            operations = plan.operations.len(),
            "looked for leftovers"
        );
        for operation in plan.operations {
            if stop.requested().now_or_never().is_some() {
                break;
            }
            match self.apply(&operation).await {
                Ok(Detached::Wholly) => self.report(&operation),
                Ok(Detached::PutAside) => self.report_put_aside(&operation),
                Err(error) => {
                    let reason = operation.reason();
                    self.metrics.leftover(reason, "failed");
                    warn!(
                        reason,
                        operation = %operation,
                        error,
                        "leftover is not removed; it is tried again",
                    );
                }
            }
        }
        *suspects = plan.suspects;
        plan.unjudged
    }

    async fn gather(&self, at: Moment) -> Result<Observation, String> {
        let mut busy = self.turns.taken();
        let host = Arc::clone(&self.host);
        let plugins = self.plugins.clone();
        let (network, notes) =
            blocking(move || Ok((host.observe()?, notes::list(&plugins)?))).await?;
        let kept = self.states.list().await.map_err(|it| it.to_string())?;
        let now = SystemTime::now();
        let states = kept.into_iter().map(|kept| StateFile {
            container: kept.container,
            // A clock that went back tells nothing.
            age: now.duration_since(kept.written).ok(),
            pod_uid: kept
                .state
                .ok()
                .and_then(|state| Some(state.pod()?.uid.clone())),
        });
        let states = states.collect();
        let pods = self.pods.unfinished();
        // Last: whatever was found above is older than what the runtime says.
        let sandboxes = match self.cri.sandboxes().await {
            Ok(sandboxes) => Some(sandboxes.into_iter().map(Sandbox::from).collect()),
            Err(error) => {
                debug!(reason = error.reason(), error = %error, "runtime does not answer");
                None
            }
        };
        busy.extend(self.turns.taken());
        Ok(Observation {
            at,
            sandboxes,
            pods,
            busy,
            states,
            links: network.links,
            notes,
            routes: network.routes,
        })
    }

    async fn apply(&self, operation: &Operation) -> Result<Detached, String> {
        match operation {
            Operation::Detach(container) => {
                let forgotten = Forgotten::Container(container.clone());
                return (self.detach)(forgotten).await;
            }
            Operation::DetachNoted(note) => return self.detach_noted(note).await,
            Operation::RemoveLink(_) | Operation::RemoveRoute(_) => {}
        }
        let _turn = self.turn_of(operation).await?;
        let (host, operation) = (Arc::clone(&self.host), operation.clone());
        blocking(move || match operation {
            Operation::RemoveLink(link) => host.remove_link(&link),
            Operation::RemoveRoute(route) => host.remove_route(&route),
            Operation::DetachNoted(_) | Operation::Detach(_) => {
                Err("only its plugin can do this".to_owned())
            }
        })
        .await?;
        Ok(Detached::Wholly)
    }

    async fn detach_noted(&self, note: &Note) -> Result<Detached, String> {
        (self.detach)(Forgotten::Note(note.clone())).await?;
        let (plugins, note) = (self.plugins.clone(), note.clone());
        blocking(move || {
            if notes::is_there(&plugins, &note) {
                return Err(format!("{} succeeded and left its note", note.kind));
            }
            Ok(Detached::Wholly)
        })
        .await
    }

    /// The right to act for the container that something was made for. Of some only the
    /// beginning of the id is known; then nobody may act for one that begins so.
    async fn turn_of(&self, operation: &Operation) -> Result<Option<Turn>, String> {
        let owner = match operation {
            Operation::RemoveLink(link) => stale::owner(link),
            Operation::RemoveRoute(route) => Some(Owner::Container(route.container.clone())),
            Operation::DetachNoted(note) => {
                Some(Owner::Container(note.attachment.container.clone()))
            }
            Operation::Detach(container) => Some(Owner::Container(container.clone())),
        };
        let worked_on = || "somebody works on the container".to_owned();
        match owner {
            Some(Owner::Container(id)) => {
                let turn = timeout(TURN, self.turns.wait(&id)).await;
                turn.map(Some).map_err(|_| worked_on())
            }
            Some(Owner::Beginning(id)) => {
                let taken = self.turns.taken();
                let is_taken = taken.iter().any(|it| it.starts_with(&id));
                if is_taken { Err(worked_on()) } else { Ok(None) }
            }
            None => Err("it is nobody's".to_owned()),
        }
    }

    fn report(&self, operation: &Operation) {
        let reason = operation.reason();
        self.metrics.leftover(reason, "removed");
        info!(reason, operation = %operation, "leftover is removed");
        self.events.tell(News {
            about: events::node(&self.node),
            warning: false,
            reason,
            action: "Sweep",
            note: format!("left over of a container that is gone: {operation}"),
        });
    }

    /// What is put aside is not removed: somebody should look at it.
    fn report_put_aside(&self, operation: &Operation) {
        let reason = "StateMalformed";
        self.metrics.leftover(reason, "putAside");
        warn!(reason, operation = %operation, "leftover makes no sense, and is put aside");
        self.events.tell(News {
            about: events::node(&self.node),
            warning: true,
            reason,
            action: "Sweep",
            note: format!("state file makes no sense, and is put aside instead of: {operation}"),
        });
    }
}

impl From<crate::cri::Sandbox> for Sandbox {
    fn from(sandbox: crate::cri::Sandbox) -> Self {
        Self {
            id: sandbox.id,
            alive: sandbox.is_alive,
            pod_uid: sandbox.pod.uid,
        }
    }
}

fn tell(unjudged: Option<Unjudged>) {
    if let Some(why) = unjudged {
        let reason = why.reason();
        warn!(reason, "leftovers cannot be told from what is used: {why}");
    } else {
        info!("leftovers can be told from what is used");
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match spawn_blocking(work).await {
        Ok(result) => result,
        // A panic goes on in whoever waits for the work.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests;
