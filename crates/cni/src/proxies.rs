//! Which IPv6 addresses the host answers for on its devices, written down.
//!
//! Unlike routes, these entries do not go with the pod's link. Nothing in the kernel
//! tells whose they are, so a file for each attachment does.

use std::net::IpAddr;

use floe_core::{
    cni::{config::Attachment, error::CniError},
    node::notes::Topic,
};
use floe_net::netlink::{Neighbour, Netlink};
use serde::{Deserialize, Serialize};

use crate::{
    fail::kernel,
    notes::Notes,
    request::{Places, Request},
};

/// What the host answers for because of one attachment.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxies {
    network: String,
    /// The plugin. The agent calls it when a DEL was lost; see
    /// [`floe_core::node::notes`].
    #[serde(default)]
    kind: String,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    device: String,
    ip: IpAddr,
}

impl Proxies {
    /// Nothing yet.
    pub fn new(request: &Request<'_>) -> Self {
        Self {
            network: request.conf.name.clone(),
            kind: request.conf.kind.clone(),
            entries: Vec::new(),
        }
    }

    /// Adds an address of a device; of IPv4 there is nothing to remember.
    pub fn add(&mut self, device: &str, ip: IpAddr) {
        if ip.is_ipv6() {
            let device = device.to_owned();
            self.entries.push(Entry { device, ip });
        }
    }

    /// Writes them down, before the host answers for the first of them; whether there
    /// are any.
    pub fn write(&self, request: &Request<'_>) -> Result<bool, CniError> {
        if self.entries.is_empty() {
            return Ok(false);
        }
        // See `withdraw`.
        let _lock = request.places.lock()?;
        notes(request.places).write(&request.attachment(), self)?;
        Ok(true)
    }
}

/// Ends that the host answers for what an attachment had.
pub fn withdraw(
    host: &mut Netlink,
    places: &Places,
    attachment: &Attachment,
) -> Result<(), CniError> {
    let notes = notes(places);
    if !notes.has(attachment) {
        return Ok(());
    }
    // An address may belong to another pod of this host by now. Under the lock
    // either its file is there and the entry stays, or it makes the entry later.
    let _lock = places.lock()?;
    let own: Proxies = notes.read(attachment)?.unwrap_or_default();
    let mut others = Vec::new();
    for other in notes.all()?.iter().filter(|it| *it != attachment) {
        let other: Proxies = notes.read(other)?.unwrap_or_default();
        others.extend(other.entries);
    }
    for entry in own.entries.iter().filter(|it| !others.contains(it)) {
        if let Some(link) = host.link(&entry.device).map_err(kernel)? {
            host.remove_neighbour(&Neighbour {
                link: link.index,
                ip: entry.ip,
                mac: None,
                is_proxy: true,
                is_permanent: false,
            })
            .map_err(kernel)?;
        }
    }
    notes.remove(attachment)
}

/// The attachments of a network that have something written down.
pub fn of_network(places: &Places, network: &str) -> Result<Vec<Attachment>, CniError> {
    let notes = notes(places);
    let mut found = Vec::new();
    for attachment in notes.all()? {
        let found_there: Option<Proxies> = notes.read(&attachment)?;
        if found_there.is_some_and(|it| it.network == network) {
            found.push(attachment);
        }
    }
    Ok(found)
}

fn notes(places: &Places) -> Notes {
    Notes::about(places, Topic::Proxies)
}

#[cfg(test)]
mod tests {
    use floe_core::node::notes::Note;

    use super::*;

    #[test]
    fn only_attachments_of_the_network_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places {
            run: folder.path().into(),
            state: folder.path().into(),
        };
        assert_eq!(of_network(&places, "one").unwrap(), []);
        for (container, network) in [("a", "one"), ("b", "two")] {
            let attachment = Attachment {
                container: container.into(),
                ifname: "eth0".into(),
            };
            let proxies = Proxies {
                network: network.into(),
                kind: "galaxy-underlay-veth".into(),
                entries: Vec::new(),
            };
            notes(&places).write(&attachment, &proxies).unwrap();
        }
        let found = of_network(&places, "one").unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].container, "a");
    }

    #[test]
    fn the_agent_can_read_whose_they_are() {
        let proxies = Proxies {
            network: "one".into(),
            kind: "galaxy-k8s-vlan".into(),
            entries: Vec::new(),
        };
        let text = serde_json::to_vec(&proxies).unwrap();
        let note = Note::read(Topic::Proxies, "a:eth0.json", &text).unwrap();
        assert_eq!((&*note.network, &*note.kind), ("one", "galaxy-k8s-vlan"));
        // Those that were written before the plugin was in them stay readable.
        let old: Proxies = serde_json::from_str(r#"{"network":"one","entries":[]}"#).unwrap();
        assert_eq!(old.network, "one");
    }
}
