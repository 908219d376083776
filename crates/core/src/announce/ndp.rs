//! Neighbour solicitations and advertisements, with their Ethernet header.

use std::net::Ipv6Addr;

use super::{HEADER, Mac, header, open};

/// The Ethernet type of IPv6.
pub const ETHERTYPE: u16 = 0x86dd;

/// All nodes of a segment.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The length of an IPv6 header.
const IP_HEADER: usize = 40;

/// The length of both messages without options: type, code, checksum, four bytes
/// of flags, target.
const MESSAGE: usize = 24;

/// The number of ICMP for IPv6 in an IPv6 header.
const ICMPV6: u8 = 58;

/// The hop limit of every packet of neighbour discovery. No router lets it pass,
/// so whoever sent it is on the segment.
const HOPS: u8 = 255;

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

const SOURCE_OPTION: u8 = 1;
const TARGET_OPTION: u8 = 2;

/// What a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Who has the target?
    Solicitation,
    /// The target is here.
    Advertisement {
        /// It answers a question.
        solicited: bool,
        /// It overrides what is known already.
        overrides: bool,
    },
}

/// A packet of neighbour discovery, checked as RFC 4861 section 7.1 asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What it says.
    pub message: Message,
    /// Who sends its frame.
    pub frame_mac: Mac,
    /// The address that it comes from; unspecified in a probe.
    pub source: Ipv6Addr,
    /// The address that it goes to.
    pub destination: Ipv6Addr,
    /// The address that it is about.
    pub target: Ipv6Addr,
    /// The hardware address that it carries: of the source in a solicitation, of
    /// the target in an advertisement.
    pub link_mac: Option<Mac>,
}

/// Asks who has `target` without saying anything about oneself, as RFC 4862
/// section 5.4.2 describes.
pub fn probe(own: Mac, target: Ipv6Addr) -> Vec<u8> {
    Draft {
        source: Ipv6Addr::UNSPECIFIED,
        destination: solicited_node(target),
        kind: SOLICITATION,
        flags: 0,
        target,
        option: None,
    }
    .frame(own)
}

/// Asks who has `target`, on behalf of `sender`, which is learned by those who
/// hear it. Proxies answer it too.
pub fn solicitation(own: Mac, sender: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    Draft {
        source: sender,
        destination: solicited_node(target),
        kind: SOLICITATION,
        flags: 0,
        target,
        option: Some((SOURCE_OPTION, own)),
    }
    .frame(own)
}

/// Tells everybody that `ip` lives at `mac`, whatever they know.
pub fn advertisement(mac: Mac, ip: Ipv6Addr) -> Vec<u8> {
    Draft {
        source: ip,
        destination: ALL_NODES,
        kind: ADVERTISEMENT,
        flags: OVERRIDE,
        target: ip,
        option: Some((TARGET_OPTION, mac)),
    }
    .frame(mac)
}

/// Answers a question, to whoever asked it: its target lives at `own`. Who asked
/// without an address is answered among all, see RFC 4861 section 7.2.4.
pub fn answer(own: Mac, question: &Packet) -> Vec<u8> {
    let is_probe = question.source.is_unspecified();
    let (destination, flags) = if is_probe {
        (ALL_NODES, OVERRIDE)
    } else {
        (question.source, SOLICITED | OVERRIDE)
    };
    let mut frame = Draft {
        source: question.target,
        destination,
        kind: ADVERTISEMENT,
        flags,
        target: question.target,
        option: Some((TARGET_OPTION, own)),
    }
    .frame(own);
    if !is_probe {
        let asker = question.link_mac.unwrap_or(question.frame_mac);
        frame[..6].copy_from_slice(&asker.0);
    }
    frame
}

/// The group that whoever has `ip` listens to.
pub fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = ip.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// The hardware address of a group, see RFC 2464 section 7. An interface that has
/// not joined it may never see the group's frames.
pub fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

/// The packet in a frame; nothing if it is not a valid solicitation or
/// advertisement. Whatever follows the packet is padding.
///
/// Packets with extension headers are not looked at: nobody has a reason to send
/// them, and fragments are forbidden (RFC 6980).
pub fn parse(frame: &[u8]) -> Option<Packet> {
    let (frame_mac, payload) = open(frame, ETHERTYPE)?;
    let (ip, payload) = payload.split_first_chunk::<IP_HEADER>()?;
    if ip[0] >> 4 != 6 || ip[6] != ICMPV6 || ip[7] != HOPS {
        return None;
    }
    let source = Ipv6Addr::from(*ip[8..].first_chunk::<16>()?);
    let destination = Ipv6Addr::from(*ip[24..].first_chunk::<16>()?);
    let length = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
    let icmp = payload.get(..length)?;
    if checksum(source, destination, icmp) != 0 {
        return None;
    }
    let (fixed, rest) = icmp.split_first_chunk::<MESSAGE>()?;
    let target = Ipv6Addr::from(*fixed[8..].first_chunk::<16>()?);
    if fixed[1] != 0 || source.is_multicast() || target.is_multicast() {
        return None;
    }
    let message = match fixed[0] {
        SOLICITATION => Message::Solicitation,
        ADVERTISEMENT => Message::Advertisement {
            solicited: fixed[4] & SOLICITED != 0,
            overrides: fixed[4] & OVERRIDE != 0,
        },
        _ => return None,
    };
    let options = options(rest)?;
    let link_mac = match message {
        Message::Solicitation => link_mac(&options, SOURCE_OPTION),
        Message::Advertisement { .. } => link_mac(&options, TARGET_OPTION),
    };
    let sane = match message {
        Message::Solicitation if source.is_unspecified() => {
            destination == solicited_node(target) && link_mac.is_none()
        }
        Message::Solicitation => true,
        Message::Advertisement { solicited, .. } => {
            let answers_all = solicited && destination.is_multicast();
            !source.is_unspecified() && !answers_all
        }
    };
    sane.then_some(Packet {
        message,
        frame_mac,
        source,
        destination,
        target,
        link_mac,
    })
}

/// A packet to be written.
struct Draft {
    source: Ipv6Addr,
    /// A group, or the frame is given its receiver afterwards.
    destination: Ipv6Addr,
    kind: u8,
    flags: u8,
    target: Ipv6Addr,
    option: Option<(u8, Mac)>,
}

impl Draft {
    /// The frame, sent by `own`.
    fn frame(&self, own: Mac) -> Vec<u8> {
        let mut icmp = vec![self.kind, 0, 0, 0, self.flags, 0, 0, 0];
        icmp.extend(self.target.octets());
        if let Some((kind, mac)) = self.option {
            icmp.extend([kind, 1]);
            icmp.extend(mac.0);
        }
        let sum = checksum(self.source, self.destination, &icmp);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let length = if self.option.is_some() { 32 } else { 24 };

        let mut frame = Vec::with_capacity(HEADER + IP_HEADER + icmp.len());
        frame.extend(header(group_mac(self.destination), own, ETHERTYPE));
        frame.extend([0x60, 0, 0, 0, 0, length, ICMPV6, HOPS]);
        frame.extend(self.source.octets());
        frame.extend(self.destination.octets());
        frame.extend(icmp);
        frame
    }
}

/// The checksum of an ICMP message for IPv6 (RFC 4443 section 2.3), or 0 for a message
/// that carries its right one.
fn checksum(source: Ipv6Addr, destination: Ipv6Addr, icmp: &[u8]) -> u16 {
    let addresses = source.segments().into_iter().chain(destination.segments());
    let words = icmp.chunks(2).map(|pair| match *pair {
        [high, low] => u16::from_be_bytes([high, low]),
        [high] => u16::from_be_bytes([high, 0]),
        _ => 0,
    });
    // Folded with every word: nothing can run over, however long the message.
    // An IPv6 payload has less than 2^16 bytes, so its length is one word.
    let length = u16::try_from(icmp.len()).unwrap_or(u16::MAX);
    !addresses
        .chain([length, u16::from(ICMPV6)])
        .chain(words)
        .fold(0_u16, |sum, word| {
            let (sum, carry) = sum.overflowing_add(word);
            sum + u16::from(carry)
        })
}

/// What options follow a message; `None` if they are broken, which spoils the packet.
fn options(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let units = usize::from(*bytes.get(1)?);
        if units == 0 {
            return None;
        }
        let (option, rest) = bytes.split_at_checked(units * 8)?;
        all.push(option);
        bytes = rest;
    }
    Some(all)
}

/// The hardware address in the first option of this kind. On Ethernet the option is
/// 8 bytes long; any other is no hardware address of this network.
fn link_mac(options: &[&[u8]], wanted: u8) -> Option<Mac> {
    let option = options
        .iter()
        .find(|option| option.len() == 8 && option[0] == wanted)?;
    option.last_chunk().copied().map(Mac)
}

#[cfg(test)]
mod tests;
