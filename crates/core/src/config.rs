//! The address configuration: which addresses pods may get, and on which nodes.
//!
//! Its text is galaxy's JSON array. [`AddressConfig::parse`] turns it into
//! checked entries; nothing later looks at the text again. Every entry of the
//! result is sound: its addresses lie in its network, are not its gateway, and
//! belong to no other entry. That also holds for those that it sets aside to be
//! shared by several pods, a member that galaxy ignores.
//!
//! - [`problem`]: what can be wrong, with the exact entry and field.
//! - [`topology`]: which node may use which entries.
//! - [`change`]: what a new configuration changes for the addresses.
//! - [`file`](mod@file): galaxy-ipam's own JSON file.

use serde::Serialize;

use crate::addr::IpSet;

pub use self::{
    change::Change,
    entry::{Entry, EntryId},
    file::FileConfig,
    problem::{Fault, LeftOut, Problem, Refused},
    topology::Topology,
};

pub mod change;
mod check;
pub mod entry;
pub mod file;
mod json;
mod parse;
pub mod problem;
pub mod topology;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

/// A checked address configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct AddressConfig {
    entries: Vec<Entry>,
}

/// How to treat what galaxy accepts and floe does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Any problem refuses the whole text. For a change at run time: the old
    /// configuration is good and stays in force.
    Strict,
    /// What galaxy accepts is accepted; the offending addresses or entries are
    /// left out. For the first start, where there is nothing to fall back to.
    Lenient,
}

/// A configuration that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// What is in force from now on.
    pub config: AddressConfig,
    /// What was left out and why; always empty in [`Mode::Strict`].
    pub problems: Vec<Problem>,
}

impl AddressConfig {
    /// Reads and checks the JSON text. A refusal names all problems, not only
    /// the first.
    pub fn parse(text: &str, mode: Mode) -> Result<Loaded, Refused> {
        let mut problems = Vec::new();
        let drafts = parse::drafts(text, &mut problems);
        let mut entries = check::entries(drafts, &mut problems);
        // In the order in which a person reads the text.
        problems.sort_by_key(|problem| problem.entry);
        let refused = match mode {
            Mode::Strict => !problems.is_empty(),
            Mode::Lenient => problems.iter().any(|problem| problem.left_out.is_none()),
        };
        if refused {
            return Err(Refused { problems });
        }
        // Gateways may be equal; the place in the text then decides.
        entries.sort_by_key(|entry| (entry.gateway(), entry.index()));
        Ok(Loaded {
            config: Self { entries },
            problems,
        })
    }

    /// The entries in ascending order of their gateways, IPv4 first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries with the names by which [`Topology`] calls them.
    pub fn enumerate(&self) -> impl Iterator<Item = (EntryId, &Entry)> {
        let ids = (0..).map(EntryId);
        ids.zip(&self.entries)
    }

    /// The entry with that name. The name must come from this configuration.
    pub fn entry(&self, id: EntryId) -> &Entry {
        &self.entries[id.0]
    }

    /// All addresses that are set aside to be shared.
    pub fn shared(&self) -> IpSet {
        let entries = self.entries.iter();
        entries.flat_map(|entry| entry.shared().ranges()).collect()
    }

    /// All configured addresses for pods.
    pub fn addresses(&self) -> IpSet {
        let entries = self.entries.iter();
        entries
            .flat_map(|entry| entry.addresses().ranges())
            .collect()
    }
}
