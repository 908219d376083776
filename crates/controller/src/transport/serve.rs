//! Takes connections, with TLS or without, and ends them when the process stops.
//!
//! Guarantees: a client that is slow or silent costs its own connection only. One that
//! is refused while it still sends gets to read why. One address cannot take all
//! connections, and the fuller it gets, the less time an idle one has.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{Extension, Router};
use floe_shell::{logs, stop::Stop};
use hyper::{
    rt::{Read, Write},
    server::conn::http1,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use socket2::SockRef;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error, warn};

use super::{linger::Lingering, plain, tls::Secrets};

/// How much clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a connection may be idle, or a client take for its headers.
    pub idle: Duration,
    /// The same when more than half of all connections are taken.
    pub hurried: Duration,
    /// How many connections there are at once.
    pub connections: usize,
    /// How many of them one address may have.
    pub from_one: usize,
    /// How long a client may leave unread what was sent; `None`: forever.
    pub unread: Option<Duration>,
    /// Whether a client that sends no more is still answered.
    pub half_closed: bool,
    /// How long calls may take to end when the process stops.
    pub drain: Duration,
}

/// The address from which a request came: an extension of every request. IPv4 addresses are
/// in their own form, also on a socket of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

/// How long a client may take to agree on a key.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The pause when the system has no connection to give.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves the routes until `stop`; then answers what is under way, and waits
/// for what goes on without a caller, which `quiet` tells.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    secrets: Option<watch::Receiver<Arc<Secrets>>>,
    limits: Limits,
    quiet: impl Future<Output = ()>,
    mut stop: Stop,
) {
    let lobby = Lobby::new(limits);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.requested() => break,
            Some(ended) = connections.join_next() => { note(ended); continue }
            accepted = lobby.accept(&listener) => accepted,
        };
        let Some((stream, seat)) = accepted else {
            continue;
        };
        let secrets = secrets.as_ref().map(|secrets| secrets.borrow().clone());
        let manners = Manners {
            idle: lobby.patience(),
            ..Manners::from(limits)
        };
        let router = router.clone().layer(Extension(PeerAddress(seat.from)));
        let stop = stop.clone();
        connections.spawn(async move {
            converse(stream, router, secrets, manners, stop).await;
            drop(seat);
        });
    }
    drop(listener);
    let drained = async {
        while let Some(ended) = connections.join_next().await {
            note(ended);
        }
        quiet.await;
    };
    if timeout(limits.drain, drained).await.is_err() {
        warn!(
            reason = "DrainTimeout",
            "stopping although calls are under way"
        );
    }
}

/// Where connections come in.
struct Lobby {
    limits: Limits,
    room: Arc<Semaphore>,
    /// How many connections each address has.
    guests: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A place among the connections, free again when it is dropped.
struct Seat {
    guests: Arc<Mutex<HashMap<IpAddr, usize>>>,
    from: IpAddr,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Lobby {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            room: Arc::new(Semaphore::new(limits.connections)),
            guests: Arc::default(),
        }
    }

    /// The next connection, when there is room; none if its address has too many.
    async fn accept(&self, listener: &TcpListener) -> Option<(TcpStream, Seat)> {
        // It is never closed, so that there is always a permit in the end.
        let permit = Arc::clone(&self.room).acquire_owned().await.ok();
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let seat = self.seat(from.ip().to_canonical(), permit)?;
                    return Some((stream, seat));
                }
                // Either the client has gone already, or there are too many open
                // files, which others may close.
                Err(error) => {
                    warn!(reason = "AcceptFailed", %error, "cannot take a connection");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn seat(&self, from: IpAddr, permit: Option<OwnedSemaphorePermit>) -> Option<Seat> {
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = guests.entry(from).or_default();
        if *taken >= self.limits.from_one {
            debug!(reason = "TooManyConnections", %from, "connection closed");
            return None;
        }
        *taken += 1;
        Some(Seat {
            guests: Arc::clone(&self.guests),
            from,
            _permit: permit,
        })
    }

    /// How long the next connection may be idle.
    fn patience(&self) -> Duration {
        if self.room.available_permits() < self.limits.connections / 2 {
            return self.limits.hurried;
        }
        self.limits.idle
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = guests.get_mut(&self.from) {
            *taken -= 1;
            if *taken == 0 {
                guests.remove(&self.from);
            }
        }
    }
}

/// How one client is treated.
#[derive(Clone, Copy)]
struct Manners {
    idle: Duration,
    unread: Option<Duration>,
    half_closed: bool,
}

impl From<Limits> for Manners {
    fn from(limits: Limits) -> Self {
        Self {
            idle: limits.idle,
            unread: limits.unread,
            half_closed: limits.half_closed,
        }
    }
}

async fn converse(
    stream: TcpStream,
    router: Router,
    secrets: Option<Arc<Secrets>>,
    manners: Manners,
    mut stop: Stop,
) {
    // It only costs time if this fails.
    let _ = stream.set_nodelay(true);
    if manners.unread.is_some() {
        // Where the system cannot do it, the number of connections is the limit.
        let _ = SockRef::from(&stream).set_tcp_user_timeout(manners.unread);
    }
    let Some(secrets) = secrets else {
        let io = TokioIo::new(Lingering::new(stream));
        return talk(io, router, manners, stop).await;
    };
    let deadline = Instant::now() + HANDSHAKE;
    let begun = tokio::select! {
        () = stop.requested() => return,
        begun = timeout_at(deadline, plain::is_spoken(&stream)) => begun,
    };
    let stream = Lingering::new(stream);
    if let Ok(Ok(true)) = begun {
        debug!(reason = "HttpsRequired", "plain HTTP where TLS is spoken");
        return talk(TokioIo::new(stream), plain::router(), manners, stop).await;
    }
    let Some(server) = secrets.server() else {
        return debug!(reason = "NoCertificate", "connection closed");
    };
    let handshake = TlsAcceptor::from(server).accept(stream);
    let agreed = tokio::select! {
        () = stop.requested() => return,
        agreed = timeout_at(deadline, handshake) => agreed,
    };
    match agreed {
        Ok(Ok(stream)) => talk(TokioIo::new(stream), router, manners, stop).await,
        Ok(Err(error)) => debug!(reason = "HandshakeFailed", %error, "no TLS with a client"),
        Err(_) => debug!(reason = "HandshakeTimeout", "no TLS with a client in time"),
    }
}

async fn talk<I>(io: I, router: Router, manners: Manners, mut stop: Stop)
where
    I: Read + Write + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(manners.idle)
        .half_close(manners.half_closed)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = &mut connection => result,
        () = stop.requested() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        debug!(error = logs::with_causes(&error), "a connection has ended");
    }
}

/// A call that fails takes its connection along, and nothing else.
fn note(ended: Result<(), tokio::task::JoinError>) {
    if let Err(failed) = ended {
        error!(reason = "InternalError", error = %failed, "a call has failed");
    }
}
