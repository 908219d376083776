//! As much of HTTP/1.1 as a question to the agent needs.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

/// The most that an answer may have.
const LONGEST: usize = 4 << 20;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// Nobody listens.
    Connect(io::Error),
    /// Somebody did, but the talk broke off.
    Talk(io::Error),
}

/// Posts JSON to a unix socket and waits for the answer until the deadline.
pub fn post(socket: &Path, path: &str, json: &str, deadline: Instant) -> Result<Answer, Failure> {
    let stream = UnixStream::connect(socket).map_err(Failure::Connect)?;
    talk(stream, path, json, deadline).map_err(Failure::Talk)
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
        if let Some(answer) = read(&received)? {
            return Ok(answer);
        }
        if received.len() > LONGEST {
            return Err(malformed("the answer is too long"));
        }
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut chunk) {
            Ok(0) => return at_end(&received),
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

/// How the end of a body is known.
enum Body {
    Sized(usize),
    Chunked,
    UntilEnd,
}

struct Head {
    status: u16,
    length: usize,
    body: Body,
}

/// The answer, when all of it is there.
fn read(received: &[u8]) -> io::Result<Option<Answer>> {
    let Some(head) = head(received)? else {
        return Ok(None);
    };
    let rest = &received[head.length..];
    // An interim answer such as "100 Continue" has the real one behind it.
    if (100..200).contains(&head.status) {
        return read(rest);
    }
    let body = match head.body {
        Body::Sized(size) => rest.get(..size).map(<[u8]>::to_vec),
        Body::Chunked => unchunk(rest)?,
        Body::UntilEnd => None,
    };
    Ok(body.map(|body| Answer {
        status: head.status,
        body,
    }))
}

/// The answer, when nothing more comes.
fn at_end(received: &[u8]) -> io::Result<Answer> {
    if let Some(head) = head(received)?
        && matches!(head.body, Body::UntilEnd)
    {
        return Ok(Answer {
            status: head.status,
            body: received[head.length..].to_vec(),
        });
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn head(received: &[u8]) -> io::Result<Option<Head>> {
    let Some(end) = received.windows(4).position(|it| it == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&received[..end]).map_err(|_| malformed("no HTTP"))?;
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1."))
        .and_then(|rest| rest.split(' ').nth(1))
        .and_then(|status| status.parse().ok())
        .ok_or_else(|| malformed("no HTTP"))?;
    let mut body = Body::UntilEnd;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") && !matches!(body, Body::Chunked) {
            let size = value.parse().ok().filter(|size| *size <= LONGEST);
            body = Body::Sized(size.ok_or_else(|| malformed("the answer is too long"))?);
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err(malformed("an unknown transfer encoding"));
            }
            body = Body::Chunked;
        }
    }
    Ok(Some(Head {
        status,
        length: end + 4,
        body,
    }))
}

/// The chunks of a body in one, when all of them are there.
fn unchunk(mut rest: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|it| it == b"\r\n") else {
            return Ok(None);
        };
        let line = std::str::from_utf8(&rest[..end]).unwrap_or_default();
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).ok();
        let size = size
            .filter(|size| *size <= LONGEST)
            .ok_or_else(|| malformed("a chunk without its size"))?;
        if size == 0 {
            return Ok(Some(body));
        }
        rest = &rest[end + 2..];
        let Some(chunk) = rest.get(..size) else {
            return Ok(None);
        };
        body.extend_from_slice(chunk);
        let Some(next) = rest.get(size + 2..) else {
            return Ok(None);
        };
        rest = next;
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status,
            body: body.as_bytes().to_vec(),
        }
    }

    /// Every beginning of it is not yet an answer.
    fn whole(text: &str, expected: &Answer) {
        for end in 0..text.len() {
            assert_eq!(read(&text.as_bytes()[..end]).unwrap(), None, "{end}");
        }
        assert_eq!(read(text.as_bytes()).unwrap().as_ref(), Some(expected));
    }

    #[test]
    fn a_sized_answer_is_read() {
        whole(
            "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 4\r\n\r\noops",
            &answer(500, "oops"),
        );
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(read(interim.as_bytes()).unwrap(), Some(answer(200, "ok")));
    }

    #[test]
    fn an_answer_in_chunks_is_read() {
        whole(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n",
            &answer(200, "abc0123456789"),
        );
    }

    #[test]
    fn an_answer_without_length_ends_with_the_connection() {
        let text = b"HTTP/1.0 200 OK\r\n\r\nall of it";
        assert_eq!(read(text).unwrap(), None);
        assert_eq!(at_end(text).unwrap(), answer(200, "all of it"));
        assert!(at_end(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").is_err());
        assert!(at_end(b"").is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        ] {
            assert!(read(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
