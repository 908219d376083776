//! Names and hardware addresses of interfaces, and the aliases that say whose they
//! are.
//!
//! Compat: names and hardware addresses are galaxy's, so that people find what they
//! know and either daemon cleans up after the other. galaxy sets no aliases.

use std::{fmt, net::IpAddr};

use crate::{addr, announce::Mac, fingerprint::fingerprint};

/// The longest name of an interface, in bytes.
pub const NAME_MAX: usize = 15;

/// The alias of a bridge that floe made for pods and shares between them.
pub const BRIDGE_ALIAS: &str = "floe:bridge";

/// The alias of a VLAN device that floe made for pods and shares between them.
pub const VLAN_ALIAS: &str = "floe:vlan";

/// How many characters of a container a name has.
const ID: usize = 9;

/// How the name of a veth on the host begins.
const HOST: &str = "v-h";

/// How the alias of a link of one attachment begins.
const OURS: &str = "floe:";

/// The most bytes of a network's name in an alias, and of a container. Together
/// with an interface they fit into the kernel's 255.
const NETWORK_MAX: usize = 128;
const CONTAINER_MAX: usize = 96;

/// The hardware address that belongs to an address, and moves with it: `02:42` and
/// the four bytes of an IPv4 address; `06` and the last four bytes of an IPv6
/// address, mixed with a mark of the other twelve. So no two addresses of one `/96`
/// have the same, and `fd00:1::5` has another one than `fd00:2::5` beside it.
pub fn mac_of(ip: IpAddr) -> Mac {
    match addr::canonical(ip) {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            Mac([0x02, 0x42, a, b, c, d])
        }
        IpAddr::V6(ip) => {
            let (rest, last) = (ip.to_bits() >> 32, ip.to_bits() & u128::from(u32::MAX));
            let mark = fingerprint(&rest.to_be_bytes());
            let mixed = u64::try_from(last).unwrap_or_default() ^ mark;
            let mut mac = [0; 6];
            mac.copy_from_slice(&mixed.to_be_bytes()[2..]);
            mac[0] = 0x06;
            Mac(mac)
        }
    }
}

/// The name of a veth on the host: `v-h`, nine characters of the container and a
/// suffix such as `-l0`. With a long suffix there are fewer characters, so that
/// the kernel takes the name.
pub fn host_veth(container: &str, suffix: &str) -> String {
    let room = NAME_MAX.saturating_sub(HOST.len() + suffix.len());
    format!("{HOST}{}{suffix}", front(container, ID.min(room)))
}

/// The suffix of a veth that galaxy-k8s-vlan makes for the interface `number`.
pub fn vlan_suffix(number: usize) -> String {
    format!("-l{number}")
}

/// The suffix of a veth that galaxy-underlay-veth makes for the interface `number`.
pub fn underlay_suffix(number: usize) -> String {
    format!("-u{number}")
}

/// The name of a veth on the host, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostVeth<'a> {
    /// The characters of the container.
    pub id: &'a str,
    /// The suffix, `-l<number>` or `-u<number>`; empty for galaxy's overlay plugins.
    /// While their container lives such links are their own plugins' to remove. Of a
    /// container that is gone they go with everything else, see
    /// [`stale`](super::stale).
    pub suffix: &'a str,
}

impl<'a> HostVeth<'a> {
    /// Takes a name apart; nothing if it is not one of a veth on the host.
    pub fn parse(name: &'a str) -> Option<Self> {
        let rest = name.strip_prefix(HOST)?;
        let cut = rest
            .rfind('-')
            .filter(|cut| number(&rest[*cut..]).is_some())
            .unwrap_or(rest.len());
        let (id, suffix) = rest.split_at(cut);
        (!id.is_empty()).then_some(Self { id, suffix })
    }

    /// Whether it is the name of a veth of this container.
    pub fn is_of(&self, container: &str) -> bool {
        let name = host_veth(container, self.suffix);
        HostVeth::parse(&name) == Some(*self)
    }

    /// The number of its interface.
    pub fn number(&self) -> Option<usize> {
        number(self.suffix)
    }
}

/// Whose a link is. It is the link's alias, `floe:<network>:<container>:<interface>`,
/// and the only thing by which floe knows the links of an attachment again.
///
/// Neither a container nor an interface can contain `:`; the CNI specification and
/// the kernel forbid it. The specification forbids it in a network's name too. If
/// there is one, the alias is read rightly nonetheless, for it is read from its end.
///
/// A network or container that is too long for an alias is shortened, with a hash
/// at its end; so compare with aliases that [`Alias::new`] made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alias {
    /// The network's name.
    pub network: String,
    /// The container.
    pub container: String,
    /// The interface that the runtime named, `CNI_IFNAME`. Every interface that is
    /// made in the same call has it in its alias.
    pub ifname: String,
}

impl Alias {
    /// The alias of the links of an attachment.
    pub fn new(network: &str, container: &str, ifname: &str) -> Self {
        Self {
            network: shortened(network, NETWORK_MAX),
            container: shortened(container, CONTAINER_MAX),
            ifname: ifname.to_owned(),
        }
    }

    /// Reads the alias of a link; nothing if it is not one of an attachment.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(OURS)?.rsplitn(3, ':');
        let (ifname, container, network) = (parts.next()?, parts.next()?, parts.next()?);
        if network.is_empty() || container.is_empty() || ifname.is_empty() {
            return None;
        }
        Some(Self {
            network: network.to_owned(),
            container: container.to_owned(),
            ifname: ifname.to_owned(),
        })
    }

    /// Whether it is of an attachment to this network.
    pub fn is_of_network(&self, network: &str) -> bool {
        self.network == shortened(network, NETWORK_MAX)
    }

    /// Whether it is of an attachment of this container.
    pub fn is_of_container(&self, container: &str) -> bool {
        self.container == shortened(container, CONTAINER_MAX)
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            network,
            container,
            ifname,
        } = self;
        write!(out, "{OURS}{network}:{container}:{ifname}")
    }
}

/// The text of the alias of an attachment's links, see [`Alias`].
pub fn alias(network: &str, container: &str, ifname: &str) -> String {
    Alias::new(network, container, ifname).to_string()
}

/// The number in `-l<number>` or `-u<number>`.
fn number(suffix: &str) -> Option<usize> {
    let digits = suffix
        .strip_prefix("-l")
        .or_else(|| suffix.strip_prefix("-u"))?;
    // `parse` alone would take `+1`.
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

/// As many bytes from the front of a text as there is room for, whole characters.
fn front(text: &str, room: usize) -> &str {
    &text[..text.floor_char_boundary(room)]
}

/// The text, or its front and a hash of all of it if it is too long.
fn shortened(text: &str, room: usize) -> String {
    if text.len() <= room {
        return text.to_owned();
    }
    format!(
        "{}-{:016x}",
        front(text, room - 17),
        fingerprint(text.as_bytes())
    )
}

#[cfg(test)]
mod tests;
