//! A server that does nothing: it takes a body and gives an answer of a given
//! length. What a call to it takes is what the way there and back costs.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A server that is gone with this value.
pub struct Bare {
    /// Its port.
    pub port: u16,
    task: JoinHandle<Result<()>>,
}

impl Bare {
    /// Answers one connection, always with `answer`.
    pub async fn start(answer: Vec<u8>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            converse(BufReader::new(stream), &answer).await
        });
        Ok(Self { port, task })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn converse(mut stream: BufReader<TcpStream>, answer: &[u8]) -> Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
        answer.len()
    );
    let mut body = Vec::new();
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("Content-Length:") {
                length = value.trim().parse().context("not a length")?;
            }
        }
        body.resize(length, 0);
        stream.read_exact(&mut body).await?;
        stream
            .write_all(&[head.as_bytes(), answer].concat())
            .await?;
    }
}
