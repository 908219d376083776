//! Takes connections of the scheduler and of other replicas, with TLS or
//! without, and ends them when the process stops.

use std::{sync::Arc, time::Duration};

use axum::Router;
use floe_shell::{logs, stop::Stop};
use hyper::{
    rt::{Read, Write},
    server::conn::http1,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error, warn};

use super::Secrets;

/// How long a client may take to agree on a key.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How long a connection may be idle, or a client take for its headers. Go's
/// clients keep one for 90 seconds, and do not repeat a call if the server
/// closes it just then; so the server keeps it longer.
const IDLE: Duration = Duration::from_mins(3);

/// How long calls may take to end when the process stops: longer than any.
const DRAIN: Duration = Duration::from_secs(6);

/// How many connections there are at once.
const CONNECTIONS: usize = 1024;

/// The pause when the system has no connection to give.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves the routes until `stop`; then answers what is under way, and waits
/// for what goes on without a caller, which `quiet` tells.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    secrets: Option<watch::Receiver<Arc<Secrets>>>,
    quiet: impl Future<Output = ()>,
    mut stop: Stop,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.requested() => break,
            Some(ended) = connections.join_next() => { note(ended); continue }
            accepted = accept(&listener, &room) => accepted,
        };
        let (stream, permit) = accepted;
        let secrets = secrets.as_ref().map(|secrets| secrets.borrow().clone());
        let (router, stop) = (router.clone(), stop.clone());
        connections.spawn(async move {
            converse(stream, router, secrets, stop).await;
            drop(permit);
        });
    }
    drop(listener);
    let drained = async {
        while let Some(ended) = connections.join_next().await {
            note(ended);
        }
        quiet.await;
    };
    if timeout(DRAIN, drained).await.is_err() {
        warn!(
            reason = "DrainTimeout",
            "stopping although calls are under way"
        );
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, Option<tokio::sync::OwnedSemaphorePermit>) {
    // It is never closed, so that there is always a permit in the end.
    let permit = Arc::clone(room).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            // Either the client has gone already, or there are too many open
            // files, which others may close.
            Err(error) => {
                warn!(reason = "AcceptFailed", %error, "cannot take a connection");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn converse(
    stream: TcpStream,
    router: Router,
    secrets: Option<Arc<Secrets>>,
    mut stop: Stop,
) {
    // It only costs time if this fails.
    let _ = stream.set_nodelay(true);
    let Some(secrets) = secrets else {
        return talk(TokioIo::new(stream), router, stop).await;
    };
    let handshake = TlsAcceptor::from(secrets.server()).accept(stream);
    let agreed = tokio::select! {
        () = stop.requested() => return,
        agreed = timeout(HANDSHAKE, handshake) => agreed,
    };
    match agreed {
        Ok(Ok(stream)) => talk(TokioIo::new(stream), router, stop).await,
        Ok(Err(error)) => debug!(reason = "HandshakeFailed", %error, "no TLS with a client"),
        Err(_) => debug!(reason = "HandshakeTimeout", "no TLS with a client in time"),
    }
}

async fn talk<I>(io: I, router: Router, mut stop: Stop)
where
    I: Read + Write + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
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
