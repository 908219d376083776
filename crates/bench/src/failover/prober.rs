//! Sends echo requests at a steady pace from inside of a host's network, and notes
//! which of them are answered, and when.
//!
//! Both happen on threads of their own: whoever measures may wait for other things
//! meanwhile.

use std::{
    io::{self, Read as _},
    net::{Ipv4Addr, SocketAddrV4},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use floe_testbed::host::HostRef;
use socket2::{Domain, Protocol, Socket, Type};

use super::{
    echo::Echo,
    history::{History, LATE},
};

/// How often one address is asked when a single move is measured.
pub const SPACING: Duration = Duration::from_millis(10);
/// How long a read waits before it looks whether it is wanted any more.
const LOOK: Duration = Duration::from_millis(50);
/// Room for the answers of a thousand addresses while this process has to wait.
const ROOM: usize = 8 << 20;

/// Probing under way; it ends with this value.
pub struct Prober {
    shared: Arc<Shared>,
    sender: Option<JoinHandle<()>>,
    receiver: Option<JoinHandle<()>>,
}

struct Shared {
    started: Instant,
    nonce: u64,
    targets: Vec<Ipv4Addr>,
    histories: Mutex<Vec<History>>,
    sends: AtomicBool,
    receives: AtomicBool,
}

impl Prober {
    /// Begins to ask all `targets`, each one every `spacing`.
    pub fn start(host: &HostRef, targets: Vec<Ipv4Addr>, spacing: Duration) -> Result<Self> {
        let network = host.network()?;
        let socket = network
            .run(open)
            .with_context(|| format!("cannot open a raw socket on {}", host.name))?;
        let answers = socket.try_clone()?;
        let shared = Arc::new(Shared {
            started: Instant::now(),
            nonce: nonce(),
            histories: Mutex::new(vec![History::default(); targets.len()]),
            targets,
            sends: AtomicBool::new(true),
            receives: AtomicBool::new(true),
        });
        let (sending, receiving) = (shared.clone(), shared.clone());
        Ok(Self {
            shared,
            receiver: Some(thread::spawn(move || receiving.receive(answers))),
            sender: Some(thread::spawn(move || sending.send(&socket, spacing))),
        })
    }

    /// A moment on the clock of the histories.
    pub fn at(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.shared.started)
    }

    /// Whether each target has answered every packet of the last `span`.
    pub fn is_steady(&self, span: Duration) -> bool {
        let histories = self.shared.histories();
        let now = self.shared.started.elapsed();
        histories.iter().all(|it| it.is_steady(now, span))
    }

    /// Ends it, waits for the last answers, and tells what became of the packets of
    /// each target.
    pub fn stop(mut self) -> Vec<History> {
        self.end(LATE);
        std::mem::take(&mut *self.shared.histories())
    }

    fn end(&mut self, patience: Duration) {
        self.shared.sends.store(false, Ordering::Relaxed);
        join(self.sender.take());
        if self.receiver.is_some() {
            thread::sleep(patience);
        }
        self.shared.receives.store(false, Ordering::Relaxed);
        join(self.receiver.take());
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

impl Shared {
    fn histories(&self) -> MutexGuard<'_, Vec<History>> {
        self.histories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, socket: &Socket, spacing: Duration) {
        let mut next = Instant::now();
        while self.sends.load(Ordering::Relaxed) {
            for (target, address) in (0u32..).zip(&self.targets) {
                let number = {
                    let mut histories = self.histories();
                    let history = &mut histories[target as usize];
                    history.send(self.started.elapsed())
                };
                let echo = Echo {
                    nonce: self.nonce,
                    target,
                    // It would take a year of probing.
                    number: u32::try_from(number).unwrap_or(u32::MAX),
                };
                // What the kernel does not send is as lost as what the wire loses: no
                // neighbour answers while an address moves.
                let _ = socket.send_to(&echo.request(), &SocketAddrV4::new(*address, 0).into());
            }
            // A turn that was missed is not made up for: that would be a burst.
            next = (next + spacing).max(Instant::now());
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }

    fn receive(&self, mut socket: Socket) {
        let mut buffer = [0; 256];
        while self.receives.load(Ordering::Relaxed) {
            let Ok(length) = socket.read(&mut buffer) else {
                // Mostly that nothing came in time; and then errors of requests.
                continue;
            };
            let at = self.started.elapsed();
            let Some((from, echo)) = Echo::reply(&buffer[..length]) else {
                continue;
            };
            let target = echo.target as usize;
            // An answer with another address is none.
            if echo.nonce != self.nonce || self.targets.get(target) != Some(&from) {
                continue;
            }
            if let Some(history) = self.histories().get_mut(target) {
                history.answer(echo.number as usize, at);
            }
        }
    }
}

fn open() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
    socket.set_read_timeout(Some(LOOK))?;
    // It only matters for many targets, and is bounded by what the machine allows.
    let _ = socket.set_recv_buffer_size(ROOM);
    Ok(socket)
}

/// Tells this prober's packets from those of every other one.
fn nonce() -> u64 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    u64::from(std::process::id()) << 32 | u64::from(count)
}

fn join(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread {
        // It has nothing to say.
        let _ = thread.join();
    }
}
