//! Which virtual functions pods have, written down before anything is changed, so
//! that each comes back whatever happens.

use floe_core::{announce::Mac, node::notes::Topic};
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
