//! The guards inside the network namespaces of pods ([`PodRules`]): what each of them guards.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::{Path, PathBuf},
};

use floe_core::vip::rules::{ANNOUNCEMENTS, PodRules, removal};
use floe_net::nft::Nft;
use tracing::debug;

use super::{RoomError, enter};
use crate::vips::plan::Loan;

/// What was written into the namespaces of pods.
#[derive(Debug, Default)]
pub struct Guards {
    nft: Nft,
    written: BTreeMap<PathBuf, Guard>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Guard {
    links: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
}

impl Guard {
    fn add(&mut self, loan: &Loan) {
        self.links.insert(loan.room.name.clone());
        self.addresses.insert(loan.ip);
    }
}

impl Guards {
    /// Guards an address besides what is guarded already. Does nothing if it is.
    pub fn add(&mut self, loan: &Loan) -> Result<(), RoomError> {
        let netns = &loan.room.netns;
        let known = self.written.get(netns);
        let mut guard = known.cloned().unwrap_or_default();
        guard.add(loan);
        if known == Some(&guard) {
            return Ok(());
        }
        self.write(netns, guard)
    }

    /// Guards nothing but these.
    pub fn keep_only<'a>(&mut self, loans: impl Iterator<Item = &'a Loan>) {
        let mut wanted: BTreeMap<&Path, Guard> = BTreeMap::new();
        for loan in loans {
            wanted.entry(&loan.room.netns).or_default().add(loan);
        }
        for (netns, guard) in self.written.clone() {
            let done = match wanted.remove(&*netns) {
                Some(left) if left == guard => Ok(()),
                Some(left) => self.write(&netns, left),
                None => self.remove(&netns),
            };
            if let Err(error) = done {
                // It guards more than it has to, until the next time.
                debug!(%error, "cannot reduce the guard of a pod");
            }
        }
    }

    /// Writes the guard of a namespace again when it is needed the next time.
    pub fn doubt(&mut self, netns: &Path) {
        self.written.remove(netns);
    }

    fn write(&mut self, path: &Path, guard: Guard) -> Result<(), RoomError> {
        let Some(netns) = enter(path)? else {
            self.written.remove(path);
            return Ok(());
        };
        let script = PodRules::new(&guard.links, &guard.addresses)?.script();
        netns.run(|| self.nft.apply(&script))??;
        self.written.insert(path.to_owned(), guard);
        Ok(())
    }

    fn remove(&mut self, path: &Path) -> Result<(), RoomError> {
        if let Some(netns) = enter(path)? {
            netns.run(|| self.nft.apply(&removal(ANNOUNCEMENTS)))??;
        }
        self.written.remove(path);
        Ok(())
    }
}
