//! `cargo xtask cluster`: a local Kubernetes cluster for people.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process;

use anyhow::{Context, Result, bail};
use floe_testbed::cluster::control::Status;
use floe_testbed::cluster::paths::Paths;
use floe_testbed::cluster::spec::{ClusterSpec, validate_name};
use floe_testbed::cluster::{Cluster, known};
use floe_testbed::progress::Step;

/// The cluster that is meant when no name is given; the demo's, too.
pub const DEFAULT_NAME: &str = "floe";

/// What to do with the local cluster.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Start a cluster and leave it running
    ///
    /// The first time builds Kubernetes and installs Debian packages that are
    /// missing, and says so. Needs root.
    Up {
        #[command(flatten)]
        which: Which,
        /// Nodes with a kubelet and containerd
        #[arg(long, default_value_t = 3)]
        nodes: u8,
        /// Nodes that exist in the API only, for scale
        #[arg(long, default_value_t = 0)]
        fake_nodes: u32,
    },
    /// End a cluster and remove all traces of it, also after a crash
    Down {
        #[command(flatten)]
        which: Which,
    },
    /// Tell what runs and where
    Status {
        #[command(flatten)]
        which: Which,
    },
    /// Show what a program of the cluster wrote
    ///
    /// Without a program: which ones there are. Logs are kept after `down`,
    /// until the next `up`.
    Logs {
        #[command(flatten)]
        which: Which,
        /// A program, such as node-1/kubelet
        program: Option<String>,
        /// Go on as it grows
        #[arg(short, long)]
        follow: bool,
        /// The last lines only
        #[arg(long, default_value_t = 100)]
        tail: u32,
    },
    /// Run kubectl on the cluster: cargo xtask cluster kubectl -- get pods -A
    Kubectl {
        #[command(flatten)]
        which: Which,
        /// Arguments for kubectl
        #[arg(last = true)]
        arguments: Vec<String>,
    },
}

/// Which cluster.
#[derive(clap::Args)]
pub struct Which {
    /// The name of the cluster; different ones live side by side
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
}

pub fn run(command: Command) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match command {
        Command::Up {
            which,
            nodes,
            fake_nodes,
        } => runtime.block_on(up(&ClusterSpec::new(which.name)
            .nodes(nodes)
            .fake_nodes(fake_nodes))),
        Command::Down { which } => runtime.block_on(down(&which.name)),
        Command::Status { which } => runtime.block_on(status(&which.name)),
        Command::Logs {
            which,
            program,
            follow,
            tail,
        } => logs(&which.name, program, follow, tail),
        Command::Kubectl { which, arguments } => {
            let cluster = runtime.block_on(attach(&which.name))?;
            Err(cluster.kubectl().args(arguments).exec()).context("cannot run kubectl")
        }
    }
}

/// Builds the testbed's own programs, which the cluster consists of in part.
pub fn build_programs() -> Result<()> {
    let mut cargo = crate::tools::cargo();
    cargo.current_dir(crate::workspace()).args([
        "build",
        "--quiet",
        "--package",
        "floe-testbed",
        "--bins",
    ]);
    let mut cargo = crate::child::mortal(&cargo)?;
    let status = Step::run("building the testbed's programs", || cargo.status())
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the testbed's programs do not build");
    }
    Ok(())
}

async fn up(spec: &ClusterSpec) -> Result<()> {
    build_programs()?;
    if Cluster::attach(&spec.name).await?.is_some() {
        bail!(
            "cluster {0} is running already; see `cargo xtask cluster status --name {0}`, \
             or end it with `cargo xtask cluster down --name {0}`",
            spec.name
        );
    }
    let cluster = Cluster::up(spec)?;
    let status = cluster.status().await?;
    cluster.detach()?;
    print(&describe(&status)?)
}

async fn down(name: &str) -> Result<()> {
    let running = Step::run_async(format!("ending cluster {name}"), Cluster::down(name)).await?;
    if !running {
        print(&format!(
            "Cluster {name} was not running; nothing of it is left.\n"
        ))?;
    }
    Ok(())
}

async fn status(name: &str) -> Result<()> {
    let cluster = attach(name).await?;
    print(&describe(&cluster.status().await?)?)
}

/// The running cluster of that name, or a hint what to do.
pub async fn attach(name: &str) -> Result<Cluster> {
    if let Some(cluster) = Cluster::attach(name).await? {
        return Ok(cluster);
    }
    let mut others = Vec::new();
    for other in known()? {
        if Cluster::attach(&other).await?.is_some() {
            others.push(other);
        }
    }
    let hint = if others.is_empty() {
        "start one with `cargo xtask cluster up`".to_owned()
    } else {
        format!("running: {}", others.join(", "))
    };
    bail!("cluster {name} is not running ({hint})")
}

fn describe(status: &Status) -> Result<String> {
    use std::fmt::Write;
    let paths = Paths::of(&status.spec.name)?;
    let mut text = String::new();
    writeln!(
        text,
        "Cluster {}, up since {:.0}",
        status.spec.name, status.since
    )?;
    writeln!(text, "  kubeconfig  {}", paths.kubeconfig().display())?;
    writeln!(text, "  logs        {}", paths.logs().display())?;
    writeln!(text, "  memory      {} MiB", status.memory >> 20)?;
    if status.spec.fake_nodes > 0 {
        writeln!(text, "  fake nodes  {}", status.spec.fake_nodes)?;
    }
    let mut hosts: Vec<_> = status
        .programs
        .iter()
        .map(|program| program.name.host.as_str())
        .collect();
    hosts.dedup();
    for host in hosts {
        let power = if status.hosts.iter().any(|on| on.name == host) {
            ""
        } else {
            " (switched off)"
        };
        let programs: Vec<_> = status
            .programs
            .iter()
            .filter(|program| program.name.host == host)
            .map(|program| match &program.ended {
                None => program.name.program.clone(),
                Some(how) => format!("{} (ended: {how})", program.name.program),
            })
            .collect();
        writeln!(text, "  {host:<13} {}{power}", programs.join(", "))?;
    }
    Ok(text)
}

fn logs(name: &str, program: Option<String>, follow: bool, tail: u32) -> Result<()> {
    validate_name(name)?;
    let directory = Paths::of(name)?.logs();
    let programs = written(&directory)?;
    let Some(program) = program else {
        return print(&(programs.join("\n") + "\n"));
    };
    if !programs.contains(&program) {
        bail!(
            "no program {program} wrote a log in cluster {name}; there are: {}",
            programs.join(", ")
        );
    }
    let mut command = process::Command::new("tail");
    command.arg(format!("--lines={tail}"));
    if follow {
        command.arg("--follow=name");
    }
    Err(command
        .arg(directory.join(program).with_extension("log"))
        .exec())
    .context("cannot run tail")
}

/// The programs that have a log, as `host/program`.
fn written(directory: &PathBuf) -> Result<Vec<String>> {
    let mut programs = Vec::new();
    let hosts = std::fs::read_dir(directory)
        .with_context(|| format!("there are no logs in {}", directory.display()))?;
    for host in hosts {
        let host = host?;
        for log in std::fs::read_dir(host.path())? {
            let log = log?.path().with_extension("");
            if let Some(program) = log.file_name() {
                programs.push(format!(
                    "{}/{}",
                    host.file_name().display(),
                    program.display()
                ));
            }
        }
    }
    programs.sort();
    Ok(programs)
}

/// Prints the answer of a command; a closed pipe is no failure.
pub fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
