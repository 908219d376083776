//! As much of HTTP/1.1 as the answer of an agent needs. Who asks reads it from a socket,
//! piece by piece.

/// The most that an answer may have.
pub const LONGEST: usize = 4 << 20;

/// The most interim answers, such as "100 Continue", before the real one.
const MOST_INTERIM: usize = 8;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Why bytes are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// They are something else.
    #[error("no HTTP")]
    NoHttp,
    /// It is longer than it may be.
    #[error("the answer is too long")]
    TooLong,
    /// Nobody knows when it ends.
    #[error("an unknown transfer encoding")]
    UnknownEncoding,
    /// A part of it does not tell its length.
    #[error("a chunk without its size")]
    ChunkWithoutSize,
    /// The real answer never comes.
    #[error("too many interim answers")]
    OnlyInterim,
    /// Nothing more comes, and something is missing.
    #[error("the answer was cut off")]
    CutOff,
}

/// The answer, when all of it is there.
pub fn read(received: &[u8]) -> Result<Option<Answer>, HttpError> {
    if received.len() > LONGEST {
        return Err(HttpError::TooLong);
    }
    let Some((head, rest)) = answer(received)? else {
        return Ok(None);
    };
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
pub fn at_end(received: &[u8]) -> Result<Answer, HttpError> {
    if let Some(answer) = read(received)? {
        return Ok(answer);
    }
    match answer(received)? {
        Some((head, rest)) if matches!(head.body, Body::UntilEnd) => Ok(Answer {
            status: head.status,
            body: rest.to_vec(),
        }),
        _ => Err(HttpError::CutOff),
    }
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

/// The head of the real answer, and what follows it.
fn answer(mut received: &[u8]) -> Result<Option<(Head, &[u8])>, HttpError> {
    for _ in 0..=MOST_INTERIM {
        let Some(head) = head(received)? else {
            return Ok(None);
        };
        received = &received[head.length..];
        if !(100..200).contains(&head.status) {
            return Ok(Some((head, received)));
        }
    }
    Err(HttpError::OnlyInterim)
}

fn head(received: &[u8]) -> Result<Option<Head>, HttpError> {
    let Some(end) = received.windows(4).position(|it| it == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&received[..end]).map_err(|_| HttpError::NoHttp)?;
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1."))
        .and_then(|rest| rest.split(' ').nth(1))
        .and_then(|status| status.parse().ok())
        .ok_or(HttpError::NoHttp)?;
    let mut body = Body::UntilEnd;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") && !matches!(body, Body::Chunked) {
            let size = value.parse().ok().filter(|size| *size <= LONGEST);
            body = Body::Sized(size.ok_or(HttpError::TooLong)?);
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err(HttpError::UnknownEncoding);
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
fn unchunk(mut rest: &[u8]) -> Result<Option<Vec<u8>>, HttpError> {
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
            .ok_or(HttpError::ChunkWithoutSize)?;
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
    fn an_agent_that_only_says_that_it_goes_on_is_not_waited_for() {
        let interim = "HTTP/1.1 100 Continue\r\n\r\n";
        let last = "HTTP/1.1 200 OK\r\n\r\nall";
        let text = format!("{}{last}", interim.repeat(MOST_INTERIM));
        assert_eq!(read(text.as_bytes()), Ok(None));
        assert_eq!(at_end(text.as_bytes()).unwrap(), answer(200, "all"));
        // However many there are, nothing is called for each of them.
        let text = interim.repeat(100_000);
        assert_eq!(read(text.as_bytes()), Err(HttpError::OnlyInterim));
        let long = vec![b'x'; LONGEST + 1];
        assert_eq!(read(&long), Err(HttpError::TooLong));
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
