//! The thread of a responder.

use std::{
    io::{self, Read},
    net::IpAddr,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{Arc, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use floe_core::announce::{Mac, answer::answer, arp, ndp};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::{Shared, Telling};
use crate::{netlink::Netlink, packet::Packets};

/// How often the link is looked at: its hardware address may change, as that of a bond
/// does.
const LOOK: Duration = Duration::from_secs(1);

/// Who asks without end must not keep the other family from being answered.
const AT_ONCE: usize = 256;

/// How long a queue that is full gets to make room.
const MAKING_ROOM: Duration = Duration::from_millis(5);

/// How often more an address is tried when there is no room for it.
const TRIES: u8 = 2;

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Yes,
    /// It may not be sent, or the link is down.
    No,
    NoRoom,
}

/// What the thread owns.
pub(super) struct Wire {
    shared: Arc<Shared>,
    netlink: Netlink,
    mac: Mac,
    woken: UnixStream,
}

impl Wire {
    pub(super) fn new(shared: Arc<Shared>, netlink: Netlink, mac: Mac, woken: UnixStream) -> Self {
        Self {
            shared,
            netlink,
            mac,
            woken,
        }
    }

    /// Answers until it is told to stop, or cannot any more.
    pub(super) fn run(mut self) {
        let shared = self.shared.clone();
        if let Err(error) = self.serve() {
            *shared.failure() = Some(error.to_string());
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        let mut looked = Instant::now();
        while !shared.stops.load(Ordering::SeqCst) {
            if looked.elapsed() >= LOOK {
                self.look();
                looked = Instant::now();
            }
            let next = self.tell()?;
            let until = next.map_or(looked + LOOK, |next| next.min(looked + LOOK));
            self.wait(until)?;
            for socket in [&shared.v4, &shared.v6] {
                self.answer(socket)?;
            }
        }
        Ok(())
    }

    fn look(&mut self) {
        // One that is gone is found by who checks this responder.
        if let Ok(Some(link)) = self.netlink.link(&self.shared.link)
            && let Some(mac) = link.mac
        {
            self.mac = mac;
        }
    }

    /// Waits for a frame, a call or the moment.
    fn wait(&mut self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        // Never none, that would be a busy wait.
        let millis = left.as_micros().div_ceil(1000).max(1);
        let timeout = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
        let mut waits = [
            PollFd::new(self.shared.v4.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.shared.v6.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.woken.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut waits, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        // As many calls as there were are one.
        while matches!((&self.woken).read(&mut [0; 64]), Ok(1..)) {}
        Ok(())
    }

    fn answer(&self, socket: &Packets) -> io::Result<()> {
        for _ in 0..AT_ONCE {
            let frame = match socket.receive(Instant::now()) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(()),
                Err(error) => return unless_down(error),
            };
            let Some(answer) = answer(&frame, self.mac, |ip| self.is_ours(ip)) else {
                continue;
            };
            if self.send(socket, answer.address, &answer.frame)? == Sent::Yes {
                self.shared.answered.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Tells what is due; when the next is.
    fn tell(&self) -> io::Result<Option<Instant>> {
        let now = Instant::now();
        let mut due = self.take_due(now).into_iter();
        while let Some(telling) = due.next() {
            match self.tell_one(telling.address)? {
                Sent::Yes => {
                    self.shared.announced.fetch_add(1, Ordering::Relaxed);
                }
                Sent::No => {}
                Sent::NoRoom => {
                    let again = (telling.tries < TRIES).then_some(Telling {
                        tries: telling.tries + 1,
                        ..telling
                    });
                    let rest = again.into_iter().chain(due);
                    let later = rest.map(|it| Telling {
                        due: now + MAKING_ROOM,
                        ..it
                    });
                    self.shared.tasks().tellings.extend(later);
                    break;
                }
            }
        }
        Ok(self.shared.tasks().tellings.iter().map(|it| it.due).min())
    }

    fn take_due(&self, now: Instant) -> Vec<Telling> {
        let mut tasks = self.shared.tasks();
        let (due, later) = tasks.tellings.iter().partition(|it| it.due <= now);
        tasks.tellings = later;
        due
    }

    fn tell_one(&self, address: IpAddr) -> io::Result<Sent> {
        match address {
            // Some switches and hosts heed only one of the two forms.
            IpAddr::V4(ip) => {
                let request = arp::gratuitous_request(self.mac, ip);
                match self.send(&self.shared.v4, address, &request)? {
                    Sent::Yes => {
                        let reply = arp::gratuitous_reply(self.mac, ip);
                        self.send(&self.shared.v4, address, &reply)
                    }
                    unsent @ (Sent::No | Sent::NoRoom) => Ok(unsent),
                }
            }
            IpAddr::V6(ip) => {
                let advertisement = ndp::advertisement(self.mac, ip);
                self.send(&self.shared.v6, address, &advertisement)
            }
        }
    }

    /// Sends a frame about an address, unless it may not be spoken for.
    fn send(&self, socket: &Packets, address: IpAddr, frame: &[u8]) -> io::Result<Sent> {
        // Held until the frame is out: who took the address away has waited for it.
        let addresses = self.shared.addresses.read();
        let addresses = addresses.unwrap_or_else(PoisonError::into_inner);
        if !addresses.contains(&address) {
            return Ok(Sent::No);
        }
        // Nothing may come between this look and the frame, also no second try.
        if self.shared.deadline.left().is_none() {
            self.shared.withheld.fetch_add(1, Ordering::Relaxed);
            return Ok(Sent::No);
        }
        match socket.send_now(frame) {
            Ok(true) => Ok(Sent::Yes),
            Ok(false) => Ok(Sent::NoRoom),
            Err(error) => unless_down(error).map(|()| Sent::No),
        }
    }

    fn is_ours(&self, ip: IpAddr) -> bool {
        let addresses = self.shared.addresses.read();
        let addresses = addresses.unwrap_or_else(PoisonError::into_inner);
        addresses.contains(&ip)
    }
}

/// A link that is down is no reason to end: it may come back.
fn unless_down(error: io::Error) -> io::Result<()> {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENETDOWN | Errno::ENXIO | Errno::ENODEV) => Ok(()),
        _ => Err(error),
    }
}
