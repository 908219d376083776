//! One entry of the address configuration.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;
use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::addr::IpSet;

/// A block of pod addresses, how they reach the network, and whose nodes may
/// host them.
///
/// Addresses, gateway and network are of one family. The node subnets may be
/// of the other: a node is known by one address, and may still host both kinds
/// of pod addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub(super) index: usize,
    pub(super) addresses: IpSet,
    pub(super) shared: Shared,
    pub(super) attachment: Attachment,
}

/// What an entry sets aside for addresses that several pods share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shared {
    pub addresses: IpSet,
    /// `None` for all.
    pub namespaces: Option<BTreeSet<String>>,
}

/// What every address of an entry shares: how a pod with it is attached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attachment {
    pub gateway: IpAddr,
    pub prefix_len: u8,
    pub vlan: u16,
    pub node_subnets: BTreeSet<IpNet>,
}

/// The name of an entry inside one [`AddressConfig`](super::AddressConfig): its
/// place in ascending order of gateways. Another configuration names anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub(super) usize);

impl EntryId {
    /// The place in [`AddressConfig::entries`](super::AddressConfig::entries).
    pub fn position(self) -> usize {
        self.0
    }
}

impl Entry {
    /// The place in the array that the user wrote, for messages.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The subnets whose nodes may host the addresses, without host bits.
    pub fn node_subnets(&self) -> &BTreeSet<IpNet> {
        &self.attachment.node_subnets
    }

    /// The addresses for pods; may be empty.
    pub fn addresses(&self) -> &IpSet {
        &self.addresses
    }

    /// The addresses that several pods may share; no pod gets one of them for itself.
    pub fn shared(&self) -> &IpSet {
        &self.shared.addresses
    }

    /// The namespaces that may have the shared addresses; `None` for all.
    pub fn allowed_namespaces(&self) -> Option<&BTreeSet<String>> {
        self.shared.namespaces.as_ref()
    }

    /// Whether a namespace may have the shared addresses.
    pub fn allows(&self, namespace: &str) -> bool {
        let allowed = self.allowed_namespaces();
        allowed.is_none_or(|names| names.contains(namespace))
    }

    /// The gateway of the pods.
    pub fn gateway(&self) -> IpAddr {
        self.attachment.gateway
    }

    /// The length of the network mask of the pods.
    pub fn prefix_len(&self) -> u8 {
        self.attachment.prefix_len
    }

    /// The VLAN of the pods; 0 is untagged.
    pub fn vlan(&self) -> u16 {
        self.attachment.vlan
    }

    /// The network of the pods, computed from gateway and mask.
    pub fn network(&self) -> IpNet {
        self.attachment.network()
    }

    /// The lowest address, by which metrics tell entries of one network apart.
    pub fn first_ip(&self) -> Option<IpAddr> {
        self.addresses.first()
    }
}

impl Attachment {
    pub fn network(&self) -> IpNet {
        IpNet::new(self.gateway, self.prefix_len)
            .expect("the length was parsed as part of a subnet of the gateway's family")
            .trunc()
    }
}

impl Serialize for Entry {
    /// Compat: galaxy's form and order of members. `vlan` is left out when 0,
    /// `subnet` is the computed network, and a range of one address has no `~`.
    /// What galaxy does not know comes last, and only when it is there.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tagged = self.vlan() != 0;
        let shares = !self.shared().is_empty();
        let names = self.allowed_namespaces();
        let more = [tagged, shares, names.is_some()];
        let members = 4 + more.into_iter().filter(|there| *there).count();
        let mut out = serializer.serialize_struct("Entry", members)?;
        out.serialize_field("nodeSubnets", self.node_subnets())?;
        out.serialize_field("ips", &self.addresses)?;
        out.serialize_field("subnet", &self.network())?;
        out.serialize_field("gateway", &self.gateway())?;
        if tagged {
            out.serialize_field("vlan", &self.vlan())?;
        }
        if shares {
            out.serialize_field("shared", self.shared())?;
        }
        if let Some(names) = names {
            out.serialize_field("allowedNamespaces", names)?;
        }
        out.end()
    }
}
