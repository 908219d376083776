//! Wiring and shutdown: starts every task, waits for a reason to stop, asks
//! all tasks to stop and joins each of them.

use std::{
    future::Future,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};

use kube::Client;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::{JoinError, JoinSet},
};
use tracing::info;

use crate::{
    addresses::{self, ConfigMapRef, InitError, Intake, Reporter, Settings},
    apiserver::{self, ClientError, Pace},
    config::Config,
    contact::Contact,
    definitions, events,
    health::{self, Probes},
    leader::{self, Elector, Standing},
    metrics::{self, Metrics},
    stop::{self, Stop},
    store::{self, Feeds, Store},
    version,
};

/// Why the controller ended although nobody has asked it to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// galaxy-ipam's file cannot be used.
    #[error(transparent)]
    Init(#[from] InitError),
    /// No way to the API server is known.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An address is taken, or is not ours.
    #[error("cannot listen on {addr}; is another process there? ({flag})")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The flag that sets it.
        flag: &'static str,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The system refuses to tell about signals.
    #[error("cannot wait for signals")]
    Signal(#[source] io::Error),
    /// A server has failed.
    #[error("cannot serve HTTP")]
    Serve(#[source] io::Error),
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
    let settings = addresses::load(&config.file)?;
    let client = apiserver::client(config.kubeconfig.clone()).await?;
    let health = listen(config.health_addr, "--health-addr").await?;
    let api = listen(config.api_addr, "--bind, --api-port").await?;
    info!(
        version = version::VERSION,
        commit = version::COMMIT,
        health_addr = %health.local_addr().unwrap_or(config.health_addr),
        api_addr = %api.local_addr().unwrap_or(config.api_addr),
        "floe-controller started",
    );

    let (stopper, stop) = stop::channel();
    let mut tasks = Tasks {
        set: JoinSet::new(),
        stop,
    };
    start(&mut tasks, client, config, settings, health, api);

    let mut result = tokio::select! {
        _ = terminate.recv() => { info!(signal = "SIGTERM", "stopping"); Ok(()) }
        _ = interrupt.recv() => { info!(signal = "SIGINT", "stopping"); Ok(()) }
        Some(ended) = tasks.set.join_next() => outcome(ended).and(Err(Error::Ended)),
    };
    stopper.stop();
    while let Some(ended) = tasks.set.join_next().await {
        // The first failure is the cause; later ones follow from it.
        result = result.and(outcome(ended));
    }
    info!("stopped");
    result
}

fn start(
    tasks: &mut Tasks,
    client: Client,
    config: Config,
    settings: Settings,
    health: TcpListener,
    api: TcpListener,
) {
    let contact = Contact::new();
    let pace = Pace {
        period: config.timing.retry_period(),
        limit: config.timing.renew_deadline() / 2,
    };
    let (asked, seen) = (client.clone(), contact.clone());
    tasks.start(|stop| apiserver::keep_contact(asked, seen, pace, stop));

    // Without an election nobody sends: the value stays what it is.
    let (mut standing, mut lease) = (watch::channel(Standing::Leading).1, None);
    if let Some(election) = config.election {
        let seen = lease.insert(Contact::new()).clone();
        let elector = Elector::new(client.clone(), election, config.timing, seen);
        standing = elector.standing();
        tasks.start(|stop| elector.run(stop));
    }

    let (store, metrics) = (Store::default(), Metrics::default());
    let configuration = configure(tasks, &client, settings, &store, &metrics);
    let (sender, defined) = watch::channel(false);
    let (looked, noted) = (client.clone(), metrics.clone());
    tasks.start(|stop| definitions::check(looked, noted, sender, stop));
    let feeds = Feeds {
        client,
        store: store.clone(),
        defined,
    };
    tasks.start(|stop| store::feed(feeds, stop));

    let warmth = store.warmth();
    let figures = metrics::router(metrics.registry(store, standing.clone()));
    let probes = health::router(Probes {
        apiserver: contact,
        lease,
        standing,
        warmth,
        configuration,
        limit: config.timing.renew_deadline(),
    });
    tasks.serve(health, probes.merge(figures.clone()));
    tasks.serve(api, figures);
}

/// Puts the inline address configuration in force, or watches for one.
fn configure(
    tasks: &mut Tasks,
    client: &Client,
    settings: Settings,
    store: &Store,
    metrics: &Metrics,
) -> watch::Receiver<addresses::State> {
    let Settings { file, inline } = settings;
    if let Some(loaded) = inline {
        let reporter = Reporter::new(None, metrics.clone());
        let outcome = Intake::new(store.clone()).apply(loaded);
        reporter.tell(&outcome, "file of --config", None);
        store.warm(|warmth| warmth.configuration = true);
        return reporter.state();
    }
    let (events, news) = events::channel();
    let instance = leader::identity();
    // The rest of the identity is random; the host's name is the pod's.
    let instance = instance
        .rsplit_once('_')
        .map_or("", |(host, _)| host)
        .to_owned();
    let writer = client.clone();
    tasks.start(|stop| events::write(writer, news, instance, stop));
    let reporter = Reporter::new(Some(events), metrics.clone());
    let state = reporter.state();
    let place = ConfigMapRef::from(&file);
    let (client, store) = (client.clone(), store.clone());
    tasks.start(|stop| addresses::watch(client, place, store, reporter, stop));
    state
}

/// All tasks, and how they learn that they shall end.
struct Tasks {
    set: JoinSet<Result<(), Error>>,
    stop: Stop,
}

impl Tasks {
    fn start<F>(&mut self, task: impl FnOnce(Stop) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = task(self.stop.clone());
        self.set.spawn(async move {
            task.await;
            Ok(())
        });
    }

    fn serve(&mut self, listener: TcpListener, router: axum::Router) {
        let stop = self.stop.clone();
        self.set.spawn(async move {
            let served = health::serve(listener, router, stop).await;
            served.map_err(Error::Serve)
        });
    }
}

fn outcome(ended: Result<Result<(), Error>, JoinError>) -> Result<(), Error> {
    ended.map_err(Error::Task)?
}

/// Listens on an address. The wildcard of IPv6 serves IPv4 as well; where the
/// kernel has no IPv6, the wildcard of IPv4 takes its place.
async fn listen(addr: SocketAddr, flag: &'static str) -> Result<TcpListener, Error> {
    let bound = match TcpListener::bind(addr).await {
        Err(error)
            if addr.ip() == Ipv6Addr::UNSPECIFIED && error.raw_os_error() == Some(EAFNOSUPPORT) =>
        {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, addr.port())).await
        }
        other => other,
    };
    bound.map_err(|source| Error::Listen { addr, flag, source })
}

/// "Address family not supported by protocol", the same on all of Linux.
const EAFNOSUPPORT: i32 = 97;
