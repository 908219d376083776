//! The way between a client and an HTTP server, which fails as it is told.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// What happens to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server does it, and nobody ever answers.
    DoneThenSilent,
    /// The server does it, and the connection ends without an answer.
    DoneThenClosed,
    /// The connection is reset before the server hears of it.
    ResetBefore,
    /// The server does not hear of it; this status comes back, and after how many seconds
    /// to ask again.
    Status(u16, Option<u64>),
    /// The server does it, and half of a body comes back.
    Malformed,
    /// The server does it, and the answer takes its time.
    Slow(Duration),
}

/// Which requests are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Those that only ask.
    Reads,
    /// Those that change something.
    Writes,
}

/// A request that has come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Passed {
    /// Whether it changes something, by its method.
    pub fn writes(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD")
    }
}

/// The proxy. It ends when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    running: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    server: SocketAddr,
    writes: fn(&Passed) -> bool,
    script: Mutex<Vec<(On, Fault)>>,
    seen: Mutex<Vec<Passed>>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 for the server at that address, whose requests
    /// are told apart by their methods.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        Self::telling_apart(server, Passed::writes).await
    }

    /// The same for a server where methods do not tell which requests change something.
    pub async fn telling_apart(
        server: SocketAddr,
        writes: fn(&Passed) -> bool,
    ) -> io::Result<Self> {
        let mut proxy = Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            shared: Arc::new(Shared {
                server,
                writes,
                script: Mutex::default(),
                seen: Mutex::default(),
            }),
            running: Mutex::default(),
        };
        let listener = TcpListener::bind(proxy.address).await?;
        proxy.address = listener.local_addr()?;
        proxy.serve(listener);
        Ok(proxy)
    }

    /// Where clients reach it, as `http://address:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What happens to the next request of that kind; after it, all goes well again. Faults
    /// that wait for the same kind come one after the other.
    pub fn fail_next(&self, on: On, fault: Fault) {
        lock(&self.shared.script).push((on, fault));
    }

    /// The faults that nobody has met, which are forgotten.
    pub fn unmet(&self) -> Vec<(On, Fault)> {
        std::mem::take(&mut lock(&self.shared.script))
    }

    /// All requests so far, also those that the server never heard of.
    pub fn seen(&self) -> Vec<Passed> {
        lock(&self.shared.seen).clone()
    }

    /// How many requests there were of that kind.
    pub fn count(&self, on: On) -> usize {
        let of_kind = |passed: &&Passed| self.shared.kind(passed) == on;
        lock(&self.shared.seen).iter().filter(of_kind).count()
    }

    /// Nobody listens any more.
    pub async fn go_away(&self) {
        let running = lock(&self.running).take();
        if let Some(running) = running {
            running.abort();
            // It says that it was aborted.
            let _ = running.await;
        }
    }

    /// Listens again at the same address.
    pub async fn come_back(&self) -> io::Result<()> {
        self.go_away().await;
        self.serve(TcpListener::bind(self.address).await?);
        Ok(())
    }

    fn serve(&self, listener: TcpListener) {
        let shared = Arc::clone(&self.shared);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                // A client that breaks off has its reasons.
                tokio::spawn(async move { shared.pass(client).await });
            }
        });
        *lock(&self.running) = Some(accepting);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(running) = lock(&self.running).take() {
            running.abort();
        }
    }
}

impl Shared {
    fn kind(&self, passed: &Passed) -> On {
        if (self.writes)(passed) {
            On::Writes
        } else {
            On::Reads
        }
    }

    /// The fault that waits for such a request.
    fn take_fault(&self, passed: &Passed) -> Option<Fault> {
        let kind = self.kind(passed);
        let mut script = lock(&self.script);
        let at = script.iter().position(|(on, _)| *on == kind)?;
        Some(script.remove(at).1)
    }

    /// One request, one answer, and the connection ends.
    async fn pass(&self, mut client: TcpStream) -> io::Result<()> {
        let Some((request, passed)) = read_request(&mut client).await? else {
            return Ok(());
        };
        let fault = self.take_fault(&passed);
        lock(&self.seen).push(passed);
        match fault {
            None => {
                let answer = self.forward(&request).await?;
                client.write_all(&answer).await?;
            }
            Some(Fault::Slow(wait)) => {
                let answer = self.forward(&request).await?;
                tokio::time::sleep(wait).await;
                client.write_all(&answer).await?;
            }
            Some(Fault::DoneThenClosed) => {
                self.forward(&request).await?;
            }
            Some(Fault::DoneThenSilent) => {
                self.forward(&request).await?;
                // Until the client goes.
                let mut rest = Vec::new();
                client.read_to_end(&mut rest).await?;
            }
            Some(Fault::ResetBefore) => {
                client.set_zero_linger()?;
                return Ok(());
            }
            Some(Fault::Status(status, retry_after)) => {
                let answer = plain(status, retry_after);
                client.write_all(answer.as_bytes()).await?;
            }
            Some(Fault::Malformed) => {
                let answer = spoil(self.forward(&request).await?);
                client.write_all(&answer).await?;
            }
        }
        client.shutdown().await
    }

    async fn forward(&self, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut server = TcpStream::connect(self.server).await?;
        server.write_all(request).await?;
        let mut answer = Vec::new();
        server.read_to_end(&mut answer).await?;
        Ok(answer)
    }
}

/// A request as it has to be sent on, so that the server ends the connection after it.
async fn read_request(client: &mut TcpStream) -> io::Result<Option<(Vec<u8>, Passed)>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if client.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let mut kept = vec![first.clone()];
    let mut length = 0;
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        if name.eq_ignore_ascii_case("content-length") {
            let parsed = value.trim().parse();
            length = parsed.map_err(|_| io::Error::other("a length that is none"))?;
        }
        if !name.eq_ignore_ascii_case("connection") {
            kept.push(line.to_owned());
        }
    }
    kept.push("connection: close".to_owned());
    while bytes.len() < end + 4 + length {
        if client.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
    let body = bytes[end + 4..].to_vec();
    let mut words = first.split(' ').map(str::to_owned);
    let passed = Passed {
        method: words.next().unwrap_or_default(),
        path: words.next().unwrap_or_default(),
        body: body.clone(),
    };
    let mut request = kept.join("\r\n").into_bytes();
    request.extend_from_slice(b"\r\n\r\n");
    request.extend_from_slice(&body);
    Ok(Some((request, passed)))
}

/// An answer of the proxy itself, in a form that no API uses for its errors.
fn plain(status: u16, retry_after: Option<u64>) -> String {
    let wait = retry_after.map_or(String::new(), |wait| format!("retry-after: {wait}\r\n"));
    let body = "the way is not free";
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Fault\r\n{wait}content-type: text/plain\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// The same answer with a body that nobody can read; one without a body stays as it is.
fn spoil(answer: Vec<u8>) -> Vec<u8> {
    let status = answer
        .split(|byte| *byte == b'\r')
        .next()
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .unwrap_or_default();
    if status.split(' ').nth(1) == Some("204") {
        return answer;
    }
    let body = "{\"half\": ";
    let length = body.len();
    format!(
        "{status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Nobody panics with a lock; if it happens, what was written stays true.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
