//! ARP packets over Ethernet, with their Ethernet header.
//!
//! | | RFC | sender address | target address |
//! |---|---|---|---|
//! | [`probe`] | 5227 | 0.0.0.0, so that nobody learns anything from it | the one asked about |
//! | [`request`] | 826 | the asker's | the one asked about |
//! | [`gratuitous_reply`] | 826 | the one announced | the same |
//! | [`gratuitous_request`] | 5227 | the one announced | the same |

use std::net::Ipv4Addr;

use super::{HEADER, Mac, header, open};

/// The length of a frame that this module makes. Networks pad it.
pub const FRAME: usize = HEADER + PACKET;

/// The Ethernet type of ARP.
pub const ETHERTYPE: u16 = 0x0806;

/// The length of an ARP packet for IPv4 over Ethernet.
const PACKET: usize = 28;

/// How such a packet begins: Ethernet, IPv4, and the lengths of their addresses.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Who has the target address?
    Request,
    /// The sender has its address.
    Reply,
}

/// An ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What it is.
    pub operation: Operation,
    /// Who sends it, as the packet says.
    pub sender_mac: Mac,
    /// The sender's address; unspecified in a probe.
    pub sender_ip: Ipv4Addr,
    /// Who should read it; means nothing in a request.
    pub target_mac: Mac,
    /// The address that it is about.
    pub target_ip: Ipv4Addr,
}

/// Asks who has `target` without saying anything about oneself. Proxies do not
/// answer it.
pub fn probe(own: Mac, target: Ipv4Addr) -> [u8; FRAME] {
    request(own, Ipv4Addr::UNSPECIFIED, target)
}

/// Asks who has `target`, on behalf of `sender`, which is learned by those who
/// hear it.
pub fn request(own: Mac, sender: Ipv4Addr, target: Ipv4Addr) -> [u8; FRAME] {
    broadcast(Packet {
        operation: Operation::Request,
        sender_mac: own,
        sender_ip: sender,
        target_mac: Mac::UNKNOWN,
        target_ip: target,
    })
}

/// Tells everybody that `ip` lives at `mac`, as `arping -A` does.
pub fn gratuitous_reply(mac: Mac, ip: Ipv4Addr) -> [u8; FRAME] {
    broadcast(Packet {
        operation: Operation::Reply,
        sender_mac: mac,
        sender_ip: ip,
        target_mac: mac,
        target_ip: ip,
    })
}

/// Tells everybody that `ip` lives at `mac`, as `arping -U` does.
pub fn gratuitous_request(mac: Mac, ip: Ipv4Addr) -> [u8; FRAME] {
    request(mac, ip, ip)
}

/// Answers a question, to whoever asked it: its target lives at `own`.
pub fn reply(own: Mac, question: &Packet) -> [u8; FRAME] {
    let mut frame = broadcast(Packet {
        operation: Operation::Reply,
        sender_mac: own,
        sender_ip: question.target_ip,
        target_mac: question.sender_mac,
        target_ip: question.sender_ip,
    });
    frame[..6].copy_from_slice(&question.sender_mac.0);
    frame
}

/// The packet in a frame; nothing if it is not an ARP request or reply for IPv4
/// over Ethernet. Whatever follows the packet is padding.
pub fn parse(frame: &[u8]) -> Option<Packet> {
    let (_, payload) = open(frame, ETHERTYPE)?;
    let packet = payload.first_chunk::<PACKET>()?;
    let (kind, rest) = packet.split_first_chunk::<6>()?;
    let (operation, rest) = rest.split_first_chunk::<2>()?;
    let (sender_mac, rest) = rest.split_first_chunk::<6>()?;
    let (sender_ip, rest) = rest.split_first_chunk::<4>()?;
    let (target_mac, rest) = rest.split_first_chunk::<6>()?;
    let target_ip = rest.first_chunk::<4>()?;
    if *kind != KIND {
        return None;
    }
    Some(Packet {
        operation: match u16::from_be_bytes(*operation) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return None,
        },
        sender_mac: Mac(*sender_mac),
        sender_ip: Ipv4Addr::from(*sender_ip),
        target_mac: Mac(*target_mac),
        target_ip: Ipv4Addr::from(*target_ip),
    })
}

/// A packet for everybody, in a frame of its sender.
fn broadcast(packet: Packet) -> [u8; FRAME] {
    let operation: u8 = match packet.operation {
        Operation::Request => 1,
        Operation::Reply => 2,
    };
    let mut frame = [0; FRAME];
    frame[..14].copy_from_slice(&header(Mac::BROADCAST, packet.sender_mac, ETHERTYPE));
    frame[14..20].copy_from_slice(&KIND);
    frame[20..22].copy_from_slice(&[0, operation]);
    frame[22..28].copy_from_slice(&packet.sender_mac.0);
    frame[28..32].copy_from_slice(&packet.sender_ip.octets());
    frame[32..38].copy_from_slice(&packet.target_mac.0);
    frame[38..].copy_from_slice(&packet.target_ip.octets());
    frame
}

#[cfg(test)]
mod tests;
