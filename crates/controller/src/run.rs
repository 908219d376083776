//! Wiring and shutdown: starts every task, waits for a reason to stop, asks
//! all tasks to stop and joins each of them.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::{JoinError, JoinSet},
};
use tracing::info;

use crate::{
    apiserver::{self, ClientError, Pace},
    config::Config,
    contact::Contact,
    health::{self, Probes},
    leader::{Elector, Standing},
    stop, version,
};

/// Why the controller ended although nobody has asked it to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No way to the API server is known.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The health address is taken, or is not ours.
    #[error("cannot listen on {addr}; is another process there? (--health-addr)")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The system refuses to tell about signals.
    #[error("cannot wait for signals")]
    Signal(#[source] io::Error),
    /// The health server has failed.
    #[error("cannot serve health checks")]
    Health(#[source] io::Error),
    /// A task has ended before the stop. All of them run forever.
    #[error("a task has ended too early")]
    Ended,
    /// A task has panicked.
    #[error("a task has failed")]
    Task(#[source] JoinError),
}

impl Error {
    /// Whether a flag is wrong, rather than the world.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Client(ClientError::Kubeconfig { .. }))
    }
}

/// Runs the controller until SIGTERM or SIGINT.
pub async fn run(config: Config) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signal)?;
    let client = apiserver::client(config.kubeconfig).await?;
    let addr = config.health_addr;
    let listener = listen(addr).await?;
    info!(
        version = version::VERSION,
        commit = version::COMMIT,
        health_addr = %listener.local_addr().unwrap_or(addr),
        "floe-controller started",
    );

    let (stopper, stop) = stop::channel();
    let mut tasks: JoinSet<Result<(), Error>> = JoinSet::new();

    let contact = Contact::new();
    let pace = Pace {
        period: config.timing.retry_period(),
        limit: config.timing.renew_deadline() / 2,
    };
    let probe = apiserver::keep_contact(client.clone(), contact.clone(), pace, stop.clone());
    tasks.spawn(async move {
        probe.await;
        Ok(())
    });

    // Without an election nobody sends: the value stays what it is.
    let (mut standing, mut lease) = (watch::channel(Standing::Leading).1, None);
    if let Some(election) = config.election {
        let seen = lease.insert(Contact::new()).clone();
        let elector = Elector::new(client, election, config.timing, seen);
        standing = elector.standing();
        let elector = elector.run(stop.clone());
        tasks.spawn(async move {
            elector.await;
            Ok(())
        });
    }

    let router = health::router(Probes {
        apiserver: contact,
        lease,
        standing,
        limit: config.timing.renew_deadline(),
    });
    tasks.spawn(async move {
        health::serve(listener, router, stop)
            .await
            .map_err(Error::Health)
    });

    let mut result = tokio::select! {
        _ = terminate.recv() => { info!(signal = "SIGTERM", "stopping"); Ok(()) }
        _ = interrupt.recv() => { info!(signal = "SIGINT", "stopping"); Ok(()) }
        Some(ended) = tasks.join_next() => outcome(ended).and(Err(Error::Ended)),
    };
    stopper.stop();
    while let Some(ended) = tasks.join_next().await {
        // The first failure is the cause; later ones follow from it.
        result = result.and(outcome(ended));
    }
    info!("stopped");
    result
}

fn outcome(ended: Result<Result<(), Error>, JoinError>) -> Result<(), Error> {
    ended.map_err(Error::Task)?
}

/// Listens on an address. The wildcard of IPv6 serves IPv4 as well; where the
/// kernel has no IPv6, the wildcard of IPv4 takes its place.
async fn listen(addr: SocketAddr) -> Result<TcpListener, Error> {
    let bound = match TcpListener::bind(addr).await {
        Err(error)
            if addr.ip() == Ipv6Addr::UNSPECIFIED && error.raw_os_error() == Some(EAFNOSUPPORT) =>
        {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, addr.port())).await
        }
        other => other,
    };
    bound.map_err(|source| Error::Listen { addr, source })
}

/// "Address family not supported by protocol", the same on all of Linux.
const EAFNOSUPPORT: i32 = 97;
