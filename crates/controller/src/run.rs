//! Wiring and shutdown: starts every task, waits for a reason to stop, asks
//! all tasks to stop and joins each of them.

use std::{io, net::SocketAddr};

use axum::Extension;
use floe_shell::{
    client::{self, ClientError},
    figures,
    tasks::{self, Signals, TaskError},
    version,
};
use kube::Client;
use tokio::{net::TcpListener, sync::watch};
use tracing::info;

use crate::{
    addresses::{self, ConfigMapRef, InitError, Intake, Settings},
    apiserver::{self, Pace},
    config::{Config, Scheduling},
    contact::Contact,
    definitions::{self, Group},
    events::{self, Events},
    evict::Evictor,
    extender::callers::TokenError,
    health::{self, Probes},
    leader::{self, Addresses, Elector, Standing},
    metrics::{Metrics, PLAIN_COUNTERS},
    rest::{self, front::Replica, v1::Scheme},
    store::{self, Feeds, Store},
    transport::{
        address,
        tls::{Reloader, TlsError},
    },
};

mod api;
mod doors;
mod float_ips;
mod node_ips;
mod schedulers;
mod webhook;

use doors::Doors;
use float_ips::{Answering, Surroundings};
use node_ips::Surrounding;
use schedulers::CallerRules;

/// Why the controller ended although nobody has asked it to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// galaxy-ipam's file cannot be used.
    #[error(transparent)]
    Init(#[from] InitError),
    /// The address of the cloud provider makes no sense.
    #[error(transparent)]
    Cloud(#[from] floe_providers::galaxy::AddressError),
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
    /// A host name has no address.
    #[error("cannot resolve host name {host:?}; is it an address of this host? ({flag})")]
    Resolve {
        /// The host name.
        host: String,
        /// The flag that sets it.
        flag: &'static str,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The files for TLS cannot be used.
    #[error("cannot serve the scheduler extender by TLS (--extender-tls-cert-file)")]
    ExtenderTls(#[source] TlsError),
    /// The file with the token cannot be used.
    #[error("cannot use the token of the scheduler extender (--extender-token-file)")]
    ExtenderToken(#[source] TokenError),
    /// The files for TLS cannot be used.
    #[error("cannot serve the management API by TLS (--api-tls-cert-file)")]
    ApiTls(#[source] TlsError),
    /// A server has failed.
    #[error("cannot serve HTTP")]
    Serve(#[source] io::Error),
    /// Signals cannot be heard, or a task has ended before the stop.
    #[error(transparent)]
    Task(#[from] TaskError),
}

impl Error {
    /// Whether a flag is wrong, rather than the world.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Client(ClientError::Kubeconfig { .. }))
    }
}

/// Runs the controller until SIGTERM or SIGINT.
pub async fn run(config: Config) -> Result<(), Error> {
    let signals = Signals::listen()?;
    let settings = addresses::load(&config.file)?;
    let (sure, server) = client::make(config.kubeconfig.clone()).await?;
    let ways = Ways {
        client: client::shared(config.kubeconfig.clone()).await?,
        sure,
        evictor: Evictor::new(client::direct(config.kubeconfig.clone()).await?),
    };
    let doors = Doors::open(&config).await?;
    let open = open_ports(&doors);
    let told = |addr: Option<SocketAddr>| addr.map(|it| it.to_string());
    info!(
        version = version::VERSION,
        commit = version::COMMIT,
        health_addr = told(open.health),
        api_addr = told(open.api),
        extender_addr = told(open.extender),
        "floe-controller started",
    );
    let bound = config.extender.addr.ip();
    let own = address::own(bound, config.extender.advertise, &server).await;
    let url = |addr: Option<SocketAddr>, tls| Some(address::url(own?, addr?.port(), tls));
    let own = Addresses {
        extender: url(open.extender, config.extender.tls.is_some()),
        api: url(open.api, config.api.tls.is_some()),
    };

    let mut tasks = Tasks::default();
    start(&mut tasks, ways, &config, settings, doors, own)?;

    tasks.run(signals).await
}

/// The addresses on which this process listens; none for what it does not serve.
struct OpenPorts {
    health: Option<SocketAddr>,
    api: Option<SocketAddr>,
    extender: Option<SocketAddr>,
}

fn open_ports(doors: &Doors) -> OpenPorts {
    let addr = |listener: &TcpListener| listener.local_addr().ok();
    let float_ips = doors.float_ips.as_ref();
    OpenPorts {
        health: doors.health.as_ref().and_then(addr),
        api: float_ips.and_then(|it| addr(&it.api.listener)),
        extender: float_ips.and_then(|it| addr(&it.extender)),
    }
}

/// All tasks of the controller.
type Tasks = tasks::Tasks<Error>;

/// The ways to the API server.
struct Ways {
    /// What most of the controller uses, with many requests at a time.
    client: Client,
    /// For those who have to know in time: whether the server answers, who leads, and which
    /// nodes are dead.
    sure: Client,
    evictor: Evictor,
}

fn start(
    tasks: &mut Tasks,
    ways: Ways,
    config: &Config,
    settings: Settings,
    doors: Doors,
    own: Addresses,
) -> Result<(), Error> {
    let contact = Contact::new();
    let pace = Pace {
        period: config.timing.retry_period(),
        limit: config.timing.renew_deadline() / 2,
    };
    let Ways {
        client,
        sure,
        evictor,
    } = ways;
    let client = &client;
    let (asked, seen) = (sure.clone(), contact.clone());
    tasks.start(|stop| apiserver::keep_contact(asked, seen, pace, stop));

    // Without an election nobody sends: the value stays what it is.
    let (mut standing, mut lease) = (watch::channel(Standing::Leading).1, None);
    // A single replica forwards nothing, so it needs no key.
    let forwards_in = config.election.as_ref().map(|it| it.namespace.clone());
    if let Some(election) = config.election.clone() {
        let seen = lease.insert(Contact::new()).clone();
        let elector = Elector::new(sure.clone(), election, config.timing, seen, own);
        standing = elector.standing();
        tasks.start(|stop| elector.run(stop));
    }

    let (store, metrics) = (Store::default(), Metrics::default());
    let events = tell(tasks, client, &metrics);
    let (defined, crd_changes) = look_at_crds(tasks, client, config, &metrics, &events);
    if config.node_pools {
        let surrounding = Surrounding {
            events: events.clone(),
            metrics: metrics.clone(),
            standing: standing.clone(),
            crd_changes: crd_changes.clone(),
        };
        node_ips::start(tasks, &sure, config.float_ips, surrounding);
    }
    let Some(open) = doors.float_ips else {
        let limit = config.timing.renew_deadline();
        let probes = node_ips::probes(contact, lease, standing.clone(), &store, &metrics, limit);
        let figures = figures::router(metrics.registry(store, standing), PLAIN_COUNTERS);
        serve(tasks, doors.health, health::router(probes).merge(figures));
        return Ok(());
    };
    let file = settings.file.clone();
    let configuration = configure(tasks, client, settings, &store, &metrics, &events);
    let feeds = Feeds {
        client: client.clone(),
        store: store.clone(),
        defined,
    };
    tasks.start(|stop| store::feed(feeds, stop));
    let surroundings = Surroundings {
        client: client.clone(),
        evictor,
        store: store.clone(),
        metrics: metrics.clone(),
        events,
        standing: standing.clone(),
        crd_changes,
        scheduling: config.scheduling,
    };
    let caller_rules = CallerRules {
        sources: config.extender.allow_from.clone(),
        token: open.token,
        forwards_in,
    };
    let answering = float_ips::start(tasks, surroundings, caller_rules, &file)?;
    let Answering { extender, rest } = answering;
    if let Some(door) = open.webhook {
        let (store, metrics) = (store.clone(), metrics.clone());
        let gates = config.scheduling.mode == Scheduling::Gates;
        webhook::start(tasks, client, door, store, metrics, &file, gates);
    }
    let warmth = store.warmth();
    let secrets = open.tls.as_ref().map(Reloader::secrets);
    if let Some(tls) = open.tls {
        tasks.start(|stop| tls.run(stop));
    }
    let listed = warmth.clone();
    tasks.start(|stop| extender.serve(open.extender, secrets, listed, stop));

    let figures = figures::router(metrics.registry(store, standing.clone()), PLAIN_COUNTERS);
    let probes = health::router(Probes {
        apiserver: contact,
        lease,
        standing: standing.clone(),
        warmth: warmth.clone(),
        configuration,
        installation: metrics.installation().clone(),
        limit: config.timing.renew_deadline(),
    });
    serve(tasks, doors.health, probes.merge(figures.clone()));
    let scheme = Scheme(config.api.tls.as_ref().map_or("http", |_| "https"));
    let routes = rest::router(rest).merge(figures).layer(Extension(scheme));
    let replica = Replica {
        standing,
        warmth,
        metrics,
    };
    api::start(tasks, client, open.api, routes, replica);
    Ok(())
}

/// Starts what compares CRDs with those of this floe. Returns whether the required ones can be
/// watched, and a counter of changes.
fn look_at_crds(
    tasks: &mut Tasks,
    client: &Client,
    config: &Config,
    metrics: &Metrics,
    events: &Events,
) -> (watch::Receiver<bool>, watch::Receiver<u64>) {
    let (defined, is_defined) = watch::channel(false);
    let (changes, crd_changes) = watch::channel(0);
    let mut groups = Vec::new();
    if config.float_ips {
        groups.extend([Group::pod_ips(), Group::own()]);
    }
    if config.node_pools {
        groups.push(Group::node_pools());
    }
    let report = definitions::Report {
        metrics: metrics.clone(),
        events: events.clone(),
        defined,
        changes,
    };
    let client = client.clone();
    tasks.start(|stop| definitions::check(client, groups, report, stop));
    (is_defined, crd_changes)
}

/// Starts the writer of Events.
fn tell(tasks: &mut Tasks, client: &Client, metrics: &Metrics) -> Events {
    let (events, news) = events::counting_channel(metrics.lost_events());
    let instance = leader::identity();
    // The rest of the identity is random; the host's name is the pod's.
    let instance = instance
        .rsplit_once('_')
        .map_or("", |(host, _)| host)
        .to_owned();
    let writer = client.clone();
    tasks.start(|stop| news.write(writer, instance, stop));
    events
}

/// Puts the inline address configuration in force, or watches for one.
fn configure(
    tasks: &mut Tasks,
    client: &Client,
    settings: Settings,
    store: &Store,
    metrics: &Metrics,
    events: &Events,
) -> watch::Receiver<addresses::State> {
    let Settings { file, inline } = settings;
    if let Some(loaded) = inline {
        let reporter = addresses::Reporter::new(None, metrics.clone());
        let outcome = Intake::new(store.clone()).apply(loaded);
        reporter.tell(&outcome, "file of --config", None);
        store.warm(|warmth| warmth.configuration = true);
        return reporter.state();
    }
    let reporter = addresses::Reporter::new(Some(events.clone()), metrics.clone());
    let state = reporter.state();
    let place = ConfigMapRef::from(&file);
    let (client, store) = (client.clone(), store.clone());
    tasks.start(|stop| addresses::watch(client, place, store, reporter, stop));
    state
}

/// Serves health and metrics, unless they are disabled.
fn serve(tasks: &mut Tasks, listener: Option<TcpListener>, router: axum::Router) {
    let Some(listener) = listener else { return };
    tasks.start_fallible(|stop| async {
        let served = health::serve(listener, router, stop).await;
        served.map_err(Error::Serve)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn opened(flags: &[&str]) -> OpenPorts {
        let program = [
            "floe-controller",
            "--bind=127.0.0.1",
            "--port=0",
            "--api-port=0",
        ];
        let config = Config::parse(program.iter().chain(flags)).unwrap();
        open_ports(&Doors::open(&config).await.unwrap())
    }

    #[tokio::test]
    async fn only_ports_that_are_open_are_named() {
        let open = opened(&["--float-ips=false", "--metrics-bind-addr=localhost:0"]).await;
        assert!(open.health.unwrap().ip().is_loopback());
        assert_eq!((open.api, open.extender), (None, None));
        let open = opened(&["--metrics-bind-addr="]).await;
        assert_eq!(open.health, None);
        assert!(open.api.is_some() && open.extender.is_some());
    }

    #[tokio::test]
    async fn a_host_name_without_an_address_is_an_error_that_names_the_flag() {
        let flags = [
            "floe-controller",
            "--float-ips=false",
            "--metrics-bind-addr=no.invalid:1",
        ];
        let config = Config::parse(flags).unwrap();
        let error = Doors::open(&config).await.err().unwrap().to_string();
        assert!(
            error.contains("no.invalid") && error.contains("--metrics-bind-addr"),
            "{error}"
        );
    }
}
