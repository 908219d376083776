//! Whether an address is in use already: what to send when, and what an answer is.
//!
//! For IPv4 this is RFC 5227, for IPv6 section 5.4 of RFC 4862, both in a shorter
//! time: a pod waits for its address, and the segment is near.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use super::{
    Mac, arp,
    ndp::{self, Message},
};
use crate::addr;

/// When the questions are sent, in tenths of the window. The last one leaves
/// enough time for an answer.
const TENTHS: [u32; 3] = [0, 3, 6];

/// An inquiry about one address, before it is used.
#[derive(Clone, Debug)]
pub struct Inquiry {
    address: IpAddr,
    own: Mac,
    window: Duration,
    asker: Option<IpAddr>,
}

/// Somebody uses the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} is already in use by {mac}")]
pub struct Conflict {
    /// The address.
    pub address: IpAddr,
    /// Who answers for it.
    pub mac: Mac,
}

impl Conflict {
    /// The stable reason for errors, events and metrics.
    pub fn reason(&self) -> &'static str {
        "AddressConflict"
    }
}

impl Inquiry {
    /// An inquiry about `address` from an interface with the hardware address
    /// `own`, which should differ from the one that the address will have: a stale
    /// copy of the pod has that one, and its answers would never leave its node.
    pub fn new(address: IpAddr, own: Mac, window: Duration) -> Self {
        Self {
            address: addr::canonical(address),
            own,
            window,
            asker: None,
        }
    }

    /// Asks also on behalf of `ip`, which the asking interface must have. Proxies
    /// answer only such questions; where floe lets the host answer for its pods, a
    /// stale copy of the pod is behind a proxy.
    ///
    /// All addresses of an interface can be given to all inquiries. Those of the
    /// other family change nothing, and of the others the first counts, but for IPv6
    /// a link-local one is better. The address that is asked about never counts: the
    /// question would claim it.
    #[must_use]
    pub fn with_asker(mut self, ip: IpAddr) -> Self {
        let ip = addr::canonical(ip);
        let can_ask =
            ip.is_ipv4() == self.address.is_ipv4() && ip != self.address && !ip.is_unspecified();
        let is_better = self
            .asker
            .is_none_or(|known| is_link_local(ip) && !is_link_local(known));
        if can_ask && is_better {
            self.asker = Some(ip);
        }
        self
    }

    /// The address that is asked about, in its one form.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The frames to send, each with the time since the start of the inquiry, in
    /// the order of these times. An inquiry takes `window`, at the end of which
    /// silence means that the address is free.
    pub fn frames(&self) -> Vec<(Duration, Vec<u8>)> {
        TENTHS
            .iter()
            .flat_map(|tenths| {
                let at = self.window.saturating_mul(*tenths) / 10;
                self.questions().into_iter().map(move |frame| (at, frame))
            })
            .collect()
    }

    /// The groups whose frames the asking interface has to receive to hear
    /// everything that [`Inquiry::judge`] knows. Many interfaces filter others out.
    pub fn groups(&self) -> Vec<Mac> {
        match self.address {
            IpAddr::V4(_) => Vec::new(),
            IpAddr::V6(ip) => [ndp::ALL_NODES, ndp::solicited_node(ip)]
                .map(ndp::group_mac)
                .to_vec(),
        }
    }

    /// What a frame that came in, with its Ethernet header, says about the address.
    ///
    /// A conflict is
    /// - whatever comes from the address, with whatever hardware address: a copy of
    ///   the pod may have the very one that is about to be used;
    /// - an advertisement of the address, also by a proxy;
    /// - a probe for the address by somebody else, who is about to use it too.
    pub fn judge(&self, frame: &[u8]) -> Option<Conflict> {
        let mac = match self.address {
            IpAddr::V4(ip) => self.judge_arp(ip, &arp::parse(frame)?),
            IpAddr::V6(ip) => self.judge_ndp(ip, &ndp::parse(frame)?),
        }?;
        Some(Conflict {
            address: self.address,
            mac,
        })
    }

    /// What is sent each time. A proxy takes a random time to answer, so it is
    /// asked as often and as early as the others.
    fn questions(&self) -> Vec<Vec<u8>> {
        let own = self.own;
        match (self.address, self.asker) {
            (IpAddr::V4(ip), Some(IpAddr::V4(asker))) => vec![
                arp::probe(own, ip).to_vec(),
                arp::request(own, asker, ip).to_vec(),
            ],
            (IpAddr::V4(ip), _) => vec![arp::probe(own, ip).to_vec()],
            (IpAddr::V6(ip), Some(IpAddr::V6(asker))) => {
                vec![ndp::probe(own, ip), ndp::solicitation(own, asker, ip)]
            }
            (IpAddr::V6(ip), _) => vec![ndp::probe(own, ip)],
        }
    }

    fn judge_arp(&self, ip: Ipv4Addr, packet: &arp::Packet) -> Option<Mac> {
        let uses = packet.sender_ip == ip;
        // Our own probe can come back from a switch or a bond.
        let wants = packet.operation == arp::Operation::Request
            && packet.sender_ip.is_unspecified()
            && packet.target_ip == ip
            && packet.sender_mac != self.own;
        (uses || wants).then_some(packet.sender_mac)
    }

    fn judge_ndp(&self, ip: Ipv6Addr, packet: &ndp::Packet) -> Option<Mac> {
        let about = packet.target == ip;
        let (evident, mac) = match packet.message {
            // The hardware address that it carries is the target's; of an
            // advertisement of something else only the sender is of interest.
            Message::Advertisement { .. } if about => (true, packet.link_mac),
            Message::Advertisement { .. } => (packet.source == ip, None),
            Message::Solicitation => {
                let wants = about && packet.source.is_unspecified() && packet.frame_mac != self.own;
                (packet.source == ip || wants, packet.link_mac)
            }
        };
        evident.then_some(mac.unwrap_or(packet.frame_mac))
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => false,
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
