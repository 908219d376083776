//! The pods that wait for an address, and how they are woken.
//!
//! A pod that the extender refuses is not tried again for minutes, unless the pod
//! itself changes. So whoever makes room wakes whoever waits for it, by an
//! annotation on the waiting pod.
//!
//! - [`line`]: who waits, and who may be woken when.
//! - [`rooms`]: what there is to get, and whom that concerns.
//! - [`waker`]: looks who fits, and wakes them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use floe_core::{
    ipam::{key::HolderKey, ledger::Promise},
    schedule::{claimant::Claimant, wake},
};
use ipnet::IpNet;
use tokio::{sync::Notify, time::Instant};

use self::{
    line::{Called, Line},
    rooms::Rooms,
};
use crate::claims::Claim;

mod line;
mod rooms;
mod waker;

pub use self::waker::Waker;

/// The annotation that wakes a pod. Its value is the time, so that it is another
/// one each time.
pub const WOKEN: &str = "floe.dev/woken";

/// The pods that wait, as far as this process refused them.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    line: Mutex<Line>,
    /// What there is to get that the waker has not looked at yet.
    rooms: Mutex<Rooms>,
    notify: Notify,
    /// Pods that were refused and share what they leave behind, by namespace and name,
    /// until somebody looks whether an update stands still for them.
    stuck: Mutex<BTreeSet<(String, String)>>,
    bell: Notify,
    /// By the uid of a waiting pod: why its rolling update hands nothing over to it.
    held_up: Mutex<BTreeMap<String, HeldUp>>,
}

/// Why a rolling update hands no address over to a pod of the new version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUp {
    /// The stable reason, as in the Event on the Deployment.
    pub reason: &'static str,
    /// The same in a sentence without a full stop.
    pub message: String,
}

/// What there is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Room {
    /// An address that anybody may have.
    Address(IpAddr),
    /// An address, or a place in the limits, of a group.
    InGroup(HolderKey),
    /// Something that may concern any pod: the configuration or the nodes.
    Anywhere,
}

impl Waiting {
    /// A pod was refused and waits from now on, or goes on waiting. May be called
    /// while the books are looked at, so that no room is missed in between.
    pub fn refused(&self, claim: &Claim) {
        let in_vain = self.line(|line| line.refused(claim, Instant::now()));
        if claim.claimant.shares_spares {
            let pod = (claim.pod.namespace.clone(), claim.pod.name.clone());
            self.stuck(|stuck| stuck.insert(pod));
            self.0.bell.notify_one();
        }
        // What it was woken for is still there, for somebody else.
        if let Some(rooms) = in_vain {
            self.rooms(|all| all.join(&rooms));
        }
    }

    /// A pod waits no longer: it was let through, or is gone.
    pub fn leave(&self, uid: &str) {
        self.hold_up(uid, None);
        // Others may have waited only because this one went first.
        if let Some(group) = self.line(|line| line.leave(uid)) {
            self.room(Room::InGroup(group));
        }
    }

    /// Whether pods of other revisions of the same workload wait, or one of the same
    /// group to which an address is being handed over. Some of them may have to go first.
    pub fn has_rivals(&self, claimant: &Claimant, revision: u64) -> bool {
        self.line(|line| line.has_rivals(claimant, revision))
    }

    /// The pods that wait as well and have to go first: those of the same workload that
    /// rank higher than `mine`, and those of other workloads to which an address of the
    /// group is being handed over. The first ones only, in the order in which they go;
    /// those that do not come when they are called are left out.
    pub fn ahead_of(
        &self,
        claimant: &Claimant,
        mine: u64,
        rank: impl Fn(&wake::Waiting) -> u64,
    ) -> Vec<(wake::Waiting, Claimant)> {
        self.line(|line| line.ahead_of(claimant, mine, rank, Instant::now()))
    }

    /// Notes the subnets of nodes that a waiting pod could run on, beside those that were
    /// noted before.
    pub fn offered(&self, uid: &str, sites: impl IntoIterator<Item = IpNet>) {
        self.line(|line| line.offered(uid, sites));
    }

    /// The subnets of nodes that a pod could run on; `None` if it does not wait, and
    /// empty if nobody knows.
    pub fn sites(&self, uid: &str) -> Option<BTreeSet<IpNet>> {
        self.line(|line| line.sites(uid))
    }

    /// An address is being handed over to a waiting pod: when it comes free, no pod of
    /// another workload takes it.
    pub fn hand_over(&self, uid: &str) {
        self.line(|line| line.hand_over(uid));
    }

    /// Notes why the update of a waiting pod does not go on; `None` if it does. It is
    /// forgotten when the pod leaves the line.
    pub fn hold_up(&self, uid: &str, why: Option<HeldUp>) {
        self.held_up(|all| match why {
            Some(why) => all.insert(uid.to_owned(), why),
            None => all.remove(uid),
        });
    }

    /// Why the update of a pod does not go on, if it waits for that.
    pub fn why_held_up(&self, uid: &str) -> Option<HeldUp> {
        self.held_up(|all| all.get(uid).cloned())
    }

    /// All waiting pods that share what they leave behind, by namespace and name.
    pub fn sharing(&self) -> BTreeSet<(String, String)> {
        let owned = |(namespace, name): (&str, &str)| (namespace.to_owned(), name.to_owned());
        self.line(|line| line.sharing().map(owned).collect())
    }

    /// Waits until such pods were refused, and takes them. Only one may listen. Nothing is
    /// lost when this is dropped.
    pub async fn stood_still(&self) -> BTreeSet<(String, String)> {
        loop {
            let taken = self.stuck(std::mem::take);
            if !taken.is_empty() {
                return taken;
            }
            self.0.bell.notified().await;
        }
    }

    /// There may be room for somebody; the waker looks who that is. Never waits.
    pub fn room(&self, room: Room) {
        self.rooms(|rooms| rooms.add(room));
    }

    /// What was promised to a pod is there for others.
    pub fn given_back(&self, promise: Promise) {
        self.rooms(|rooms| {
            for ip in promise.addresses {
                rooms.add(Room::Address(ip));
            }
            rooms.add(Room::InGroup(promise.group));
        });
    }

    /// Takes all rooms that nobody has looked at; whether there were some.
    #[cfg(test)]
    pub fn had_room(&self) -> bool {
        !self.take_rooms().is_empty()
    }

    /// Waits until there is something to look at, and takes all of it.
    async fn news(&self) -> Rooms {
        loop {
            let noticed = self.0.notify.notified();
            let rooms = self.take_rooms();
            if !rooms.is_empty() {
                return rooms;
            }
            noticed.await;
        }
    }

    fn take_rooms(&self) -> Rooms {
        let mut rooms = self.0.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *rooms)
    }

    /// Whom this concerns, in the order in which they are to be woken.
    fn called(&self, rooms: &Rooms, is_regular: bool) -> Vec<Called> {
        self.line(|line| line.called(rooms, is_regular, Instant::now()))
    }

    /// These are being woken.
    fn woken(&self, uids: &[&str], rooms: &Arc<Rooms>) {
        self.line(|line| line.woken(uids, rooms, Instant::now()));
    }

    /// One of them does not know of it.
    fn not_woken(&self, uid: &str) {
        self.line(|line| line.not_woken(uid));
    }

    /// Revisions may be others than when the pods were refused.
    fn revise(&self, revision: impl Fn(&Claimant) -> Option<u64>) {
        self.line(|line| line.revise(revision));
    }

    fn stuck<R>(&self, look: impl FnOnce(&mut BTreeSet<(String, String)>) -> R) -> R {
        look(&mut self.0.stuck.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn held_up<R>(&self, look: impl FnOnce(&mut BTreeMap<String, HeldUp>) -> R) -> R {
        look(
            &mut self
                .0
                .held_up
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Nobody waits any more, as far as this process is concerned.
    fn clear(&self) {
        self.stuck(BTreeSet::clear);
        self.held_up(BTreeMap::clear);
        self.line(|line| *line = Line::default());
        self.take_rooms();
    }

    /// Those leave who are not among these.
    fn keep(&self, is_there: impl Fn(&str) -> bool) {
        for uid in self.line(|line| line.without(is_there, Instant::now())) {
            self.leave(&uid);
        }
    }

    fn line<R>(&self, look: impl FnOnce(&mut Line) -> R) -> R {
        look(&mut self.0.line.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn rooms(&self, change: impl FnOnce(&mut Rooms)) {
        change(&mut self.0.rooms.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.notify.notify_one();
    }
}

#[cfg(test)]
mod tests;
