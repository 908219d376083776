//! Questions and answers by IP protocols that have no ports, over plain sockets.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use floe_testbed::host::HostRef;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// GRE, which the kernel follows by rules of its own; ESP, which nobody can look into; and
/// one that is nothing at all, for experiments.
pub const PROTOCOLS: [u8; 3] = [47, 50, 253];

/// Begins like a packet of GRE: the kernel drops those of versions that do not exist.
const BEGINNING: &[u8] = b"\0\0\x08\0";
const QUESTION: &str = "who is there?";
const PATIENCE: Duration = Duration::from_secs(5);
/// How often whoever answers looks whether it is over.
const LOOK: Duration = Duration::from_millis(100);

/// Answers questions of all [`PROTOCOLS`] in the network of a host or pod, until it is
/// dropped.
pub struct Echo {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// From where it came.
    pub source: IpAddr,
    /// Who says that he answers.
    pub name: String,
    /// Whom he has seen asking.
    pub seen: IpAddr,
}

impl Echo {
    /// Answers by this name.
    pub fn start(place: &HostRef, name: &str) -> Result<Self> {
        let mut echo = Self {
            over: Arc::default(),
            threads: Vec::new(),
        };
        for protocol in PROTOCOLS {
            let socket = open(place, protocol, LOOK)?;
            let (name, over) = (name.to_owned(), Arc::clone(&echo.over));
            let serve = move || {
                while !over.load(Ordering::Relaxed) {
                    // Others than questions may be answers of its own, if it asks itself.
                    let Ok((words, from)) = receive(&socket) else {
                        continue;
                    };
                    if words == QUESTION {
                        // What is lost is asked for again, or missed.
                        let _ = send(&socket, from, &format!("{name} {from}"));
                    }
                }
            };
            echo.threads.push(thread::spawn(serve));
        }
        Ok(echo)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It panics never.
            let _ = thread.join();
        }
    }
}

/// Asks an address by a protocol, from the network of a host or pod.
pub fn ask(from: &HostRef, to: IpAddr, protocol: u8) -> Result<Answer> {
    let context = || format!("protocol {protocol} to {to} from {}", from.name);
    let socket = open(from, protocol, PATIENCE)?;
    send(&socket, to, QUESTION).with_context(context)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (words, source) = receive(&socket).with_context(context)?;
        let answer = words.split_once(' ').and_then(|(name, seen)| {
            let seen = seen.parse().ok()?;
            let name = name.to_owned();
            Some(Answer { source, name, seen })
        });
        if let Some(answer) = answer {
            return Ok(answer);
        }
        // Whoever asks himself hears the question, too.
        if deadline < Instant::now() {
            return Err(io::Error::from(io::ErrorKind::TimedOut)).with_context(context);
        }
    }
}

fn open(place: &HostRef, protocol: u8, patience: Duration) -> Result<Socket> {
    let protocol = Protocol::from(i32::from(protocol));
    let opened = place.network()?.run(|| {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(protocol))?;
        socket.set_read_timeout(Some(patience))?;
        Ok(socket)
    });
    opened.with_context(|| format!("no raw socket in {}", place.name))
}

fn send(socket: &Socket, to: IpAddr, words: &str) -> io::Result<()> {
    let packet = [BEGINNING, words.as_bytes()].concat();
    socket.send_to(&packet, &SockAddr::from(SocketAddr::new(to, 0)))?;
    Ok(())
}

/// The next words, and from where they come: the header of IPv4 comes along.
fn receive(mut socket: &Socket) -> io::Result<(String, IpAddr)> {
    let mut buffer = [0; 2048];
    let length = socket.read(&mut buffer)?;
    let packet = &buffer[..length];
    let header = packet.first().map_or(0, |it| usize::from(it & 15) * 4);
    let source = packet
        .get(12..16)
        .and_then(|it| <[u8; 4]>::try_from(it).ok());
    let source = source.ok_or(io::ErrorKind::InvalidData)?;
    let words = packet.get(header..);
    let words = words.and_then(|it| it.strip_prefix(BEGINNING));
    let words = String::from_utf8_lossy(words.unwrap_or_default());
    Ok((words.into_owned(), source.into()))
}
