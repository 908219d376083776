//! Questions to the kernel and its answers.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use nix::{
    errno::Errno,
    libc,
    sys::{
        socket::{
            AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt,
            socket, sockopt,
        },
        time::TimeVal,
    },
};

use super::{
    NetlinkError,
    wire::{HEADER, Request, aligned, attributes, i32_of, text_of, u16_of, u32_of},
};

/// How long one answer may take. The kernel answers before the question has been
/// sent, so this is for what should not happen.
const PATIENCE: TimeVal = TimeVal::new(10, 0);

/// Lists of a busy host change while they are read. Each try is short, so a quiet
/// moment is found long before this many.
const TRIES: u32 = 100;

/// The kernel sends lists in pieces of at most this size.
const BUFFER: usize = 32 * 1024;

const ERROR_WORDS: u16 = 1;

/// A socket to one part of the kernel.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// What ends the answer to a question.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The word that it was done.
    Acknowledged,
    /// The first message.
    Answered,
    /// The end of a list.
    Done,
}

/// Why there is no answer.
pub(super) enum Fault {
    Refused { errno: i32, words: Option<String> },
    Changed,
    Other(NetlinkError),
}

impl Socket {
    /// Opens one for links, addresses and routes.
    pub fn open() -> Result<Self, NetlinkError> {
        Self::open_for(SockProtocol::NetlinkRoute)
    }

    /// Opens one for another part of the kernel.
    pub fn open_for(part: SockProtocol) -> Result<Self, NetlinkError> {
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            part,
        )
        .map_err(io::Error::from)?;
        setsockopt(&fd, sockopt::ReceiveTimeout, &PATIENCE).map_err(io::Error::from)?;
        // Older kernels know neither; they say less, and send more than was asked for.
        let _ = setsockopt(&fd, Words, &true);
        let _ = setsockopt(&fd, Strict, &true);
        Ok(Self {
            fd,
            sequence: 0,
            buffer: Vec::new(),
        })
    }

    /// Tells the kernel to do something. `what` completes "cannot ...".
    pub fn tell(
        &mut self,
        request: Request,
        what: impl FnOnce() -> String,
    ) -> Result<(), NetlinkError> {
        let request = request.flag(libc::NLM_F_ACK);
        self.exchange(request, Until::Acknowledged, |_| Ok(()))
            .map_err(|fault| fault.into_error(what))
    }

    /// Asks for one thing.
    pub fn get<T>(
        &mut self,
        request: Request,
        what: impl FnOnce() -> String,
        read: impl Fn(&[u8]) -> Result<T, NetlinkError>,
    ) -> Result<T, NetlinkError> {
        let mut answer = None;
        self.exchange(request, Until::Answered, |bytes| {
            answer = Some(read(bytes)?);
            Ok(())
        })
        .map_err(|fault| fault.into_error(what))?;
        answer.ok_or_else(|| NetlinkError::Malformed("no answer".to_owned()))
    }

    /// Asks for all things of a kind, which `read` may leave out.
    pub fn list<T>(
        &mut self,
        request: impl Fn() -> Request,
        what: &str,
        read: impl Fn(&[u8]) -> Result<Option<T>, NetlinkError>,
    ) -> Result<Vec<T>, NetlinkError> {
        for _ in 0..TRIES {
            let mut list = Vec::new();
            let request = request().flag(libc::NLM_F_DUMP);
            let outcome = self.exchange(request, Until::Done, |bytes| {
                list.extend(read(bytes)?);
                Ok(())
            });
            match outcome {
                Ok(()) => return Ok(list),
                Err(Fault::Changed) => {}
                Err(fault) => return Err(fault.into_error(|| format!("list {what}"))),
            }
        }
        Err(NetlinkError::Socket(io::Error::new(
            io::ErrorKind::Interrupted,
            format!("{what} changed each of {TRIES} times while they were listed"),
        )))
    }

    /// Sends a question and shows each message of the answer to `each`. The answer is
    /// read to its end even when one cannot be read, so that the next one is not
    /// mistaken for it.
    fn exchange(
        &mut self,
        mut request: Request,
        until: Until,
        mut each: impl FnMut(&[u8]) -> Result<(), NetlinkError>,
    ) -> Result<(), Fault> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        let fd = self.fd.as_raw_fd();
        retry(|| send(fd, request.finish(sequence), MsgFlags::empty()))?;
        // Answers to single questions are small, and most lists are asked for never.
        let size = if until == Until::Done {
            BUFFER
        } else {
            BUFFER / 4
        };
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
        let mut changed = false;
        let mut unread = None;
        loop {
            let length = match retry(|| recv(fd, &mut self.buffer, MsgFlags::MSG_TRUNC)) {
                Ok(length) => length,
                // Something was lost. A list goes on to its end and is asked for again;
                // without the word that it was done, the wait for it ends.
                Err(Errno::ENOBUFS) => {
                    changed = true;
                    continue;
                }
                Err(Errno::EAGAIN) => return Err(Fault::from(Errno::ETIMEDOUT)),
                Err(error) => return Err(Fault::from(error)),
            };
            let Some(datagram) = self.buffer.get(..length) else {
                return Err(Fault::malformed("a message larger than any expected"));
            };
            for message in Messages(datagram) {
                let message = message?;
                if message.sequence != sequence {
                    continue;
                }
                changed |= message.has(libc::NLM_F_DUMP_INTR);
                match message.kind {
                    libc::NLMSG_NOOP => {}
                    libc::NLMSG_OVERRUN => changed = true,
                    libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                        message.check()?;
                        return match unread {
                            Some(error) => Err(Fault::Other(error)),
                            None if changed && until == Until::Done => Err(Fault::Changed),
                            None => Ok(()),
                        };
                    }
                    _ => {
                        let read = each(message.payload);
                        if until == Until::Answered {
                            return read.map_err(Fault::Other);
                        }
                        unread = unread.or(read.err());
                    }
                }
            }
        }
    }
}

/// A message of the kernel.
pub(super) struct Message<'a> {
    pub(super) kind: i32,
    flags: u16,
    sequence: u32,
    pub(super) payload: &'a [u8],
}

impl Message<'_> {
    fn has(&self, flag: i32) -> bool {
        i32::from(self.flags) & flag != 0
    }

    /// What an `NLMSG_ERROR` or `NLMSG_DONE` says: all is well, or why not.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let errno = match self.payload {
            // Some old kernels end lists without a number.
            [] if self.kind == libc::NLMSG_DONE => 0,
            payload => -i32_of(payload)?,
        };
        if errno <= 0 {
            return Ok(());
        }
        Err(Fault::Refused {
            errno,
            words: self.words(),
        })
    }

    /// The words behind a number, if they can be found: they are a courtesy.
    fn words(&self) -> Option<String> {
        if !self.has(libc::NLM_F_ACK_TLVS) {
            return None;
        }
        let rest = self.payload.get(4..)?;
        let quoted = if self.kind == libc::NLMSG_DONE {
            0
        } else if self.has(libc::NLM_F_CAPPED) {
            HEADER
        } else {
            aligned(u32_of(rest).ok()?.try_into().ok()?)
        };
        let mut words = None;
        attributes(rest.get(quoted..)?, |kind, value| {
            if kind == ERROR_WORDS {
                words = Some(text_of(value));
            }
            Ok(())
        })
        .ok()?;
        words
    }
}

/// The messages of a datagram.
pub(super) struct Messages<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, NetlinkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let next = first(self.0);
        self.0 = match &next {
            Ok((_, rest)) => rest,
            Err(_) => &[],
        };
        Some(next.map(|(message, _)| message))
    }
}

fn first(bytes: &[u8]) -> Result<(Message<'_>, &[u8]), NetlinkError> {
    let length = usize::try_from(u32_of(bytes)?).unwrap_or(usize::MAX);
    let Some(payload) = bytes.get(HEADER..length) else {
        let text = "message with a wrong length".to_owned();
        return Err(NetlinkError::Malformed(text));
    };
    let message = Message {
        kind: i32::from(u16_of(&bytes[4..])?),
        flags: u16_of(&bytes[6..])?,
        sequence: u32_of(&bytes[8..])?,
        payload,
    };
    let rest = bytes.get(aligned(length)..).unwrap_or_default();
    Ok((message, rest))
}

fn retry<T>(mut call: impl FnMut() -> nix::Result<T>) -> nix::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            outcome => return outcome,
        }
    }
}

impl Fault {
    fn into_error(self, what: impl FnOnce() -> String) -> NetlinkError {
        match self {
            Self::Refused { errno, words } => NetlinkError::Refused {
                what: what(),
                error: io::Error::from_raw_os_error(errno),
                words,
            },
            Self::Changed => {
                NetlinkError::Malformed("the end of a list that was not asked for".to_owned())
            }
            Self::Other(error) => error,
        }
    }

    fn malformed(text: &str) -> Self {
        Self::Other(NetlinkError::Malformed(text.to_owned()))
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Other(NetlinkError::Socket(errno.into()))
    }
}

impl From<NetlinkError> for Fault {
    fn from(error: NetlinkError) -> Self {
        Self::Other(error)
    }
}

/// Whether refusals come with words: `NETLINK_EXT_ACK`.
#[derive(Clone, Copy)]
struct Words;

/// Whether the kernel heeds what a list is restricted to: `NETLINK_GET_STRICT_CHK`.
#[derive(Clone, Copy)]
struct Strict;

nix::setsockopt_impl!(
    Words,
    libc::SOL_NETLINK,
    libc::NETLINK_EXT_ACK,
    bool,
    sockopt::SetBool
);

nix::setsockopt_impl!(
    Strict,
    libc::SOL_NETLINK,
    libc::NETLINK_GET_STRICT_CHK,
    bool,
    sockopt::SetBool
);

mod batch;
#[cfg(test)]
mod tests;
