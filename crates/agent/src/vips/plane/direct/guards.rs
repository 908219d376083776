//! The guards inside the network namespaces of pods ([`PodRules`]).
//!
//! They stay for as long as the namespace does: a socket may go on sending from an address that
//! the pod has given back.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use floe_core::vip::rules::PodRules;
use floe_net::nft::Nft;

use super::{RoomError, enter};
use crate::vips::plan::Links;

/// How long a script may take. A pod can hold up what is done in its namespace, and everything
/// else that the node serves waits meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was written into the namespaces of pods.
#[derive(Debug)]
pub struct Guards {
    nft: Nft,
    written: BTreeMap<PathBuf, Guard>,
}

#[derive(Clone, Debug, Default)]
struct Guard {
    links: Links,
    rules: PodRules,
    /// Whether the kernel has exactly these rules.
    is_sure: bool,
}

impl Default for Guards {
    fn default() -> Self {
        Self {
            nft: Nft::default().within(PATIENCE),
            written: BTreeMap::new(),
        }
    }
}

impl Guards {
    /// Lets a pod speak for the addresses that are lent to it, and for none that were lent before.
    /// Does nothing if that is so already.
    pub fn put(
        &mut self,
        netns: &Path,
        links: &Links,
        lent: BTreeSet<IpAddr>,
    ) -> Result<(), RoomError> {
        let mut guard = self.written.get(netns).cloned().unwrap_or_default();
        if guard.is_sure && guard.links == *links && *guard.rules.lent() == lent {
            return Ok(());
        }
        guard.links.clone_from(links);
        guard.rules.guard(links.keys())?;
        guard.rules.lend(lent);
        self.write(netns, guard)
    }

    /// Lets pods no longer speak for addresses that are not `wanted`. Returns the namespaces in
    /// which that failed.
    pub fn narrow(
        &mut self,
        wanted: impl Fn(&Path, IpAddr) -> bool,
    ) -> BTreeMap<PathBuf, RoomError> {
        let mut failures = BTreeMap::new();
        for (netns, mut guard) in self.written.clone() {
            let lent = guard.rules.lent();
            let remaining: BTreeSet<IpAddr> = lent
                .iter()
                .copied()
                .filter(|ip| wanted(&netns, *ip))
                .collect();
            if remaining == *lent {
                continue;
            }
            guard.rules.lend(remaining);
            if let Err(error) = self.write(&netns, guard) {
                failures.insert(netns, error);
            }
        }
        failures
    }

    /// Writes the guard of a namespace again when it is needed the next time.
    pub fn doubt(&mut self, netns: &Path) {
        if let Some(guard) = self.written.get_mut(netns) {
            guard.is_sure = false;
        }
    }

    /// Forgets namespaces that are gone.
    pub fn tidy(&mut self) {
        self.written.retain(|netns, _| netns.exists());
    }

    /// If this fails, the guard is still taken for the previous one, and the next call tries again.
    fn write(&mut self, path: &Path, guard: Guard) -> Result<(), RoomError> {
        let Some(netns) = enter(path)? else {
            self.written.remove(path);
            return Ok(());
        };
        // nft may have applied the script although it failed or was killed.
        self.doubt(path);
        netns.run(|| self.nft.apply(&guard.rules.script()))??;
        let is_sure = true;
        self.written
            .insert(path.to_owned(), Guard { is_sure, ..guard });
        Ok(())
    }
}
