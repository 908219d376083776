//! A line to the controller: HTTP/1.1 on one connection that stays open.
//!
//! A Kubernetes client would retry and wait by itself, which is not to be
//! measured.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, ensure};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// An open connection.
pub struct Line(BufReader<TcpStream>);

/// An answer.
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// What came with it.
    pub body: Vec<u8>,
}

impl Line {
    /// Connects to a port of this machine.
    pub async fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Asks and waits for the answer.
    pub async fn call(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Answer> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        self.0.write_all(&[head.as_bytes(), body].concat()).await?;
        let status = self.header().await?;
        let status = status.split_whitespace().nth(1);
        let status = status.context("no status came back")?.parse()?;
        let mut length = None;
        loop {
            let line = self.header().await?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = Some(value.trim().parse()?);
            }
        }
        let mut body = vec![0; length.context("an answer of unknown length")?];
        self.0.read_exact(&mut body).await?;
        Ok(Answer { status, body })
    }

    /// Posts JSON to the extender, which says in the body how it went.
    pub async fn post(&mut self, path: &str, body: &[u8]) -> Result<Vec<u8>> {
        let Answer { status, body } = self.call("POST", path, body).await?;
        let text = || String::from_utf8_lossy(&body).into_owned();
        ensure!(status == 200, "{path} answered {status}: {:.300}", text());
        Ok(body)
    }

    async fn header(&mut self) -> Result<String> {
        let mut line = String::new();
        let length = self.0.read_line(&mut line).await?;
        ensure!(length > 0, "the connection was closed");
        Ok(line.trim_end().to_owned())
    }
}
