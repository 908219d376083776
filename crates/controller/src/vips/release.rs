//! When an address may be given to somebody else: not before its holder has let go.
//!
//! A holder lets go by taking its name out of the register. One that cannot is silent, or
//! has begun another term; then its name is taken out here, by the rules that hold for
//! any other node that would take the addresses: bound to the version that was judged,
//! after a direct look at its lease, and, since no promise was made to or by this
//! process, after the longest time that a node may go on by promises.
//!
//! An address that a `VirtualIP` loses while its holder goes on with others is never
//! acknowledged. It is let go when the addresses have moved since, for whoever took
//! them saw an entry without it; at the latest after [`LIMIT`]. Of an object that is to go no
//! limit frees anything: its holder has to say so, or to be silent.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use floe_api::floe::{
    register::Entry,
    virtualip::{Holding, Move, VirtualIP},
};
use floe_core::vip::{VipId, elect::MoveReason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;
use tracing::info;

use super::server::{Failure, Server, Tenure, silence};

/// After so long an address that an object has lost is freed whatever its holder does. By
/// then a watch that is silent has been opened anew, so a node that lives has seen that it has
/// lost it. A holder that has not let go of a whole object is told of.
pub const LIMIT: Duration = Duration::from_mins(10);

/// Whom is waited for, and since when.
#[derive(Debug, Default)]
pub struct Releases(Mutex<BTreeMap<(VipId, Option<IpAddr>), Waiting>>);

#[derive(Clone, Debug)]
struct Waiting {
    holder: Tenant,
    since: Instant,
    /// The lease of its node, and since when it is so.
    seen: Option<(Tenure, Instant)>,
    /// Since when the lease is known to have another term. What an agent that died has
    /// left in its kernel goes on for a lease after that.
    outdated: Option<Instant>,
    /// What was found, should what follows have to be tried again.
    found: Option<Release>,
    /// Whether it was said that it takes too long.
    is_told: bool,
}

/// A holder, as long as it is the same one in the same term.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tenant {
    node: String,
    uid: String,
    term: i64,
}

/// Whether a holder has let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It has.
    Done,
    /// It has not, and time is up. Of a whole object this is said once.
    Overdue,
    /// It has not.
    NotYet,
}

impl Releases {
    /// Whether the holder of an object that is to go has let go of everything. The entry
    /// has been emptied before, so that nobody takes it anew.
    pub async fn of_all(
        &self,
        id: &VipId,
        vip: &VirtualIP,
        server: &Server,
    ) -> Result<Release, Failure> {
        self.ask(id, None, vip, server).await
    }

    /// Whether the holder of an object has let go of an address that the entry has no
    /// more.
    pub async fn of_one(
        &self,
        id: &VipId,
        ip: IpAddr,
        vip: &VirtualIP,
        server: &Server,
    ) -> Result<Release, Failure> {
        self.ask(id, Some(ip), vip, server).await
    }

    /// Forgets all addresses of an object but those that it has lost.
    pub fn only(&self, id: &VipId, lost: &[IpAddr]) {
        let stays = |ip: &Option<IpAddr>| ip.is_none_or(|ip| lost.contains(&ip));
        self.change(|all| all.retain(|(of, ip), _| of != id || stays(ip)));
    }

    /// Forgets objects that are no more.
    pub fn retain(&self, exists: impl Fn(&VipId) -> bool) {
        self.change(|all| all.retain(|(id, _), _| exists(id)));
    }

    async fn ask(
        &self,
        id: &VipId,
        ip: Option<IpAddr>,
        vip: &VirtualIP,
        server: &Server,
    ) -> Result<Release, Failure> {
        let key = (id.clone(), ip);
        let holder = vip.status.as_ref().and_then(|it| it.holder.as_ref());
        let Some(holder) = holder.map(Tenant::of) else {
            self.change(|all| all.remove(&key));
            return Ok(Release::Done);
        };
        let now = Instant::now();
        let fresh = Waiting {
            holder: holder.clone(),
            since: now,
            seen: None,
            outdated: None,
            found: None,
            is_told: false,
        };
        let (before, is_overdue) = self.change(|all| {
            let waiting = all.entry(key.clone()).or_insert_with(|| fresh.clone());
            if waiting.holder != holder {
                // Counted on from the beginning, but the lease is another one.
                waiting.holder = holder.clone();
                waiting.seen = None;
                waiting.outdated = None;
                waiting.found = waiting.found.or(ip.map(|_| Release::Done));
            }
            let is_late = now.duration_since(waiting.since) >= LIMIT;
            if is_late && ip.is_some() {
                waiting.found.get_or_insert(Release::Overdue);
            }
            let was_told = waiting.is_told;
            waiting.is_told |= is_late;
            (waiting.clone(), is_late && !was_told)
        });
        if let Some(found) = before.found {
            return Ok(found);
        }
        let tenure = server.tenure(&holder.node).await?;
        let same = before.seen.filter(|(seen, _)| *seen == tenure);
        // Time counts from after the answer: the lease was as it is then.
        let since = same.map_or_else(Instant::now, |(_, since)| since);
        let has_other_term = tenure.term.is_some_and(|term| term != holder.term);
        let outdated = before.outdated.or(has_other_term.then(Instant::now));
        let is_over = match outdated {
            Some(since) => since.elapsed() >= silence(true),
            None => is_silent(server, &holder.node, since).await?,
        };
        self.change(|all| {
            if let Some(waiting) = all.get_mut(&key) {
                waiting.seen = Some((tenure, since));
                waiting.outdated = outdated;
            }
        });
        if !is_over {
            return Ok(if is_overdue {
                Release::Overdue
            } else {
                Release::NotYet
            });
        }
        let status = vip.status.as_ref();
        let from = status.and_then(|it| it.holder.as_ref()).map(|it| &it.pod);
        // The count grows whenever a holder loses the addresses: agents rely on it.
        let count = status.map_or(0, |it| it.moves).saturating_add(1);
        let last = Move {
            at: Time(Timestamp::now()),
            reason: MoveReason::NodeSilent.reason().to_owned(),
            from: from.cloned().unwrap_or_default(),
            to: String::new(),
        };
        let entry = Entry {
            holder: None,
            successor: None,
            moves: count,
            last_move: Some(last),
            ..Entry::of(vip)
        };
        server.enter(id, vip, false, entry).await?;
        let VipId { namespace, name } = id;
        let node = holder.node;
        info!(
            namespace,
            name, node, "a holder that serves no more is taken out"
        );
        self.change(|all| all.remove(&key));
        Ok(Release::Done)
    }

    fn change<R>(
        &self,
        change: impl FnOnce(&mut BTreeMap<(VipId, Option<IpAddr>), Waiting>) -> R,
    ) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether a node has written nothing for so long that it serves nothing any more.
async fn is_silent(server: &Server, node: &str, since: Instant) -> Result<bool, Failure> {
    let silent = since.elapsed();
    if silent >= silence(false) {
        return Ok(true);
    }
    Ok(silent >= silence(true) && server.is_out_of_service(node).await?)
}

impl Tenant {
    fn of(holder: &Holding) -> Self {
        Self {
            node: holder.node.clone(),
            uid: holder.uid.clone(),
            term: holder.term,
        }
    }
}
