//! What is left over of containers that are gone.
//!
//! A lost DEL, a crash or a reboot leaves links, routes, notes and state files behind.
//! They are found by comparing what the node has with what its container runtime
//! runs. Taking the network from a container that runs is far worse than a leftover,
//! so much has to come together: the runtime was asked and answered believably, twice
//! in a row and at least [`GRACE`] apart, and it ran no such container both times,
//! and nobody works on the container.
//!
//! Not even then is everything taken: bridges, vlan devices and links that neither
//! floe nor galaxy made stay.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use ipnet::IpNet;

use super::{
    names::{Alias, HostVeth, NAME_MAX},
    notes::Note,
};
use crate::{cni::call::is_identifier, lease::Moment};

/// How long a container must be unknown to its runtime before its leftovers go, and
/// how long nobody looks at a state file that was just written. A sandbox gets its
/// network before its runtime lists it.
pub const GRACE: Duration = Duration::from_mins(1);

/// What was observed on a node, at one moment.
#[derive(Clone, Debug)]
pub struct Observation {
    /// When.
    pub at: Moment,
    /// The sandboxes of the runtime, alive or not; `None` when it could not be asked.
    /// They must be asked for *after* everything else was gathered.
    pub sandboxes: Option<Vec<Sandbox>>,
    /// Pods that are to run on this node and have not finished, each with all uids that
    /// it goes by: the kubelet knows a static pod by another one than the API server.
    /// `None` when that is not known.
    pub pods: Option<Vec<BTreeSet<String>>>,
    /// Containers for which an ADD or DEL is under way.
    pub busy: BTreeSet<String>,
    /// State files.
    pub states: Vec<StateFile>,
    /// Links on the host.
    pub links: Vec<HostLink>,
    /// Notes of plugins.
    pub notes: Vec<Note>,
    /// Routes on the host that were made for containers.
    pub routes: Vec<HostRoute>,
}

/// A sandbox of the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Its id, which is the container's in CNI.
    pub id: String,
    /// Whether it is ready, or a container in it still runs.
    pub alive: bool,
    /// The uid of its pod.
    pub pod_uid: String,
}

/// A state file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile {
    /// The container: the file's name.
    pub container: String,
    /// How long ago it was written; `None` when that cannot be told.
    pub age: Option<Duration>,
    /// The uid of the pod that it names.
    pub pod_uid: Option<String>,
}

/// A link on the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostLink {
    /// Its index, which is never used twice.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its alias.
    pub alias: Option<String>,
    /// Its kind.
    pub kind: LinkKind,
}

/// Kinds of links that are made for a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkKind {
    /// One end of a pair.
    Veth,
    /// A macvlan that never reached its container.
    Macvlan,
    /// An ipvlan that never reached its container.
    Ipvlan,
    /// Anything else: never removed here.
    Other,
}

/// A route on the host to an address of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostRoute {
    /// Where to.
    pub dst: IpNet,
    /// The device.
    pub device: String,
    /// The container.
    pub container: String,
}

/// Whom something was made for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A container.
    Container(String),
    /// A container whose id begins so. It is all that galaxy's links tell.
    Beginning(String),
}

/// Since when each owner is seen without a container.
pub type Suspects = BTreeMap<Owner, Moment>;

/// What to do about what was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What to do, in this order. A step that fails hinders none of the others.
    pub operations: Vec<Operation>,
    /// What to give to the next decision.
    pub suspects: Suspects,
    /// Why nothing could be judged, if so.
    pub unjudged: Option<Unjudged>,
}

/// One step. To find that it is done already is success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Run the DELs that the state file of this container tells, then remove it.
    Detach(String),
    /// Run the DEL of the plugin that wrote this note.
    DetachNoted(Note),
    /// Remove a route.
    RemoveRoute(HostRoute),
    /// Remove a link, if index and name are still the same.
    RemoveLink(HostLink),
}

/// Why an observation tells nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unjudged {
    /// The runtime could not be asked.
    #[error("the container runtime could not be asked")]
    NoAnswer,
    /// The runtime knows no sandbox, while pods run here, or may run here. More likely
    /// it is the wrong runtime.
    #[error("the container runtime lists no sandbox, though pods may run on this node")]
    NothingListed,
}

impl Unjudged {
    /// The stable reason for logs, events and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoAnswer => "RuntimeUnavailable",
            Self::NothingListed => "RuntimeListsNothing",
        }
    }
}

impl Operation {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Detach(_) => "StaleState",
            Self::DetachNoted(_) => "StaleNote",
            Self::RemoveRoute(_) => "StaleRoute",
            Self::RemoveLink(_) => "StaleLink",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Detach(container) => write!(out, "detach container {container}"),
            Self::DetachNoted(note) => write!(
                out,
                "detach {} of container {} from network {}, as its note in {} says",
                note.attachment.ifname,
                note.attachment.container,
                note.network,
                note.topic.folder()
            ),
            Self::RemoveRoute(route) => write!(
                out,
                "remove route {} dev {} of container {}",
                route.dst, route.device, route.container
            ),
            Self::RemoveLink(link) => write!(out, "remove link {}", link.name),
        }
    }
}

/// Whom a link was made for: its alias tells it, or else the name that galaxy gives;
/// `None` for links that are nobody's business here.
pub fn owner(link: &HostLink) -> Option<Owner> {
    if link.kind == LinkKind::Other {
        return None;
    }
    match link.alias.as_deref().filter(|alias| !alias.is_empty()) {
        Some(alias) => Alias::parse(alias).map(|alias| Owner::Container(alias.container)),
        None if link.kind == LinkKind::Veth => galaxys(&link.name),
        None => None,
    }
}

/// Decides what goes, and whom to suspect from now on. `suspects` is what the decision
/// before has given; none when there was no decision before.
///
/// # Guarantees
/// Nothing goes that was not suspected in the decision before. One observation that
/// cannot be judged ends all suspicions.
pub fn decide(seen: &Observation, suspects: &Suspects) -> Plan {
    let sandboxes = match believable(seen) {
        Ok(sandboxes) => sandboxes,
        Err(unjudged) => {
            return Plan {
                operations: Vec::new(),
                suspects: Suspects::new(),
                unjudged: Some(unjudged),
            };
        }
    };
    let now: Suspects = traces(seen)
        .into_keys()
        .filter(|owner| !is_spared(owner, seen, sandboxes))
        .map(|owner| {
            let since = suspects.get(&owner).copied().unwrap_or(seen.at);
            (owner, since.min(seen.at))
        })
        .collect();
    let is_stale = |owner: &Owner| {
        let since = now.get(owner).filter(|_| suspects.contains_key(owner));
        since.is_some_and(|since| since.after(GRACE) <= seen.at)
    };
    let operations = traces(seen)
        .into_iter()
        .filter(|(owner, _)| is_stale(owner))
        .flat_map(|(_, operations)| operations)
        .collect();
    Plan {
        operations,
        suspects: now,
        unjudged: None,
    }
}

fn believable(seen: &Observation) -> Result<&[Sandbox], Unjudged> {
    let sandboxes = seen.sandboxes.as_deref().ok_or(Unjudged::NoAnswer)?;
    let no_pods = seen.pods.as_ref().is_some_and(Vec::is_empty);
    if sandboxes.is_empty() && !no_pods {
        return Err(Unjudged::NothingListed);
    }
    Ok(sandboxes)
}

/// Everything that was found, by owner, as the steps that would remove it. The DELs
/// come first: they know best how to undo what was done.
fn traces(seen: &Observation) -> BTreeMap<Owner, Vec<Operation>> {
    let mut found: BTreeMap<Owner, Vec<Operation>> = BTreeMap::new();
    let mut note = |owner, operation| found.entry(owner).or_default().push(operation);
    let container = |id: &str| Owner::Container(id.to_owned());
    // Other files may lie beside state files.
    let states = seen.states.iter();
    for state in states.filter(|state| is_identifier(&state.container)) {
        let operation = Operation::Detach(state.container.clone());
        note(container(&state.container), operation);
    }
    // The DELs of a state file remove the notes of its container too. One that they
    // leave is seen without the file the next time.
    let has_state = |id: &str| seen.states.iter().any(|state| state.container == id);
    for found in &seen.notes {
        let id = &found.attachment.container;
        if !has_state(id) {
            note(container(id), Operation::DetachNoted(found.clone()));
        }
    }
    for route in &seen.routes {
        let operation = Operation::RemoveRoute(route.clone());
        note(container(&route.container), operation);
    }
    for link in &seen.links {
        if let Some(owner) = owner(link) {
            note(owner, Operation::RemoveLink(link.clone()));
        }
    }
    found
}

/// Whether what was made for this owner stays, because its container lives or could.
fn is_spared(owner: &Owner, seen: &Observation, sandboxes: &[Sandbox]) -> bool {
    let mut of_owner = sandboxes
        .iter()
        .filter(|sandbox| owner.is(&sandbox.id))
        .peekable();
    let is_listed = of_owner.peek().is_some();
    let lives = of_owner.any(|sandbox| sandbox.alive);
    let is_worked_on = seen.busy.iter().any(|id| owner.is(id));
    let mut states = seen
        .states
        .iter()
        .filter(|state| owner.is(&state.container));
    lives
        || is_worked_on
        || states.any(|state| {
            state.age.is_some_and(|age| age < GRACE)
                || (!is_listed && is_missing(state, seen, sandboxes))
        })
}

/// Whether the pod of a container that is not listed has no other sandbox either,
/// though it is to run here. Then the list may lack something. If it does not, the
/// pod gets a new sandbox soon, or goes.
fn is_missing(state: &StateFile, seen: &Observation, sandboxes: &[Sandbox]) -> bool {
    let (Some(uid), Some(pods)) = (&state.pod_uid, &seen.pods) else {
        return false;
    };
    let runs = |uids: &BTreeSet<String>| sandboxes.iter().any(|it| uids.contains(&it.pod_uid));
    let mut its_own = pods.iter().filter(|uids| uids.contains(uid));
    its_own.any(|uids| !runs(uids))
}

impl Owner {
    fn is(&self, container: &str) -> bool {
        match self {
            // An alias has no room for a very long id.
            Self::Container(id) => {
                id == container || Alias::new("", container, "").container == *id
            }
            Self::Beginning(beginning) => container.starts_with(beginning),
        }
    }
}

/// Whom a veth without an alias was made for, if its name is galaxy's. Nine characters
/// of a container are in it, or as many as there is room for.
fn galaxys(name: &str) -> Option<Owner> {
    const ID: usize = 9;
    let veth = HostVeth::parse(name)?;
    let room = NAME_MAX.checked_sub("v-h".len() + veth.suffix.len())?;
    let is_whole = veth.id.len() == ID.min(room) && is_identifier(veth.id);
    is_whole.then(|| Owner::Beginning(veth.id.to_owned()))
}

#[cfg(test)]
mod tests;
