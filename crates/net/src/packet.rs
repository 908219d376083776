//! Frames on the wire of a link.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    thread,
    time::{Duration, Instant},
};

use floe_core::announce::Mac;
use nix::{
    errno::Errno,
    ifaddrs::getifaddrs,
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{LinkAddr, MsgFlags, bind, recvfrom, send, setsockopt, sockopt},
};
use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};

use crate::release;

/// The largest frame that is received: ARP and neighbour discovery are far smaller.
const LARGEST: usize = 2048;

/// More frames than a socket has room for. Who sends faster than they are read cannot
/// hold the reader.
const MORE_THAN_WAIT: usize = 4096;

/// How long a frame waits for a full queue.
const MAKING_ROOM: Duration = Duration::from_millis(20);

/// Which frames are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ethertype {
    /// ARP.
    Arp,
    /// Neighbour solicitations and advertisements of IPv6, and nothing else of it: on
    /// the wire of a busy host the rest would fill the socket.
    Ipv6,
}

/// A socket that sends and receives whole frames of one link.
#[derive(Debug)]
pub struct Packets {
    socket: Socket,
    link: u32,
}

impl Packets {
    /// Opens a link of this thread's namespace. Frames that were sent by this host
    /// itself are not received, nor those for others: of another station, or of a
    /// VLAN that this host does not have.
    pub fn open(link: u32, what: Ethertype) -> io::Result<Self> {
        Self::open_at(&Port::find(link)?, what)
    }

    /// Opens a link that was found before.
    pub(crate) fn open_at(port: &Port, what: Ethertype) -> io::Result<Self> {
        let protocol = Protocol::from(i32::from(what.number().to_be()));
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
        socket.set_nonblocking(true)?;
        if what == Ethertype::Ipv6 {
            SockRef::from(&socket).attach_filter(&neighbour_discovery())?;
        }
        // The address has no protocol, so the one of the socket stays.
        bind(socket.as_raw_fd(), &port.address)?;
        Ok(Self {
            socket,
            link: port.link,
        })
    }

    /// Opens a link of this thread's namespace to send only. Nothing is received, and
    /// so the kernel need not be told to stop: binding a socket that receives waits as
    /// long as closing one does.
    pub fn open_to_send(link: u32) -> io::Result<Self> {
        let port = Port::find(link)?;
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        socket.set_nonblocking(true)?;
        bind(socket.as_raw_fd(), &port.address)?;
        Ok(Self { socket, link })
    }

    /// Receives also the frames of a group, until the socket is closed. Links filter
    /// groups that nobody asked for.
    pub fn join(&self, group: Mac) -> io::Result<()> {
        Ok(setsockopt(&self.socket, Join, &self.membership(group))?)
    }

    /// Receives the frames of a group no more, which was joined once.
    pub fn leave(&self, group: Mac) -> io::Result<()> {
        Ok(setsockopt(&self.socket, Leave, &self.membership(group))?)
    }

    fn membership(&self, group: Mac) -> Membership {
        let mut address = [0; 8];
        address[..6].copy_from_slice(&group.0);
        Membership {
            link: self.link.cast_signed(),
            kind: MULTICAST,
            length: 6,
            address,
        }
    }

    /// Sends a frame. A queue that is full gets a few milliseconds to make room.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + MAKING_ROOM;
        loop {
            match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(Errno::ENOBUFS | Errno::EAGAIN) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends a frame now or never; whether there was room for it. A frame that the
    /// kernel's rules drop looks like one without room.
    pub fn send_now(&self, frame: &[u8]) -> io::Result<bool> {
        match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::EINTR | Errno::ENOBUFS | Errno::EAGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The next frame, or `None` at the deadline.
    pub fn receive(&self, deadline: Instant) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
            if !wait(&[self], deadline)? {
                return Ok(None);
            }
        }
    }

    /// A frame that is there already.
    fn take(&self) -> io::Result<Option<Vec<u8>>> {
        let mut frame = vec![0; LARGEST];
        loop {
            let received = recvfrom::<LinkAddr>(self.socket.as_raw_fd(), &mut frame);
            let (length, from) = match received {
                Ok(received) => received,
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            // Before it was bound, the socket received from all links.
            let is_wanted = from.is_some_and(|from| {
                u32::try_from(from.ifindex()) == Ok(self.link) && is_for_us(from.pkttype())
            });
            if is_wanted {
                frame.truncate(length);
                return Ok(Some(frame));
            }
        }
    }
}

impl AsFd for Packets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        release::in_background(&self.socket);
    }
}

/// All frames that these sockets have: at least one, or at the deadline none. Whatever
/// came in before the call is among them, however late it is made, and no socket waits
/// for another that always has more.
pub fn receive_all(sockets: &[&Packets], deadline: Instant) -> io::Result<Vec<Vec<u8>>> {
    loop {
        let mut frames = Vec::new();
        for _ in 0..MORE_THAN_WAIT {
            let before = frames.len();
            for socket in sockets {
                frames.extend(socket.take()?);
            }
            if frames.len() == before {
                break;
            }
        }
        if !frames.is_empty() || !wait(sockets, deadline)? {
            return Ok(frames);
        }
    }
}

/// Waits until one of these sockets may have a frame; `false` at the deadline.
fn wait(sockets: &[&Packets], deadline: Instant) -> io::Result<bool> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Ok(false);
    }
    // Whole milliseconds, and never none: that would be a busy wait.
    let left = left.as_micros().div_ceil(1000);
    let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
    let mut waits: Vec<_> = sockets
        .iter()
        .map(|socket| PollFd::new(socket.socket.as_fd(), PollFlags::POLLIN))
        .collect();
    match poll(&mut waits, timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

impl Ethertype {
    fn number(self) -> u16 {
        match self {
            Self::Arp => 0x0806,
            Self::Ipv6 => 0x86dd,
        }
    }
}

/// A link as the socket layer addresses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    link: u32,
    address: LinkAddr,
}

impl Port {
    /// The address of a link of this thread's namespace. Such a value cannot be written
    /// down in safe code, but the C library lists one of each link.
    pub(crate) fn find(link: u32) -> io::Result<Self> {
        getifaddrs()?
            .filter_map(|entry| entry.address?.as_link_addr().copied())
            .find(|address| u32::try_from(address.ifindex()) == Ok(link))
            .map(|address| Self { link, address })
            .ok_or_else(|| Errno::ENODEV.into())
    }
}

/// Whether a frame of this type came in from the wire and is for this host, alone or
/// among others.
fn is_for_us(kind: u8) -> bool {
    [
        libc::PACKET_HOST,
        libc::PACKET_BROADCAST,
        libc::PACKET_MULTICAST,
    ]
    .contains(&kind)
}

/// Lets pass what is ICMP of type 135 or 136 right behind the header of IPv6.
fn neighbour_discovery() -> [SockFilter; 7] {
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    [
        SockFilter::new(LOAD_BYTE, 0, 0, 20),
        SockFilter::new(JUMP_IF_EQUAL, 0, 4, 58),
        SockFilter::new(LOAD_BYTE, 0, 0, 54),
        SockFilter::new(JUMP_IF_EQUAL, 1, 0, 135),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, 136),
        SockFilter::new(RETURN, 0, 0, 0xffff),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

/// `PACKET_ADD_MEMBERSHIP`.
#[derive(Clone, Copy)]
struct Join;

/// `PACKET_DROP_MEMBERSHIP`.
#[derive(Clone, Copy)]
struct Leave;

/// `PACKET_MR_MULTICAST`.
const MULTICAST: u16 = 0;

/// `struct packet_mreq`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Membership {
    link: i32,
    kind: u16,
    length: u16,
    address: [u8; 8],
}

nix::setsockopt_impl!(
    Join,
    libc::SOL_PACKET,
    libc::PACKET_ADD_MEMBERSHIP,
    Membership,
    sockopt::SetStruct<'_, Membership>
);

nix::setsockopt_impl!(
    Leave,
    libc::SOL_PACKET,
    libc::PACKET_DROP_MEMBERSHIP,
    Membership,
    sockopt::SetStruct<'_, Membership>
);
