//! Answers for addresses that no kernel has: whoever asks on a link by ARP or neighbour
//! discovery is told that they live here.
//!
//! A thread for each link. It sends nothing after the deadline: it looks at the clock
//! immediately before each frame, so one that was stopped meanwhile stays silent.

mod wire;

use std::{
    collections::BTreeSet,
    io::{self, Write},
    net::IpAddr,
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use floe_core::announce::{Mac, ndp};

use self::wire::Wire;
use crate::{
    boottime::Deadline,
    netlink::{Netlink, NetlinkError},
    packet::{Ethertype, Packets, Port},
};

/// When an address is told again. Nobody acknowledges what is told, and a switch or a
/// neighbour may be busy with the same failure.
const REPEATS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
];

/// What answers on one link; it ends when dropped.
#[derive(Debug)]
pub struct Responder {
    shared: Arc<Shared>,
    netlink: Mutex<Netlink>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

/// Why nobody answers on a link.
#[derive(Debug, thiserror::Error)]
pub enum ResponderError {
    /// There is no such link.
    #[error("there is no link {0}")]
    NoLink(String),
    /// The link has no hardware address of Ethernet.
    #[error("link {0} has no hardware address of Ethernet")]
    NoEthernet(String),
    /// The link does not carry frames.
    #[error("link {0} carries no frames")]
    NoCarrier(String),
    /// The link is another one than when the responder was started.
    #[error("link {0} was made anew")]
    LinkReplaced(String),
    /// The thread ended.
    #[error("nobody answers on link {link}: {why}")]
    Ended {
        /// The link.
        link: String,
        /// What it said.
        why: String,
    },
    /// A socket failed.
    #[error("cannot answer on a link: {0}")]
    Socket(#[from] io::Error),
    /// The kernel did not tell about the link.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl ResponderError {
    /// The stable name of the failure.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoLink(_) => "NoLink",
            Self::NoEthernet(_) => "NoEthernet",
            Self::NoCarrier(_) => "NoCarrier",
            Self::LinkReplaced(_) => "LinkReplaced",
            Self::Ended { .. } => "ResponderEnded",
            Self::Socket(_) => "SocketFailed",
            Self::Netlink(_) => "NetlinkFailed",
        }
    }
}

/// What a responder has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Questions that were answered.
    pub answered: u64,
    /// Frames that were announced unasked.
    pub announced: u64,
    /// Frames that were not sent because the deadline had passed.
    pub withheld: u64,
}

impl Responder {
    /// Answers on a link of this thread's namespace, at first for no address, and while
    /// the deadline has not passed.
    pub fn start(link: &str, deadline: Deadline) -> Result<Self, ResponderError> {
        let mut netlink = Netlink::open()?;
        let found = netlink.link(link)?;
        let found = found.ok_or_else(|| ResponderError::NoLink(link.to_owned()))?;
        let mac = found.mac.ok_or(ResponderError::NoEthernet(found.name))?;
        let port = Port::find(found.index)?;
        let v4 = Packets::open_at(&port, Ethertype::Arp)?;
        let v6 = Packets::open_at(&port, Ethertype::Ipv6)?;
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            link: link.to_owned(),
            index: found.index,
            deadline,
            addresses: RwLock::default(),
            tasks: Mutex::default(),
            stops: AtomicBool::new(false),
            failure: Mutex::default(),
            answered: AtomicU64::new(0),
            announced: AtomicU64::new(0),
            withheld: AtomicU64::new(0),
            v4,
            v6,
        });
        let wire = Wire::new(shared.clone(), Netlink::open()?, mac, woken);
        let thread = thread::Builder::new()
            .name(format!("answers {link}"))
            .spawn(move || wire.run())?;
        Ok(Self {
            shared,
            netlink: Mutex::new(netlink),
            wake,
            thread: Some(thread),
        })
    }

    /// Answers for these addresses from now on, and for no others. Those that stay are
    /// answered for all the time.
    pub fn set(&self, addresses: BTreeSet<IpAddr>) -> Result<(), ResponderError> {
        let wanted = groups(&addresses);
        // Exclusive for as long as groups change: two callers would leave each other's.
        let mut tasks = self.shared.tasks();
        for group in wanted.difference(&tasks.groups) {
            self.shared.v6.join(*group)?;
        }
        let left: Vec<_> = tasks.groups.difference(&wanted).copied().collect();
        *write(&self.shared.addresses) = addresses;
        tasks.groups = wanted;
        for group in left {
            self.shared.v6.leave(group)?;
        }
        Ok(())
    }

    /// Tells the link several times, over two seconds, that these addresses live here.
    /// One that is not answered for any more is not told either.
    pub fn announce(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        let now = Instant::now();
        let mut tasks = self.shared.tasks();
        for address in addresses {
            tasks.tellings.retain(|it| it.address != address);
            let tellings = REPEATS.map(|after| Telling {
                due: now + after,
                address,
                tries: 0,
            });
            tasks.tellings.extend(tellings);
        }
        drop(tasks);
        self.rouse();
    }

    /// What was done so far.
    pub fn answers(&self) -> Answers {
        Answers {
            answered: self.shared.answered.load(Ordering::Relaxed),
            announced: self.shared.announced.load(Ordering::Relaxed),
            withheld: self.shared.withheld.load(Ordering::Relaxed),
        }
    }

    /// Whether somebody who asks on the link would be heard and answered.
    pub fn check(&self) -> Result<(), ResponderError> {
        let name = || self.shared.link.clone();
        let why = self.shared.failure().clone();
        if let Some(why) = why {
            return Err(ResponderError::Ended { link: name(), why });
        }
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            let why = "the thread is gone".to_owned();
            return Err(ResponderError::Ended { link: name(), why });
        }
        let link = lock(&self.netlink).link(&self.shared.link)?;
        let link = link.ok_or_else(|| ResponderError::NoLink(name()))?;
        if link.index != self.shared.index {
            return Err(ResponderError::LinkReplaced(name()));
        }
        if !link.is_up || !link.has_carrier {
            return Err(ResponderError::NoCarrier(name()));
        }
        Ok(())
    }

    fn rouse(&self) {
        // When it is full, the thread is about to look anyway.
        let _ = (&self.wake).write(&[0]);
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::SeqCst);
        self.rouse();
        if let Some(thread) = self.thread.take() {
            // It panics never; and if it did, it has ended as well.
            let _ = thread.join();
        }
    }
}

/// What both threads know.
#[derive(Debug)]
struct Shared {
    link: String,
    index: u32,
    deadline: Deadline,
    addresses: RwLock<BTreeSet<IpAddr>>,
    tasks: Mutex<Tasks>,
    stops: AtomicBool,
    failure: Mutex<Option<String>>,
    answered: AtomicU64,
    announced: AtomicU64,
    withheld: AtomicU64,
    v4: Packets,
    v6: Packets,
}

#[derive(Debug, Default)]
struct Tasks {
    groups: BTreeSet<Mac>,
    tellings: Vec<Telling>,
}

/// An address that is to be told.
#[derive(Clone, Copy, Debug)]
struct Telling {
    due: Instant,
    address: IpAddr,
    /// How often there was no room for it.
    tries: u8,
}

impl Shared {
    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        lock(&self.tasks)
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        lock(&self.failure)
    }
}

/// The groups at which these addresses are asked for.
fn groups(addresses: &BTreeSet<IpAddr>) -> BTreeSet<Mac> {
    let group = |ip: &IpAddr| match ip {
        IpAddr::V4(_) => None,
        IpAddr::V6(ip) => Some(ndp::group_mac(ndp::solicited_node(*ip))),
    };
    addresses.iter().filter_map(group).collect()
}

/// Nothing that is kept in these locks can be left half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
