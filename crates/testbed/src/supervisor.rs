//! The supervisor: one process that owns a running cluster.
//!
//! It stays on the machine's network, starts every host and program, takes
//! requests on a socket, and ends everything when it is asked to or when the
//! process that started it goes away. Whatever it starts dies with it; what the
//! kernel does not clear away by itself (control groups, files) is removed at
//! its end, or before the next start after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use kube::Client;
use nix::mount::{MsFlags, mount};
use tokio::task::JoinHandle;

use crate::cgroup::Cgroup;
use crate::cluster::control::{ProgramName, Reply, Request};
use crate::cluster::paths::Paths;
use crate::cluster::spec::ClusterSpec;
use crate::cluster::wait;
use crate::host::{Host, HostRef, Role};
use crate::kubernetes::Programs;
use crate::registry;

pub mod addresses;
mod bootstrap;
mod catalog;
pub mod control_plane;
pub mod door;
pub mod fake_nodes;
mod gate;
mod network;
mod node;
mod pki;
mod program;
mod remains;
mod requests;
mod storage;

use addresses::{API_SERVER, API_SERVER_BEHIND_GATE, CONTROL_PLANE, REGISTRY, Seat};
use control_plane::ControlPlane;
use door::{Call, Door, Progress, report};
use gate::Gate;
use node::Node;
use pki::Pki;
use program::{Program, Recipe};
use remains::{BURIAL, Logs, all_of, bury, lock};

pub use bootstrap::{api_server_is_ready, is_ready, nodes_are_ready, service_accounts_exist};
pub use catalog::BUSYBOX;
pub use remains::{CGROUP_PREFIX, cgroup_of, clean_up, owner};

const PATIENCE: Duration = Duration::from_secs(90);

/// Runs a cluster until it is asked to end; the body of `floe-testbed supervise`.
///
/// # Assumptions
/// The caller gave this process a mount namespace of its own, and runs it on one
/// thread that lives as long as the cluster.
pub async fn run(spec: ClusterSpec, programs: Programs) -> Result<()> {
    spec.validate()?;
    let paths = Paths::of(&spec.name)?;
    let _lock = lock(&spec.name, &paths)?;
    bury(&spec.name, &paths, Logs::Remove)?;
    for directory in [
        paths.config(),
        paths.logs(),
        paths.registry(),
        paths.disks(),
    ] {
        fs::create_dir_all(directory)?;
    }
    mount(
        Some("tmpfs"),
        &paths.disks(),
        Some("tmpfs"),
        MsFlags::empty(),
        None::<&str>,
    )
    .context("cannot make disks in memory")?;
    let name = spec.name.clone();
    let result = supervise(spec, programs, &paths).await;
    // Hosts and programs ended with `supervise`; now for what they leave.
    let unmounted = nix::mount::umount2(&paths.disks(), nix::mount::MntFlags::MNT_DETACH);
    let buried = bury(&name, &paths, Logs::Keep);
    all_of([result, unmounted.map_err(Into::into), buried])
}

/// Runs until the cluster shall end. Everything started here ends with it.
async fn supervise(spec: ClusterSpec, programs: Programs, paths: &Paths) -> Result<()> {
    let mut door = Door::open()?;
    let mut cluster = Supervisor::new(spec, programs, paths.clone())?;
    tokio::select! {
        result = cluster.bring_up() => result?,
        // Nobody can send requests before the door listens: it is the end.
        _ = door.next() => return Ok(()),
    }
    door.listen(&paths.control())?;
    report(&Progress::Ready);
    loop {
        match door.next().await {
            Call::Request(request, answer) => {
                tracing::info!(?request, "request");
                let last = request == Request::Down;
                let reply = match cluster.handle(request).await {
                    Ok(reply) => reply,
                    Err(error) => Reply::Refused(format!("{error:#}")),
                };
                // Nobody waits for the answer if the asker went away.
                let _ = answer.send(reply);
                if last {
                    return Ok(());
                }
            }
            Call::End(reason) => {
                tracing::info!(reason, "ending");
                return Ok(());
            }
        }
    }
}

/// A cluster's hosts and programs, in the hands of their owner.
struct Supervisor {
    spec: ClusterSpec,
    kubernetes: Programs,
    paths: Paths,
    cgroup: Cgroup,
    pki: Pki,
    seats: Vec<Seat>,
    since: Timestamp,
    // In this order they are dropped: hosts take their programs with them, and
    // the programs then only have to be buried.
    hosts: BTreeMap<String, Host>,
    programs: BTreeMap<ProgramName, Program>,
    gate: Option<Gate>,
    /// What keeps the fake nodes alive.
    fake_life: Option<JoinHandle<()>>,
    /// Hosts that are cut off from the control plane.
    cut_off: BTreeSet<String>,
    /// Whether anything was broken since the last time that all was mended.
    is_broken: bool,
}

impl Supervisor {
    fn new(spec: ClusterSpec, kubernetes: Programs, paths: Paths) -> Result<Self> {
        let mut seats: Vec<_> = (1..=spec.nodes).map(Seat::Node).collect();
        seats.extend([Seat::ControlPlane, Seat::Outside]);
        Ok(Self {
            cgroup: cgroup_of(&spec.name),
            pki: Pki::create(&paths.config())?,
            since: Timestamp::now(),
            programs: BTreeMap::new(),
            hosts: BTreeMap::new(),
            gate: None,
            fake_life: None,
            cut_off: BTreeSet::new(),
            is_broken: false,
            spec,
            kubernetes,
            paths,
            seats,
        })
    }

    async fn bring_up(&mut self) -> Result<()> {
        step("making images");
        catalog::make(&self.paths.registry())?;

        step("starting the control plane");
        let control_plane = self.boot(Seat::ControlPlane, &Role::Plain)?;
        network::make_switch(&control_plane, &self.seats)?;
        let commands = ControlPlane::configure(
            &self.spec,
            &self.kubernetes,
            &self.pki,
            &self.paths.config(),
            &self.paths.audit(),
            &self.etcd_disk(),
        )?;
        self.start(CONTROL_PLANE, "etcd", commands.etcd)?;
        self.start(CONTROL_PLANE, "kube-apiserver", commands.api_server)?;
        self.open_gate(&control_plane).await?;
        let outside = self.boot(Seat::Outside, &Role::Plain)?;
        network::plug_in(&control_plane, &outside, Seat::Outside, &self.seats)?;
        // Nodes boot while the API server comes up; only kubelets need it.
        let mut kubelets = Vec::new();
        for number in 1..=self.spec.nodes {
            kubelets.push((Seat::Node(number), self.boot_node(Seat::Node(number))?));
        }
        let client = self.client().await?;
        self.wait_for("the API server", async || {
            bootstrap::api_server_is_ready(&client).await
        })
        .await?;
        self.start(
            CONTROL_PLANE,
            "kube-controller-manager",
            commands.controller_manager,
        )?;
        self.start(CONTROL_PLANE, "kube-scheduler", commands.scheduler)?;
        self.start(CONTROL_PLANE, "kube-proxy", commands.proxy)?;

        step(&format!("starting {} nodes", self.spec.nodes));
        for (seat, node) in kubelets {
            let host = self.host(&seat.name())?;
            self.wait_for_runtime(&host).await?;
            self.start(&seat.name(), "kubelet", node.kubelet)?;
            self.start(&seat.name(), "kube-proxy", node.proxy)?;
        }
        bootstrap::publish_api_server(&client).await?;
        self.wait_for("service accounts", async || {
            bootstrap::service_accounts_exist(&client).await
        })
        .await?;
        let nodes = usize::from(self.spec.nodes);
        self.wait_for("the nodes", async || {
            bootstrap::nodes_are_ready(&client, nodes).await
        })
        .await?;

        if self.spec.fake_nodes > 0 {
            step(&format!("creating {} fake nodes", self.spec.fake_nodes));
            fake_nodes::create(&client, self.spec.fake_nodes).await?;
            self.keep_fake_nodes_alive(client);
        }
        Ok(())
    }

    /// Has the fake nodes live, instead of whoever kept them alive before.
    fn keep_fake_nodes_alive(&mut self, client: Client) {
        let life = tokio::spawn(fake_nodes::live(client, self.spec.fake_nodes));
        if let Some(before) = self.fake_life.replace(life) {
            before.abort();
        }
    }

    fn boot(&mut self, seat: Seat, role: &Role) -> Result<HostRef> {
        let cgroup = self.cgroup.child(&seat.name()).child("system");
        cgroup.create().context("cannot make a control group")?;
        let host = Host::boot(&seat.name(), role, Some(&cgroup))?;
        let address = host.address().clone();
        self.hosts.insert(seat.name(), host);
        Ok(address)
    }

    /// Boots a node up to its container runtime, and returns the rest.
    fn boot_node(&mut self, seat: Seat) -> Result<Node> {
        let disk = self.paths.disks().join(seat.name());
        let cgroup = self.cgroup.child(&seat.name());
        let node = Node::configure(
            seat,
            &self.kubernetes,
            &self.pki,
            &self.paths.config(),
            &disk,
            &cgroup,
        )?;
        let host = self.boot(seat, &Role::Node { disk })?;
        network::plug_in(&self.host(CONTROL_PLANE)?, &host, seat, &self.seats)?;
        self.start(&seat.name(), "containerd", node.containerd.clone())?;
        Ok(node)
    }

    fn start(&mut self, host: &str, program: &str, command: Vec<String>) -> Result<()> {
        let name = ProgramName::new(host, program);
        let recipe = Recipe {
            name: name.clone(),
            command,
            cgroup: self.cgroup.child(host).child("system"),
            log: self.paths.log(&name),
        };
        let program = Program::start(recipe, &self.host(host)?)?;
        self.programs.insert(name, program);
        Ok(())
    }

    async fn open_gate(&mut self, control_plane: &HostRef) -> Result<()> {
        let network = control_plane.network()?;
        let on_machine = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let server = format!("https://{}", on_machine.local_addr()?);
        self.pki.kubeconfig(
            &self.paths.kubeconfig(),
            &server,
            "admin",
            Some("system:masters"),
        )?;
        let listeners = vec![on_machine, network.listen(API_SERVER)?];
        let images = network.listen(REGISTRY)?;
        let registry = registry::router(self.paths.registry());
        tokio::spawn(async move { axum::serve(images, registry).await });
        self.gate = Some(Gate::open(listeners, network, API_SERVER_BEHIND_GATE));
        Ok(())
    }

    /// Waits until the container runtime of a node listens: a kubelet that comes
    /// before it ends at once, and here nobody starts it again.
    async fn wait_for_runtime(&self, host: &HostRef) -> Result<()> {
        let socket = format!("/proc/{}/root/run/containerd/containerd.sock", host.anchor);
        let what = format!("containerd of {} listens", host.name);
        wait::until(&what, PATIENCE, async || {
            Ok(Path::new(&socket).exists().then_some(()))
        })
        .await
    }

    async fn client(&self) -> Result<Client> {
        crate::cluster::client_of(&self.paths.kubeconfig()).await
    }

    /// Polls until `probe` holds; a program that ends meanwhile ends the wait.
    async fn wait_for(
        &mut self,
        what: &str,
        mut probe: impl AsyncFnMut() -> Result<bool>,
    ) -> Result<()> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let last = match probe().await {
                Ok(true) => return Ok(()),
                Ok(false) => "not yet".to_owned(),
                Err(error) => format!("{error:#}"),
            };
            for program in self.programs.values_mut() {
                let status = program.status();
                if let Some(ended) = status.ended {
                    let log = self.paths.log(&status.name);
                    bail!(
                        "{} ended ({ended}) while waiting for {what}; the end of {}:\n{}",
                        status.name,
                        log.display(),
                        crate::command::tail(&fs::read_to_string(&log).unwrap_or_default(), 15)
                    );
                }
            }
            if tokio::time::Instant::now() > deadline {
                bail!(
                    "waited {} s for {what} in vain: {last} (logs: {})",
                    PATIENCE.as_secs(),
                    self.paths.logs().display()
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn host(&self, name: &str) -> Result<HostRef> {
        match self.hosts.get(name) {
            Some(host) => Ok(host.address().clone()),
            None => bail!("host {name} is switched off or does not exist"),
        }
    }

    fn program(&mut self, name: &ProgramName) -> Result<&mut Program> {
        self.programs
            .get_mut(name)
            .with_context(|| format!("there is no program {name}"))
    }
}

impl Drop for Supervisor {
    /// Hosts are about to be switched off, and a frozen process would not die.
    fn drop(&mut self) {
        if let Err(error) = self.cgroup.thaw() {
            tracing::warn!(%error, "cannot thaw what was paused");
        }
    }
}

fn step(title: &str) {
    tracing::info!(title, "step");
    report(&Progress::Step(title.to_owned()));
}
