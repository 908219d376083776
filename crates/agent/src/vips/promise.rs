//! Promises between agents, for when the API server is away: small messages over UDP that
//! only those can write who know the key of the cluster's agents.
//!
//! A question that was heard before is dropped: terms of a node and its questions within
//! a term only count up. An answer counts only for the process that has asked.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    net::UdpSocket,
    sync::{mpsc, watch},
    time::sleep,
};
use tracing::{debug, info, warn};

pub use seal::{Keys, read_keys};

mod seal;

/// The longest message.
const LONGEST: usize = 1024;

/// The pause before the port is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// How many messages may wait.
pub const QUEUE: usize = 256;

/// A message that came in and can be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A node asks for a promise.
    Ask {
        /// The node.
        by: String,
        /// Its term.
        term: i64,
        /// Its number for this question.
        ticket: u64,
        /// Where the answer goes.
        back: Back,
    },
    /// A node answers.
    Answer {
        /// The node.
        by: String,
        /// The term that was asked for.
        term: i64,
        /// The number of the question.
        ticket: u64,
        /// Whether it promises.
        granted: bool,
    },
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Asks a node for a promise.
    Ask {
        /// The node.
        to: String,
        /// Where its agent is.
        address: IpAddr,
        /// The own term.
        term: i64,
        /// The number of this question.
        ticket: u64,
    },
    /// Answers a question.
    Answer {
        /// The node that asked.
        to: String,
        /// The term that it asked for.
        term: i64,
        /// The number of its question.
        ticket: u64,
        /// Why it is not promised; nothing: it is.
        refusal: Option<&'static str>,
        /// Where the answer goes.
        back: Back,
    },
}

/// Where an answer goes, and to which process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Back {
    address: SocketAddr,
    nonce: String,
}

#[cfg(test)]
impl Back {
    /// Somewhere, for tests.
    pub fn for_test() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 9)),
            nonce: String::new(),
        }
    }
}

/// What was dropped so far.
#[derive(Debug, Default)]
pub struct Dropped {
    oversized: AtomicU64,
    unauthentic: AtomicU64,
    stale: AtomicU64,
}

/// One end of the conversation.
pub struct Post {
    /// This node.
    pub node: String,
    /// The port of all agents.
    pub port: u16,
    /// The keys as they are now.
    pub keys: watch::Receiver<Keys>,
    /// Where to leave what was heard.
    pub heard: mpsc::Sender<Heard>,
    /// What is to be said.
    pub said: mpsc::Receiver<Said>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Message {
    v: u8,
    from: String,
    to: String,
    term: i64,
    ticket: u64,
    /// Of the process that asks.
    nonce: String,
    /// Of an answer: whether it is promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    granted: Option<bool>,
    /// Of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What the messages of one end are judged by.
#[derive(Debug)]
struct Desk {
    node: String,
    nonce: String,
    /// The last term and question of each node.
    last: BTreeMap<String, (i64, u64)>,
    dropped: Dropped,
}

/// Why a message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drop {
    Oversized,
    Unauthentic,
    Stale,
}

impl Post {
    /// Listens and speaks until nobody has anything to say any more.
    pub async fn run(mut self) {
        let Some(nonce) = seal::nonce() else {
            warn!(
                reason = "NoRandomBytes",
                "no promises: the system gives no random bytes"
            );
            return;
        };
        let mut desk = Desk::new(self.node.clone(), nonce);
        let socket = loop {
            match open(self.port).await {
                Ok(socket) => break socket,
                Err(error) => {
                    let (reason, port) = ("PromisePortTaken", self.port);
                    warn!(reason, port, %error, "cannot hear other agents yet");
                }
            }
            sleep(AGAIN).await;
        };
        info!(port = self.port, "hears other agents");
        let mut buffer = [0; LONGEST + 1];
        loop {
            tokio::select! {
                received = socket.recv_from(&mut buffer) => match received {
                    Ok((length, from)) => {
                        let keys = self.keys.borrow().clone();
                        let Ok(heard) = desk.hear(&buffer[..length], from, &keys) else {
                            continue;
                        };
                        // Whoever asks asks again.
                        let _ = self.heard.try_send(heard);
                    }
                    // The other end is not there; that is no reason to stop.
                    Err(error) => debug!(%error, "cannot receive"),
                },
                said = self.said.recv() => {
                    let Some(said) = said else { return };
                    let keys = self.keys.borrow().clone();
                    let (bytes, to) = desk.say(said, self.port, &keys);
                    let Some(bytes) = bytes else { continue };
                    if let Err(error) = send(&socket, &bytes, to).await {
                        debug!(%error, %to, "cannot send");
                    }
                }
            }
        }
    }
}

impl Desk {
    fn new(node: String, nonce: String) -> Self {
        Self {
            node,
            nonce,
            last: BTreeMap::new(),
            dropped: Dropped::default(),
        }
    }

    fn hear(&mut self, bytes: &[u8], from: SocketAddr, keys: &Keys) -> Result<Heard, Drop> {
        let heard = self.judge(bytes, from, keys);
        if let Err(why) = heard {
            let count = match why {
                Drop::Oversized => &self.dropped.oversized,
                Drop::Unauthentic => &self.dropped.unauthentic,
                Drop::Stale => &self.dropped.stale,
            };
            let count = count.fetch_add(1, Ordering::Relaxed) + 1;
            // The first, the second, the fourth, and so on: nobody can fill the log.
            if count.is_power_of_two() {
                let reason = why.reason();
                warn!(reason, count, %from, "message of an agent is dropped");
            }
        }
        heard
    }

    fn judge(&mut self, bytes: &[u8], from: SocketAddr, keys: &Keys) -> Result<Heard, Drop> {
        if bytes.len() > LONGEST {
            return Err(Drop::Oversized);
        }
        let text = keys.open(bytes).ok_or(Drop::Unauthentic)?;
        let message: Message = serde_json::from_slice(text).map_err(|_| Drop::Unauthentic)?;
        if message.v != 1 || message.to != self.node || message.from == self.node {
            return Err(Drop::Stale);
        }
        let (term, ticket) = (message.term, message.ticket);
        if let Some(granted) = message.granted {
            if message.nonce != self.nonce {
                return Err(Drop::Stale);
            }
            return Ok(Heard::Answer {
                by: message.from,
                term,
                ticket,
                granted,
            });
        }
        let last = self.last.get(&message.from);
        if last.is_some_and(|last| (term, ticket) <= *last) {
            return Err(Drop::Stale);
        }
        self.last.insert(message.from.clone(), (term, ticket));
        Ok(Heard::Ask {
            by: message.from,
            term,
            ticket,
            back: Back {
                address: from,
                nonce: message.nonce,
            },
        })
    }

    /// The bytes of a message, and where they go; no bytes without a key.
    fn say(&self, said: Said, port: u16, keys: &Keys) -> (Option<Vec<u8>>, SocketAddr) {
        let (message, address) = match said {
            Said::Ask {
                to,
                address,
                term,
                ticket,
            } => {
                let nonce = self.nonce.clone();
                let message = self.message(to, term, ticket, nonce);
                (message, SocketAddr::new(address, port))
            }
            Said::Answer {
                to,
                term,
                ticket,
                refusal,
                back,
            } => {
                let mut message = self.message(to, term, ticket, back.nonce);
                message.granted = Some(refusal.is_none());
                message.reason = refusal.map(str::to_owned);
                (message, back.address)
            }
        };
        let text = serde_json::to_vec(&message).ok();
        let bytes = text.and_then(|text| keys.seal(&text));
        (bytes.filter(|it| it.len() <= LONGEST), address)
    }

    fn message(&self, to: String, term: i64, ticket: u64, nonce: String) -> Message {
        Message {
            v: 1,
            from: self.node.clone(),
            to,
            term,
            ticket,
            nonce,
            granted: None,
            reason: None,
        }
    }
}

impl Drop {
    fn reason(self) -> &'static str {
        match self {
            Self::Oversized => "MessageTooLong",
            Self::Unauthentic => "MessageNotAuthentic",
            Self::Stale => "MessageStale",
        }
    }
}

/// On all addresses of both families; of one where there is no other.
async fn open(port: u16) -> io::Result<UdpSocket> {
    match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Ok(socket) => Ok(socket),
        Err(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).await,
    }
}

async fn send(socket: &UdpSocket, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
    let to = match (socket.local_addr()?, to.ip()) {
        (SocketAddr::V6(_), IpAddr::V4(ip)) => {
            SocketAddr::new(ip.to_ipv6_mapped().into(), to.port())
        }
        _ => to,
    };
    socket.send_to(bytes, to).await.map(drop)
}

#[cfg(test)]
mod tests;
