//! Which virtual functions pods have, written down before anything is changed, so
//! that each comes back whatever happens.

use std::{
    io,
    time::{Duration, Instant},
};

use floe_core::{
    announce::Mac,
    cni::{config::Attachment, error::CniError},
    node::notes::Topic,
};
use floe_net::lock::Lock;
use serde::{Deserialize, Serialize};

use super::card::Function;
use crate::{notes::Notes, request::Places};

/// The functions of one attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The network.
    pub network: String,
    /// The plugin. The agent calls it when a DEL was lost; see
    /// [`floe_core::node::notes`].
    #[serde(default)]
    pub kind: String,
    /// The link of their card.
    pub device: String,
    /// The namespace that they went to.
    pub netns: String,
    /// The functions.
    pub functions: Vec<Leased>,
}

/// A function that a pod has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leased {
    /// Its number on the card.
    pub number: u32,
    /// Its PCI address.
    pub pci: String,
    /// The name that its link had.
    pub link: String,
    /// The hardware address that it had.
    pub mac: Option<[u8; 6]>,
    /// The MTU that it had.
    #[serde(default)]
    pub mtu: Option<u32>,
}

impl Lease {
    /// Whether a function is among them.
    pub fn has(&self, pci: &str) -> bool {
        self.functions.iter().any(|it| it.pci == pci)
    }

    /// Writes it down; what was written. A function that an old lease still names, because
    /// it came back too late, is not any more what it was before: that is taken over, and
    /// the old lease has it no longer. So one lease at most names a function.
    ///
    /// # Assumptions
    /// The caller has the turns of all its functions.
    pub fn replace_others(
        mut self,
        places: &Places,
        attachment: &Attachment,
    ) -> Result<Self, CniError> {
        // Two calls could change an old lease at once.
        let _alone = places.lock()?;
        let notes = notes(places);
        for other in notes.all()?.iter().filter(|it| *it != attachment) {
            let Some(old) = notes.read::<Self>(other)? else {
                continue;
            };
            for own in &mut self.functions {
                let known = old.functions.iter().find(|it| it.pci == own.pci);
                if let Some(known) = known {
                    own.clone_from(known);
                }
            }
            let is_ours = |it: &Leased| self.has(&it.pci);
            drop_from(&notes, other, old, is_ours)?;
        }
        notes.write(attachment, &self)?;
        Ok(self)
    }
}

/// Forgets that an attachment has these functions.
pub fn forget(places: &Places, attachment: &Attachment, pcis: &[&str]) -> Result<(), CniError> {
    let _alone = places.lock()?;
    let notes = notes(places);
    match notes.read::<Lease>(attachment)? {
        Some(lease) => drop_from(&notes, attachment, lease, |it| pcis.contains(&&*it.pci)),
        None => Ok(()),
    }
}

/// The turn to use a function, at most after this time.
///
/// # Errors
/// `TimedOut`.
pub fn turn(places: &Places, pci: &str, patience: Duration) -> io::Result<Lock> {
    let path = places.run.join("functions").join(pci);
    Lock::take(&path, Instant::now() + patience)
}

fn drop_from(
    notes: &Notes,
    attachment: &Attachment,
    mut lease: Lease,
    goes: impl Fn(&Leased) -> bool,
) -> Result<(), CniError> {
    let before = lease.functions.len();
    lease.functions.retain(|it| !goes(it));
    if lease.functions.is_empty() {
        return notes.remove(attachment);
    }
    if lease.functions.len() < before {
        notes.write(attachment, &lease)?;
    }
    Ok(())
}

impl Leased {
    /// The function itself.
    pub fn function(&self) -> Function {
        Function {
            number: self.number,
            pci: self.pci.clone(),
        }
    }

    /// The hardware address that it had.
    pub fn mac(&self) -> Option<Mac> {
        self.mac.map(Mac)
    }
}

/// Who has which functions.
pub fn notes(places: &Places) -> Notes {
    Notes::about(places, Topic::Functions)
}

#[cfg(test)]
mod tests {
    use floe_core::node::notes::Note;

    use super::*;

    fn function(pci: &str, link: &str) -> Leased {
        Leased {
            number: 1,
            pci: pci.into(),
            link: link.into(),
            mac: Some([2, 0, 0, 0, 0, 1]),
            mtu: Some(1500),
        }
    }

    fn lease(functions: &[Leased]) -> Lease {
        Lease {
            functions: functions.to_vec(),
            ..Lease::default()
        }
    }

    #[test]
    fn a_function_that_came_back_late_belongs_to_who_took_it_and_is_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places {
            run: folder.path().join("run"),
            state: folder.path().join("state"),
        };
        let [old, new] = ["old", "new"].map(|container| Attachment {
            container: container.into(),
            ifname: "eth0".into(),
        });
        let read = |of: &Attachment| notes(&places).read::<Lease>(of).unwrap();
        let first = lease(&[function("a", "ens1v0"), function("b", "ens1v1")]);
        first.replace_others(&places, &old).unwrap();
        let late = Leased {
            mac: Some([2, 0x42, 10, 0, 0, 5]),
            mtu: Some(9000),
            ..function("a", "dev7")
        };
        let second = lease(&[late, function("c", "ens1v2")]);
        let written = second.replace_others(&places, &new).unwrap();
        let expected = lease(&[function("a", "ens1v0"), function("c", "ens1v2")]);
        assert_eq!(written, expected);
        assert_eq!(read(&new), Some(expected));
        assert_eq!(read(&old), Some(lease(&[function("b", "ens1v1")])));
        forget(&places, &new, &["c"]).unwrap();
        assert_eq!(read(&new), Some(lease(&[function("a", "ens1v0")])));
        for _ in 0..2 {
            forget(&places, &new, &["a", "b"]).unwrap();
            assert_eq!(read(&new), None);
        }
    }

    #[test]
    fn the_agent_can_read_whose_they_are() {
        let lease = Lease {
            network: "fast".into(),
            kind: "galaxy-k8s-sriov".into(),
            ..Lease::default()
        };
        let text = serde_json::to_vec(&lease).unwrap();
        let note = Note::read(Topic::Functions, "a:eth0.json", &text).unwrap();
        assert_eq!((&*note.network, &*note.kind), ("fast", "galaxy-k8s-sriov"));
        // Those that were written before the plugin was in them stay readable.
        let old = r#"{"network":"fast","device":"ens1","netns":"/n","functions":[]}"#;
        let old: Lease = serde_json::from_str(old).unwrap();
        assert_eq!(old.device, "ens1");
    }
}
