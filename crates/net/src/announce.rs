//! Asking before an address is used, and telling when it is: see
//! `floe_core::announce`.

use std::{
    io,
    net::IpAddr,
    time::{Duration, Instant},
};

use floe_core::announce::{
    Mac, arp, ndp,
    probe::{Conflict, Inquiry},
};

use crate::{
    netlink::{Netlink, NetlinkError},
    packet::{Ethertype, Packets, Port, receive_all},
};

/// How long a link may take to carry frames after it was set up.
const COMING_UP: Duration = Duration::from_secs(2);

/// A frame may be lost, and nobody acknowledges what is told.
const TIMES: usize = 2;

/// Asks on a link of this thread's namespace, which is up, whether somebody uses one
/// of these addresses. All are asked about at once, and it takes `window`, unless
/// somebody answers. `own` is the sender, see `Inquiry`: the hardware address that the
/// link has now.
///
/// # Errors
/// `NetworkDown` when the link does not carry frames, and so nobody can be asked.
pub fn ask(
    link: u32,
    own: Mac,
    addresses: &[IpAddr],
    window: Duration,
) -> io::Result<Option<Conflict>> {
    ask_as(link, own, &[], addresses, window)
}

/// Asks as [`ask`] does, and also on behalf of addresses that the link has: of each
/// family the last one. Proxies answer only such questions.
pub fn ask_as(
    link: u32,
    own: Mac,
    askers: &[IpAddr],
    addresses: &[IpAddr],
    window: Duration,
) -> io::Result<Option<Conflict>> {
    if addresses.is_empty() {
        return Ok(None);
    }
    wait_for_carrier(link)?;
    let inquiry = |address: &IpAddr| {
        askers
            .iter()
            .fold(Inquiry::new(*address, own, window), |inquiry, asker| {
                inquiry.with_asker(*asker)
            })
    };
    let inquiries: Vec<_> = addresses.iter().map(inquiry).collect();
    let wires = Wires::open(link, &inquiries)?;
    let mut frames: Vec<_> = inquiries
        .iter()
        .flat_map(|inquiry| {
            let wire = wires.of(inquiry.address());
            let frames = inquiry.frames().into_iter();
            frames.map(move |(after, frame)| (after, wire, frame))
        })
        .collect();
    frames.sort_by_key(|(after, ..)| *after);

    let start = Instant::now();
    let mut frames = frames.into_iter().peekable();
    loop {
        while let Some((_, wire, frame)) = frames.next_if(|(after, ..)| start.elapsed() >= *after) {
            if let Some(wire) = wire {
                wire.send(&frame)?;
            }
        }
        let end = start + window;
        let next = frames.peek().map_or(end, |(after, ..)| start + *after);
        // An answer may have come in while this process had to wait for a processor, so
        // there is one more look when the time is over.
        let is_last = Instant::now() >= end;
        for frame in receive_all(&wires.all(), next.min(end))? {
            let conflict = inquiries.iter().find_map(|inquiry| inquiry.judge(&frame));
            if conflict.is_some() {
                return Ok(conflict);
            }
        }
        if is_last {
            return Ok(None);
        }
    }
}

/// Tells a link of this thread's namespace that these addresses live at `mac` now:
/// gratuitous ARP, unsolicited neighbour advertisements, each twice.
pub fn tell(link: u32, mac: Mac, addresses: &[IpAddr], form: ArpForm) -> io::Result<()> {
    if addresses.is_empty() {
        return Ok(());
    }
    // Who tells needs no answer.
    let wire = Packets::open_to_send(link)?;
    for _ in 0..TIMES {
        for address in addresses {
            match address.to_canonical() {
                IpAddr::V4(ip) if form == ArpForm::Reply => {
                    wire.send(&arp::gratuitous_reply(mac, ip))?;
                }
                IpAddr::V4(ip) => wire.send(&arp::gratuitous_request(mac, ip))?,
                IpAddr::V6(ip) => wire.send(&ndp::advertisement(mac, ip))?,
            }
        }
    }
    Ok(())
}

/// The two forms of gratuitous ARP. Some switches and hosts heed only one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpForm {
    /// A reply, as `arping -A` sends.
    Reply,
    /// A request, as `arping -U` sends.
    Request,
}

/// The sockets of an inquiry: one for each family that is asked about.
struct Wires {
    v4: Option<Packets>,
    v6: Option<Packets>,
}

impl Wires {
    fn open(link: u32, inquiries: &[Inquiry]) -> io::Result<Self> {
        let port = Port::find(link)?;
        let mut wires = Self { v4: None, v6: None };
        for inquiry in inquiries {
            let (wire, what) = match inquiry.address() {
                IpAddr::V4(_) => (&mut wires.v4, Ethertype::Arp),
                IpAddr::V6(_) => (&mut wires.v6, Ethertype::Ipv6),
            };
            if wire.is_none() {
                *wire = Some(Packets::open_at(&port, what)?);
            }
            if let Some(wire) = wire {
                for group in inquiry.groups() {
                    wire.join(group)?;
                }
            }
        }
        Ok(wires)
    }

    fn of(&self, address: IpAddr) -> Option<&Packets> {
        match address {
            IpAddr::V4(_) => self.v4.as_ref(),
            IpAddr::V6(_) => self.v6.as_ref(),
        }
    }

    fn all(&self) -> Vec<&Packets> {
        [&self.v4, &self.v6].into_iter().flatten().collect()
    }
}

/// What is sent through a link that has just been set up is lost, and silence would
/// then mean nothing.
fn wait_for_carrier(link: u32) -> io::Result<()> {
    let carries = Netlink::open()
        .and_then(|mut netlink| netlink.wait_for_carrier(link, Instant::now() + COMING_UP));
    match carries {
        Ok(true) => Ok(()),
        Ok(false) => Err(io::Error::new(
            io::ErrorKind::NetworkDown,
            format!("link {link} carries no frames, so nobody can be asked"),
        )),
        Err(NetlinkError::Socket(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}
