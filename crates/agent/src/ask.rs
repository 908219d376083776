//! `floe-agent ask`: whether the daemon of this node serves, for probes.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// How long it may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Why it does not serve.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody answers.
    #[error("no answer on {socket}")]
    Silent {
        /// The socket.
        socket: String,
        /// What happened.
        source: io::Error,
    },
    /// It says that it does not.
    #[error("the agent answers: {0}")]
    Unwell(String),
}

/// Asks the daemon at a socket.
pub fn ask(socket: &Path) -> Result<(), AskError> {
    let answer = converse(socket).map_err(|source| AskError::Silent {
        socket: socket.display().to_string(),
        source,
    })?;
    let status = answer.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) == Some("200") {
        return Ok(());
    }
    Err(AskError::Unwell(answer))
}

fn converse(socket: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    // Answers are short; one that is not tells enough with its beginning.
    stream.take(64 << 10).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, thread};

    use super::*;

    #[test]
    fn only_a_daemon_that_says_so_serves() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("galaxy.sock");
        let error = ask(&socket).unwrap_err();
        assert!(matches!(error, AskError::Silent { .. }), "{error}");

        let listener = UnixListener::bind(&socket).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                for answer in ["HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.0 500 Bad\r\n\r\nwhy"] {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut asked = [0; 24];
                    stream.read_exact(&mut asked).unwrap();
                    assert_eq!(&asked, b"GET /health HTTP/1.0\r\n\r\n");
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            });
            ask(&socket).unwrap();
            let error = ask(&socket).unwrap_err();
            assert!(error.to_string().contains("why"), "{error}");
        });
    }
}
