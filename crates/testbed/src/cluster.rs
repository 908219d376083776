//! A real cluster: brought up, reused, broken on purpose, and taken down.
//!
//! A [`Cluster`] is a handle that works from any process on the machine. The
//! cluster itself belongs to a supervisor of its own (see [`crate::supervisor`]),
//! which ends it when the process that started it goes away, unless it was told
//! to stay.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::host::{HostRef, testbed_program};
use crate::kubernetes::{self, Program, Programs};
use crate::packages::{self, Need};
use crate::progress::Step;
use crate::supervisor::door::{DETACH, Progress};
use crate::supervisor::{self, BUSYBOX};

pub mod control;
mod faults;
pub mod namespace;
pub mod paths;
mod pods;
pub mod shared;
pub mod spec;
mod storage;
pub mod wait;

use control::{Reply, Request, Status, ask};
use paths::Paths;
use spec::ClusterSpec;

/// Programs that a cluster needs beside Kubernetes itself.
const NEEDS: &[Need] = &[
    Need {
        program: "containerd",
        package: "containerd",
    },
    Need {
        program: "runc",
        package: "runc",
    },
    Need {
        program: "ip",
        package: "iproute2",
    },
    Need {
        program: "nft",
        package: "nftables",
    },
    Need {
        program: "conntrack",
        package: "conntrack",
    },
    Need {
        program: "tcpdump",
        package: "tcpdump",
    },
    Need {
        program: "ping",
        package: "iputils-ping",
    },
    Need {
        program: "sysctl",
        package: "procps",
    },
    Need {
        program: BUSYBOX,
        package: "busybox-static",
    },
    Need {
        program: "/usr/lib/cni/ptp",
        package: "containernetworking-plugins",
    },
];

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    name: String,
    paths: Paths,
    kubectl: PathBuf,
    lifeline: Option<Lifeline>,
}

/// The supervisor of a cluster that ends with this process.
#[derive(Debug)]
struct Lifeline {
    supervisor: Child,
    stdin: Option<ChildStdin>,
}

impl Cluster {
    /// Brings a cluster up; it ends when the handle is dropped or this process
    /// ends, however it ends.
    pub fn up(spec: &ClusterSpec) -> Result<Self> {
        spec.validate()?;
        let programs = prepare()?;
        let paths = Paths::of(&spec.name)?;
        let lifeline = start_supervisor(spec, &paths)?;
        Ok(Self {
            name: spec.name.clone(),
            paths,
            kubectl: programs.path(Program::Kubectl).to_owned(),
            lifeline: Some(lifeline),
        })
    }

    /// A handle to a cluster that is up already, if it is.
    pub async fn attach(name: &str) -> Result<Option<Self>> {
        spec::validate_name(name)?;
        let paths = Paths::of(name)?;
        if ask(&paths.control(), &Request::Status).await.is_err() {
            return Ok(None);
        }
        let kubectl = Programs::ensure()?.path(Program::Kubectl).to_owned();
        Ok(Some(Self {
            name: name.to_owned(),
            paths,
            kubectl,
            lifeline: None,
        }))
    }

    /// Lets the cluster outlive this process.
    pub fn detach(mut self) -> Result<()> {
        if let Some(mut lifeline) = self.lifeline.take()
            && let Some(mut stdin) = lifeline.stdin.take()
        {
            writeln!(stdin, "{DETACH}").context("the cluster ended before it could be let go")?;
        }
        Ok(())
    }

    /// Ends the cluster of that name and removes what is left of it, if anything.
    ///
    /// Returns whether there was a running cluster.
    pub async fn down(name: &str) -> Result<bool> {
        spec::validate_name(name)?;
        require_root()?;
        packages::remove_stale()?;
        let paths = Paths::of(name)?;
        let Some(owner) = supervisor::owner(&paths) else {
            wait_until_gone(name)?;
            return Ok(false);
        };
        // It may be gone before its answer is out, or not listen yet.
        if ask(&paths.control(), &Request::Down).await.is_err() {
            for signal in [Signal::SIGTERM, Signal::SIGKILL] {
                // Gone in the meantime is what is wanted.
                let _ = kill(Pid::from_raw(owner), signal);
                if wait_until_gone(name).is_ok() {
                    return Ok(true);
                }
            }
        }
        wait_until_gone(name)?;
        Ok(true)
    }

    /// The name of the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its files are.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// How it is.
    pub async fn status(&self) -> Result<Status> {
        match ask(&self.paths.control(), &Request::Status).await? {
            Reply::Status(status) => Ok(status),
            Reply::Done => bail!("the supervisor misunderstood"),
            Reply::Refused(reason) => bail!(reason),
        }
    }

    /// A client with an administrator's rights.
    pub async fn client(&self) -> Result<Client> {
        client_of(&self.paths.kubeconfig()).await
    }

    /// `kubectl` with an administrator's rights, as a command to complete.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.env("KUBECONFIG", self.paths.kubeconfig());
        // It ends before clearing up its memory would pay.
        command.env("GOGC", "off");
        command
    }

    /// Applies a manifest as a person would, with `kubectl apply`; objects that
    /// name no namespace go to `namespace`.
    pub fn apply(&self, manifest: &str, namespace: &str) -> Result<()> {
        self.apply_with(&["--namespace", namespace], manifest)
    }

    /// The same for a manifest whose objects name their namespaces, which may be several.
    pub fn apply_all(&self, manifest: &str) -> Result<()> {
        self.apply_with(&[], manifest)
    }

    fn apply_with(&self, arguments: &[&str], manifest: &str) -> Result<()> {
        let mut kubectl = self
            .kubectl()
            .args(["apply", "--filename", "-"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run kubectl")?;
        let mut stdin = kubectl.stdin.take().context("its input is piped")?;
        // If kubectl ends before it has read all, it says why below.
        let _ = stdin.write_all(manifest.as_bytes());
        drop(stdin);
        let output = kubectl.wait_with_output()?;
        if !output.status.success() {
            bail!(
                "kubectl apply failed: {}",
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }
        Ok(())
    }

    /// A host that is switched on: `control-plane`, `node-N` or `outside`.
    pub async fn host(&self, name: &str) -> Result<HostRef> {
        let hosts = self.status().await?.hosts;
        hosts
            .into_iter()
            .find(|host| host.name == name)
            .with_context(|| format!("host {name} is switched off or does not exist"))
    }

    /// The host on the nodes' segment that is no node.
    pub async fn outside(&self) -> Result<HostRef> {
        self.host(supervisor::addresses::OUTSIDE).await
    }

    async fn request(&self, request: Request) -> Result<()> {
        match ask(&self.paths.control(), &request).await? {
            Reply::Done | Reply::Status(_) => Ok(()),
            Reply::Refused(reason) => bail!("{request:?} was refused: {reason}"),
        }
    }
}

impl Drop for Lifeline {
    /// Ends the cluster and waits for the end, so that nothing is left.
    fn drop(&mut self) {
        if self.stdin.take().is_some() {
            // Closing standard input told it to end.
            let _ = self.supervisor.wait();
        }
    }
}

/// Gets everything that a cluster consists of: the first time this installs
/// packages and builds Kubernetes, and says so.
pub fn prepare() -> Result<Programs> {
    require_root()?;
    let mut needs = NEEDS.to_vec();
    if kubernetes::etcd().is_none() {
        needs.push(Need {
            program: "etcd",
            package: "etcd-server",
        });
    }
    packages::ensure(&needs)?;
    allow_many_watchers()?;
    Programs::ensure()
}

/// The kernel's limit of file watchers of one user: a node of a cluster takes about ten,
/// and a kubelet that gets none ends at once. It is lifted where it is lower than this,
/// for as long as the machine runs.
fn allow_many_watchers() -> Result<()> {
    const LIMIT: &str = "/proc/sys/fs/inotify/max_user_instances";
    const WANTED: u32 = 1024;
    let now = std::fs::read_to_string(LIMIT).with_context(|| format!("cannot read {LIMIT}"))?;
    if now.trim().parse().is_ok_and(|now: u32| now < WANTED) {
        std::fs::write(LIMIT, WANTED.to_string())
            .with_context(|| format!("cannot lift {LIMIT} to {WANTED}"))?;
    }
    Ok(())
}

/// Waits until a cluster that is ending is gone, and clears up after a crash.
pub fn wait_until_gone(name: &str) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(30);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match supervisor::clean_up(name) {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Processor time that a cluster has used so far, with all of its nodes and pods; `None` if it
/// does not exist.
pub fn computed(name: &str) -> Option<Duration> {
    supervisor::cgroup_of(name).cpu().ok()
}

/// Whether a cluster exists and takes requests: all of it has been brought up.
pub fn is_up(name: &str) -> bool {
    Paths::of(name).is_ok_and(|paths| paths.control().exists())
}

/// The names of all clusters that have files on this machine.
pub fn known() -> Result<Vec<String>> {
    let directory = crate::cache::cache_dir().join("clusters");
    let mut names = Vec::new();
    if directory.is_dir() {
        for entry in std::fs::read_dir(directory)? {
            names.extend(entry?.file_name().into_string().ok());
        }
    }
    names.sort();
    Ok(names)
}

/// A client for the cluster that a kubeconfig names.
pub async fn client_of(kubeconfig: &Path) -> Result<Client> {
    // Fails only when somebody else installed a provider first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("no access to a cluster in {}", kubeconfig.display()))?;
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

fn require_root() -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("a cluster is made of namespaces, mounts and control groups: run this as root");
    }
    Ok(())
}

fn start_supervisor(spec: &ClusterSpec, paths: &Paths) -> Result<Lifeline> {
    std::fs::create_dir_all(paths.root())?;
    let log = paths.supervisor_log();
    // A session of its own keeps a Ctrl-C that is meant for us away from it.
    let mut supervisor = Command::new("setsid")
        .args(["unshare", "--mount", "--propagation", "private", "--"])
        .arg(testbed_program()?)
        .args(["supervise", "--spec", &serde_json::to_string(spec)?])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log)?)
        .spawn()
        .context("cannot start the cluster's supervisor")?;
    let stdout = supervisor.stdout.take().context("its output is piped")?;
    let lifeline = Lifeline {
        stdin: supervisor.stdin.take(),
        supervisor,
    };
    let mut step: Option<Step> = None;
    for line in BufReader::new(stdout).lines() {
        match serde_json::from_str(&line?).context("the supervisor speaks in riddles")? {
            Progress::Step(title) => {
                if let Some(step) = step.take() {
                    step.done();
                }
                step = Some(Step::start(title));
            }
            Progress::Ready => {
                if let Some(step) = step {
                    step.done();
                }
                return Ok(lifeline);
            }
            Progress::Failed(why) => {
                if let Some(step) = step {
                    step.fail();
                }
                bail!("cluster {} did not come up: {why}", spec.name);
            }
        }
    }
    bail!(
        "cluster {} did not come up; see {}",
        spec.name,
        log.display()
    )
}
