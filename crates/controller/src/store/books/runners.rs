//! Running pods come first: their addresses, and whether all of them were looked at.
//!
//! A record can be lost: somebody deletes it, or etcd is restored from a snapshot
//! that is older than it. The address is then free by the records and in use all the
//! same. So nothing is handed out until whoever adopts has looked at all running
//! pods, after each complete list of records anew; and an address that a running pod
//! was seen with is set aside for that pod in the very step that loses its record.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use floe_core::ipam::{key::HolderKey, ledger::Promise};
use jiff::SignedDuration;
use tokio::sync::watch;

use super::Books;
use crate::clock;

/// How long an address without record is set aside for the pod that runs with it.
/// Whoever adopts tries again more often than that.
const ASIDE: SignedDuration = SignedDuration::from_mins(10);

/// What is known of running pods.
#[derive(Debug)]
pub(super) struct Runners {
    /// The uid of the pod that runs with an address.
    by_address: BTreeMap<IpAddr, String>,
    /// The round that has to be over before anything is handed out.
    wanted: u64,
    /// The last round that is over.
    over: u64,
    serves: watch::Sender<bool>,
}

impl Default for Runners {
    fn default() -> Self {
        Self {
            by_address: BTreeMap::new(),
            wanted: 0,
            over: 0,
            serves: watch::Sender::new(true),
        }
    }
}

impl Books {
    /// Whether addresses may be handed out: no round over the running pods is due.
    pub fn serves(&self) -> bool {
        self.runners.wanted == self.runners.over
    }

    /// Where others learn whether addresses may be handed out.
    pub fn serving(&self) -> watch::Receiver<bool> {
        self.runners.serves.subscribe()
    }

    /// Asks for a round over all running pods; until it is over nothing is handed out.
    pub fn want_round(&mut self) {
        self.runners.wanted += 1;
        self.runners.serves.send_replace(false);
    }

    /// The round that has to be over before anything is handed out.
    pub fn round(&self) -> u64 {
        self.runners.wanted
    }

    /// A round is over. Returns whether addresses may be handed out now that could
    /// not before: not if another round was asked for since this one began.
    pub fn round_over(&mut self, round: u64) -> bool {
        let news = !self.serves() && round == self.runners.wanted;
        if news {
            self.runners.over = round;
            self.runners.serves.send_replace(true);
        }
        news
    }

    /// A pod runs with these addresses. Those without record are set aside for it.
    pub fn runs_with(&mut self, uid: &str, addresses: &[IpAddr]) {
        for ip in addresses {
            self.runners.by_address.insert(*ip, uid.to_owned());
        }
        self.set_aside(uid, addresses);
    }

    /// A pod does not run with these addresses any more.
    pub fn runs_without(&mut self, uid: &str, addresses: &[IpAddr]) {
        for ip in addresses {
            if self.runner(*ip) == Some(uid) {
                self.runners.by_address.remove(ip);
            }
        }
        self.set_free(uid);
    }

    /// The uid of the pod that runs with an address, as far as somebody looks.
    pub fn runner(&self, ip: IpAddr) -> Option<&str> {
        self.runners.by_address.get(&ip).map(String::as_str)
    }

    /// Forgets what pods run with, because nobody looks any more, or anew.
    pub fn forget_runners(&mut self) {
        for uid in std::mem::take(&mut self.runners.by_address).into_values() {
            self.set_free(&uid);
        }
    }

    /// Sets the addresses of a pod aside that have no record, so that nobody else
    /// gets them before they are adopted.
    pub fn set_aside(&mut self, uid: &str, addresses: &[IpAddr]) {
        let id = id(uid);
        let mut lost: BTreeSet<IpAddr> = addresses.iter().copied().collect();
        if let Some(before) = self.ledger.withdraw(&id) {
            lost.extend(before.addresses);
        }
        lost.retain(|ip| self.ledger.record(*ip).is_none());
        if lost.is_empty() {
            return;
        }
        // A group that no pod belongs to: the limits of others do not count it.
        let group = HolderKey::from(id.as_str());
        let promise = Promise {
            app_prefix: group.clone(),
            group,
            namespace: String::new(),
            places: 0,
            addresses: lost,
            until: clock::now() + ASIDE,
        };
        self.ledger.promise(&id, promise);
    }

    /// Nothing is set aside for a running pod any more: its records are there, or it is
    /// not to have them.
    pub fn set_free(&mut self, uid: &str) {
        self.ledger.withdraw(&id(uid));
    }

    pub(super) fn lost(&mut self, ip: IpAddr) {
        if let Some(uid) = self.runner(ip).map(str::to_owned) {
            self.set_aside(&uid, &[ip]);
        }
    }
}

/// Under what the addresses of a running pod are set aside; no pod has such a uid.
fn id(uid: &str) -> String {
    format!("adopt/{uid}")
}

#[cfg(test)]
mod tests;
