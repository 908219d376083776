//! Wiring and shutdown: starts every task, waits for a reason to stop, asks all tasks
//! to stop and joins each of them.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use floe_net::lock::Lock;

use floe_shell::{
    client::{self, ClientError},
    logs,
    tasks::{self, Signals, TaskError},
    version,
};
use futures::FutureExt as _;
use kube::Client;
use tokio::{net::UnixListener, task::spawn_blocking};
use tracing::{info, warn};

use crate::{
    attach::{Attacher, Detached},
    config::Settings,
    cri::{Cri, CriError},
    delegate::Runner,
    events,
    health::{self, Conflicts, Health},
    metrics::Metrics,
    networks::{LoadError, Networks},
    permits::Records,
    places,
    pods::Pods,
    pulse::Pulse,
    rewired,
    server::{
        Server,
        door::{self, DoorError},
    },
    state::States,
    sweep::{self, Detach, Forgotten, Sweeper},
    sysctls,
    takeover::{self, Restore, Takeover, missing::Missing},
    turns::Turns,
    unfinished,
    vips::Vips,
};

/// How long an earlier process may take to end.
const PARTING: Duration = Duration::from_secs(3);

/// How long a plugin may take to configure an address again. The runtime waits for it when the
/// pod is deleted meanwhile.
const RESTORE: Duration = Duration::from_secs(30);

/// Why the agent ended although nobody has asked it to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody says which node this is.
    #[error("the name of this node is not known; set --hostname-override")]
    NoNode,
    /// `galaxy.json` cannot be used.
    #[error(transparent)]
    Networks(#[from] LoadError),
    /// No way to the API server is known.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The endpoint of the container runtime makes no sense.
    #[error(transparent)]
    Runtime(#[from] CriError),
    /// Another process serves this node.
    #[error("another agent runs on this node: {} is locked", .0.display())]
    Second(PathBuf),
    /// Nobody can say whether another process serves this node.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// What was to be locked.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The socket cannot be opened.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// The server has failed.
    #[error("cannot serve the socket")]
    Serve(#[source] io::Error),
    /// Signals cannot be heard, or a task has ended before the stop.
    #[error(transparent)]
    Task(#[from] TaskError),
}

impl Error {
    /// Whether a flag is wrong, rather than the world.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NoNode | Self::Runtime(_) | Self::Client(ClientError::Kubeconfig { .. })
        )
    }
}

/// Runs the agent until SIGTERM or SIGINT.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let signals = Signals::listen()?;
    if settings.node.is_empty() {
        return Err(Error::NoNode);
    }
    // First: without its address the node reaches nobody.
    unfinished::finish().await;
    let networks = Networks::load(&settings.networks_file, &settings.network_conf_dir)?;
    let cri = Cri::new(&settings.runtime)?;
    let (client, _) = client::make(settings.kubeconfig.clone()).await?;
    let _alone = alone(places::run()).await?;
    let listener = door::open(&settings.socket).await?;
    info!(
        version = version::VERSION,
        commit = version::COMMIT,
        node = settings.node,
        socket = %settings.socket.display(),
        networks = networks.settings().networks.len(),
        "floe-agent started",
    );
    if settings.trust_annotations {
        warn!(
            reason = "AnnotationsTrusted",
            "addresses of annotations are configured without looking at their records",
        );
    }

    let mut tasks = Tasks::default();
    let parts = Parts {
        networks,
        cri,
        client,
        listener,
    };
    start(&mut tasks, settings, parts);

    tasks.run(signals).await
}

/// Sees to it that no other process serves this node, in whatever socket or folder it
/// works: two of them would speak for each other's addresses.
async fn alone(folder: PathBuf) -> Result<Lock, Error> {
    let path = folder.join("agent.lock");
    let wanted = path.clone();
    let taken = spawn_blocking(move || Lock::take(&wanted, Instant::now() + PARTING)).await;
    match taken.map_err(io::Error::other).flatten() {
        Ok(lock) => Ok(lock),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(Error::Second(path)),
        Err(source) => Err(Error::Lock { path, source }),
    }
}

/// All tasks of the agent.
type Tasks = tasks::Tasks<Error>;

/// What could have failed, and did not.
struct Parts {
    networks: Networks,
    cri: Cri,
    client: Client,
    listener: UnixListener,
}

fn start(tasks: &mut Tasks, settings: Settings, parts: Parts) {
    let Parts {
        networks,
        cri,
        client,
        listener,
    } = parts;
    let node = settings.node;
    let metrics = measure(tasks, settings.metrics_addr);
    let (events, inbox) = events::counting_channel(metrics.lost_events());
    let (writer, instance) = (client.clone(), node.clone());
    tasks.start(|stop| inbox.write(writer, instance, stop));
    let kernel = sysctls::in_kernel();
    tasks.start(|stop| settings.sysctls.keep(kernel, stop));

    let (pods, records) = (Pods::new(client.clone()), Records::new(client.clone()));
    let (followed, own, doubts) = (pods.clone(), node.clone(), records.doubts());
    tasks.start(|stop| followed.run(own, doubts, stop));
    let (followed, own) = (records.clone(), node.clone());
    tasks.start(|stop| followed.run(own, stop));
    let doubting = records.clone();
    tasks.start(|stop| rewired::watch(move || doubting.forget(), stop));

    let pulse = Pulse {
        client: client.clone(),
        node: node.clone(),
        doubts: records.doubts(),
    };
    tasks.start(|stop| pulse.run(stop));

    let (conflicts, missing) = (Conflicts::default(), Missing::default());
    let health = Health {
        client: client.clone(),
        node: node.clone(),
        settings: Arc::new(networks.settings().clone()),
        conflicts: conflicts.clone(),
        missing: missing.clone(),
        look_up: health::in_kernel(),
        metrics: metrics.clone(),
    };
    tasks.start(|stop| health.run(stop));

    let (states, turns) = (States::new(settings.state_dir), Turns::default());
    let attacher = Attacher {
        pods: pods.clone(),
        records: (!settings.trust_annotations).then(|| records.clone()),
        networks,
        states: states.clone(),
        runner: Runner::new(settings.cni_paths),
        events: events.clone(),
        conflicts,
    };
    let vip_pods = pods.clone();
    let sweeper = Sweeper {
        cri: cri.clone(),
        states: states.clone(),
        turns: turns.clone(),
        pods,
        events: events.clone(),
        node: node.clone(),
        plugins: places::state(),
        detach: detacher(attacher.clone(), turns.clone()),
        host: Arc::new(sweep::Kernel),
        metrics: metrics.clone(),
    };
    tasks.start(|stop| sweeper.run(stop));
    if settings.vip {
        let forgetting = records.clone();
        let vips = Vips {
            client: client.clone(),
            node: node.clone(),
            pods: vip_pods,
            port: settings.vip_port,
            doubts: records.doubts(),
            regained: Box::new(move || forgetting.forget()),
            events: events.clone(),
            metrics: metrics.clone(),
        };
        let cri = cri.clone();
        tasks.start(|stop| vips.run(cri, stop));
    }
    let takeover = Takeover {
        records,
        client,
        cri,
        states,
        turns: turns.clone(),
        events,
        node,
        trust_annotations: settings.trust_annotations,
        take_off: takeover::in_kernel(),
        restore: restorer(attacher.clone()),
        look_in: takeover::looking_in_kernel(),
        missing,
        metrics: metrics.clone(),
        restoring: takeover::Restoring::default(),
    };
    tasks.start(|stop| takeover.run(stop));

    let server = Server::new(attacher, turns, metrics);
    tasks.start_fallible(|stop| async {
        let result = server.serve(listener, stop).await;
        result.map_err(Error::Serve)
    });
}

/// Serves metrics, if somebody wants them.
fn measure(tasks: &mut Tasks, addr: Option<SocketAddr>) -> Metrics {
    let metrics = Metrics::default();
    if let Some(addr) = addr {
        let served = metrics.clone();
        tasks.start(|stop| served.serve(addr, stop));
    }
    metrics
}

/// How an address is configured again that was taken off, in the turn of its container.
fn restorer(attacher: Attacher) -> Restore {
    let attacher = Attacher {
        runner: attacher.runner.within(RESTORE),
        ..attacher
    };
    Arc::new(move |container: String, ip: IpAddr| {
        let attacher = attacher.clone();
        let work = async move {
            let restored = attacher.restore(&container, ip).await;
            restored.map_err(|error| (error.reason(), logs::with_causes(&error)))
        };
        work.boxed()
    })
}

/// How the clean-up detaches what is forgotten, in the turn of its container.
fn detacher(attacher: Attacher, turns: Turns) -> Detach {
    Arc::new(move |forgotten: Forgotten| {
        let (attacher, turns) = (attacher.clone(), turns.clone());
        let work = async move {
            let _turn = turns.wait(forgotten.container()).await;
            let detached = match &forgotten {
                Forgotten::Container(container) => attacher.del_forgotten(container).await,
                Forgotten::Note(note) => {
                    let detached = attacher.del_noted(note).await;
                    detached.map(|()| Detached::Wholly)
                }
            };
            detached.map_err(|error| format!("{}: {}", error.reason(), logs::with_causes(&error)))
        };
        work.boxed()
    })
}
