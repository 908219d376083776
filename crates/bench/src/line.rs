//! A line to the controller: HTTP/1.1 on one connection that stays open.
//!
//! A Kubernetes client would retry and wait by itself, which is not to be
//! measured.

use std::{net::Ipv4Addr, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
        BufReader,
    },
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// An open connection.
pub struct Line {
    stream: BufReader<Box<dyn Both>>,
    /// Header lines of every question.
    headers: String,
}

/// What goes both ways.
trait Both: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Both for T {}

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
        Ok(Self {
            stream: BufReader::new(Box::new(stream)),
            headers: String::new(),
        })
    }

    /// The same by TLS, for somebody with a token.
    pub async fn open_closed(port: u16, tls: Arc<ClientConfig>, token: &str) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        let stream = TlsConnector::from(tls).connect(name, stream).await?;
        Ok(Self {
            stream: BufReader::new(Box::new(stream)),
            headers: format!("Authorization: Bearer {token}\r\n"),
        })
    }

    /// Asks and waits for the answer.
    pub async fn call(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Answer> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             {}Content-Length: {}\r\n\r\n",
            self.headers,
            body.len()
        );
        self.stream
            .write_all(&[head.as_bytes(), body].concat())
            .await?;
        self.stream.flush().await?;
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
        self.stream.read_exact(&mut body).await?;
        Ok(Answer { status, body })
    }

    /// Posts JSON to the extender, which says in the body how it went.
    pub async fn post(&mut self, path: &str, body: &[u8]) -> Result<Vec<u8>> {
        self.succeed("POST", path, body).await
    }

    /// Gets what must be there.
    pub async fn get(&mut self, path: &str) -> Result<Vec<u8>> {
        self.succeed("GET", path, &[]).await
    }

    async fn succeed(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Vec<u8>> {
        let Answer { status, body } = self.call(method, path, body).await?;
        let text = || String::from_utf8_lossy(&body).into_owned();
        ensure!(status == 200, "{path} answered {status}: {:.300}", text());
        Ok(body)
    }

    async fn header(&mut self) -> Result<String> {
        let mut line = String::new();
        let length = self.stream.read_line(&mut line).await?;
        ensure!(length > 0, "the connection was closed");
        Ok(line.trim_end().to_owned())
    }
}
