//! `floe-agent cleanup`: what floe's plugins made for all pods of a host, and leave by
//! contract, is undone.
//!
//! - Addresses and routes that moved to a bridge go back to their device, as the journals
//!   of the moves say.
//! - Bridges and VLAN devices that floe made are removed. Others stay.
//! - Rules and routes of shared addresses are removed.
//!
//! Nothing is done to what pods still use: they go first, for example by a drain. A macvlan
//! or ipvlan in a pod cannot be seen from the host, so state files tell whether there
//! are pods. Those that were attached without the agent have none, and are not seen.

use std::{
    fmt,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use floe_net::{
    lock::Lock,
    moves::{self, MovesError},
    netlink::{Link, Netlink, NetlinkError},
    nft::Nft,
};

use crate::{places, state::files_in};
use plan::{Kept, Step, plan};

mod plan;
mod shared;

/// How long to wait for plugins that are at work.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where things are, and whether to do anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleanup {
    /// The folder of floe's state, which has the journals.
    pub state: PathBuf,
    /// The folder of floe's lock.
    pub run: PathBuf,
    /// The folder of the state files of attached containers.
    pub attached: PathBuf,
    /// Whether no folder of state files means that nothing is attached.
    pub force: bool,
    /// Whether only to say what would be done.
    pub dry_run: bool,
}

/// Undoes everything on this host, and tells each step on standard output.
pub fn run(cleanup: &Cleanup) -> anyhow::Result<()> {
    let done = cleanup.run(&mut io::stdout().lock());
    done.map_err(|error| {
        let reason = error.reason();
        anyhow::Error::new(error).context(reason)
    })
}

impl Cleanup {
    /// The folders that the plugins use, unless the environment says others. `attached`
    /// is the agent's folder of state files.
    pub fn new(attached: PathBuf, force: bool, dry_run: bool) -> Self {
        Self {
            state: places::state(),
            run: places::run(),
            attached,
            force,
            dry_run,
        }
    }

    /// Undoes everything that it can, and writes each step to `out`. It blocks. A step
    /// that fails hinders none of the others; at the end it is an error.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CleanupError> {
        let _lock = if self.dry_run {
            None
        } else {
            let path = self.run.join("net.lock");
            let taken = Lock::take(&path, Instant::now() + PATIENCE);
            Some(taken.map_err(|error| CleanupError::Lock { path, error })?)
        };
        let mut netlink = Netlink::open()?;
        let mut failures = 0;
        let rests = self.remove_rests(&mut netlink, &mut failures, out)?;
        let mut journals = Vec::new();
        for journal in moves::all(&self.state)? {
            match journal {
                Ok(journal) => journals.push(journal),
                Err(error) => {
                    failures += 1;
                    writeln!(out, "failed: {error}")?;
                }
            }
        }
        let links = netlink.links()?;
        let plan = plan(&journals, &links, self.attached()?);
        for Kept { what, why } in &plan.kept {
            failures += 1;
            writeln!(out, "kept: {what}: {why}")?;
        }
        if plan.steps.is_empty() && failures == 0 && rests == 0 {
            writeln!(out, "nothing to undo")?;
        }
        if plan.steps.iter().any(Step::can_hurt_unseen_pods) {
            let unseen = "pods that were attached without the agent have no state file";
            writeln!(out, "note: {unseen}, and are not seen")?;
        }
        for step in &plan.steps {
            if self.dry_run {
                writeln!(out, "would {step}")?;
                continue;
            }
            match apply(&mut netlink, &self.state, step) {
                Ok(()) => writeln!(out, "done: {step}")?,
                Err(error) => {
                    failures += 1;
                    writeln!(out, "failed: {step}: {error}")?;
                }
            }
        }
        if failures > 0 {
            return Err(CleanupError::Incomplete(failures));
        }
        Ok(())
    }

    /// Removes what is left of shared addresses; how much there was.
    fn remove_rests(
        &self,
        netlink: &mut Netlink,
        failures: &mut usize,
        out: &mut dyn Write,
    ) -> io::Result<usize> {
        let nft = Nft::default();
        let (rests, unknown) = shared::look(netlink, &nft);
        for error in &unknown {
            *failures += 1;
            writeln!(out, "failed: look for shared addresses: {error}")?;
        }
        for rest in &rests {
            if self.dry_run {
                writeln!(out, "would {rest}")?;
                continue;
            }
            match rest.remove(netlink, &nft) {
                Ok(()) => writeln!(out, "done: {rest}")?,
                Err(error) => {
                    *failures += 1;
                    writeln!(out, "failed: {rest}: {error}")?;
                }
            }
        }
        Ok(rests.len())
    }

    /// How many containers have a state file; `None` when nobody can tell.
    fn attached(&self) -> io::Result<Option<usize>> {
        let files = files_in(&self.attached)?;
        let count = files.map(|files| files.len());
        Ok(count.or(self.force.then_some(0)))
    }
}

/// Why a host is not clean.
#[derive(Debug, thiserror::Error)]
pub enum CleanupError {
    /// Plugins are at work and do not end.
    #[error("cannot take {}: {error}", path.display())]
    Lock {
        /// The lock.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The host cannot be looked at.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The journals cannot be read.
    #[error(transparent)]
    Journals(#[from] MovesError),
    /// The steps cannot be told, or the state files not be counted.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Some things could not be undone; each was told.
    #[error("not everything could be undone: {0} left, see above")]
    Incomplete(usize),
}

impl CleanupError {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Lock { .. } => "HostBusy",
            Self::Netlink(_) => "HostUnreadable",
            Self::Journals(_) => "JournalUnreadable",
            Self::Io(_) => "IoFailed",
            Self::Incomplete(_) => "CleanupIncomplete",
        }
    }
}

/// Why a step was not done.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Moves(#[from] MovesError),
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    #[error("it has addresses of the host: {0}")]
    HasAddresses(String),
}

fn apply(netlink: &mut Netlink, state: &Path, step: &Step) -> Result<(), StepError> {
    match step {
        Step::MoveBack(journal) => {
            moves::undo(netlink, journal)?;
            moves::forget(state, &journal.device)?;
        }
        Step::Forget(journal) => {
            moves::forget(state, &journal.device)?;
        }
        Step::Remove(link) => remove(netlink, link)?,
    }
    Ok(())
}

/// Removes a link, if it is still the one that was seen. One with addresses stays: a move
/// back may have failed, and the host would lose them.
fn remove(netlink: &mut Netlink, link: &Link) -> Result<(), StepError> {
    let there = netlink.link_at(link.index)?;
    let is_same = |it: &Link| it.name == link.name && it.alias == link.alias;
    let Some(there) = there.filter(is_same) else {
        return Ok(());
    };
    let has = moves::observe(netlink, &there, &there.name)?.addresses;
    if !has.is_empty() {
        let list: Vec<String> = has.iter().map(|it| it.net.to_string()).collect();
        return Err(StepError::HasAddresses(list.join(", ")));
    }
    netlink.remove(there.index)?;
    Ok(())
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MoveBack(journal) => {
                let list: Vec<String> = journal
                    .addresses
                    .iter()
                    .map(|it| it.net.to_string())
                    .collect();
                write!(
                    out,
                    "move addresses and routes back from {} to {} (at first: {})",
                    journal.bridge,
                    journal.device,
                    list.join(", ")
                )
            }
            Self::Forget(journal) => write!(
                out,
                "forget the move from {} to {}, which is not there any more",
                journal.device, journal.bridge
            ),
            Self::Remove(link) => write!(out, "remove link {}", link.name),
        }
    }
}
