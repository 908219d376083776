//! As much of HTTP/1.1 as a question to the agent needs.

use std::{
    io::{self, Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::Path,
    time::{Duration, Instant},
};

pub use floe_core::cni::http::Answer;
use floe_core::cni::http::{self, HttpError};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// Nobody listens, or too many wait to be heard.
    Connect(io::Error),
    /// Somebody did, but the talk broke off.
    Talk(io::Error),
}

/// Posts JSON to a unix socket and waits for the answer until the deadline.
pub fn post(socket: &Path, path: &str, json: &str, deadline: Instant) -> Result<Answer, Failure> {
    let stream = connect(socket).map_err(Failure::Connect)?;
    talk(stream, path, json, deadline).map_err(Failure::Talk)
}

/// Connects, or says at once why not: an agent that hangs has a queue that is full, in
/// which a call could wait forever.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    socket::connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    let stream = UnixStream::from(fd);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn talk(mut stream: UnixStream, path: &str, json: &str, deadline: Instant) -> io::Result<Answer> {
    let length = json.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: galaxy\r\nConnection: close\r\n\
         Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.set_write_timeout(Some(left(deadline)?))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(json.as_bytes())?;
    let mut received = Vec::new();
    let mut chunk = [0; 16 << 10];
    loop {
        if let Some(answer) = http::read(&received).map_err(malformed)? {
            return Ok(answer);
        }
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut chunk) {
            Ok(0) => return http::at_end(&received).map_err(malformed),
            Ok(count) => received.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

fn malformed(error: HttpError) -> io::Error {
    let kind = if error == HttpError::CutOff {
        io::ErrorKind::UnexpectedEof
    } else {
        io::ErrorKind::InvalidData
    };
    io::Error::new(kind, error)
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::Backlog;

    use super::*;

    #[test]
    fn an_agent_whose_queue_is_full_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("galaxy.sock");
        let kind = (AddressFamily::Unix, SockType::Stream);
        let listener = socket::socket(kind.0, kind.1, SockFlag::SOCK_CLOEXEC, None).unwrap();
        let address = UnixAddr::new(&path).unwrap();
        socket::bind(listener.as_raw_fd(), &address).unwrap();
        socket::listen(&listener, Backlog::new(1).unwrap()).unwrap();
        let mut waiting = Vec::new();
        let full = loop {
            match connect(&path) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
            assert!(waiting.len() < 100, "the queue has no end");
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        let deadline = Instant::now() + Duration::from_mins(1);
        let failure = post(&path, "/cni", "{}", deadline).unwrap_err();
        assert!(matches!(failure, Failure::Connect(_)), "{failure:?}");
    }
}
