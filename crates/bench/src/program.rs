//! The controller as a process of its own.

use std::{
    ffi::OsString,
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use floe_testbed::host::sibling_program;
use nix::{
    time::{ClockId, clock_getcpuclockid, clock_gettime},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{line::Line, table::Figure};

/// How long a start may take.
const LIMIT: Duration = Duration::from_mins(2);
/// How often readiness is looked at: no figure is finer than that.
const LOOK: Duration = Duration::from_millis(5);

/// A running controller, which always leads. It ends with this value.
pub struct Controller {
    child: Child,
    health: u16,
    /// The port of its extender.
    pub extender: u16,
    /// The port of the management API.
    pub api: u16,
    /// From its start until it was ready.
    pub took: Figure,
    /// With its configuration.
    _directory: TempDir,
}

/// What a controller is started with.
pub struct Start<'a> {
    /// The way to its API server.
    pub kubeconfig: &'a Path,
    /// Where its log goes.
    pub log: &'a Path,
    /// The entries of its configuration.
    pub addresses: Value,
    /// How it answers people and tools.
    pub api: Api<'a>,
    /// Other flags.
    pub arguments: &'a [&'a str],
    /// Variables of its environment.
    pub environment: &'a [(&'a str, String)],
}

/// How a controller answers people and tools.
#[derive(Clone, Copy)]
pub enum Api<'a> {
    /// Everybody, by plain HTTP.
    Open,
    /// Those with a token, by TLS with this certificate and its key.
    Closed {
        /// The file of the certificate.
        certificate: &'a Path,
        /// The file of the key.
        key: &'a Path,
    },
}

impl Controller {
    /// Starts it and waits until it is ready.
    pub async fn start(start: Start<'_>) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("galaxy-ipam.json");
        let settings = json!({ "schedule_plugin": { "floatingips": start.addresses } });
        fs::write(&file, settings.to_string())?;
        let [extender, api, health] = ports()?;
        let log = start.log;
        let started = Instant::now();
        // It must not outlive this process, whatever ends it.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(sibling_program("floe-controller")?)
            .arg("--kubeconfig")
            .arg(start.kubeconfig)
            .arg("--config")
            .arg(file)
            .args([
                "--leader-elect=false",
                "--bind=127.0.0.1",
                "--webhook=false",
            ])
            .arg(format!("--port={extender}"))
            .arg(format!("--api-port={api}"))
            .arg(format!("--health-addr=127.0.0.1:{health}"))
            .args(start.api.flags())
            .args(start.arguments)
            .envs(start.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(log)?)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the controller")?;
        let mut controller = Self {
            child,
            health,
            extender,
            api,
            took: Figure::Seconds(0.0),
            _directory: directory,
        };
        controller
            .ready(started + LIMIT)
            .await
            .with_context(|| format!("see {}", log.display()))?;
        controller.took = Figure::Seconds(started.elapsed().as_secs_f64());
        Ok(controller)
    }

    /// A line to its extender.
    pub async fn extender(&self) -> Result<Line> {
        let line = Line::open(self.extender).await;
        line.context("the extender does not listen")
    }

    /// Its resident memory now, and the most it ever was, in bytes.
    pub fn memory(&self) -> Result<(f64, f64)> {
        let id = self.child.id().context("the controller has ended")?;
        let status = fs::read_to_string(format!("/proc/{id}/status"))?;
        let of = |name: &str| -> Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let line = line.with_context(|| format!("no {name} in its status"))?;
            let kilobytes: u32 = line.trim_end_matches("kB").trim().parse()?;
            Ok(f64::from(kilobytes) * 1024.0)
        };
        Ok((of("VmRSS:")?, of("VmHWM:")?))
    }

    /// The clock of all the time that its threads have computed.
    pub fn clock(&self) -> Result<ClockOf> {
        let id = self.child.id().context("the controller has ended")?;
        let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(id)?))?;
        Ok(ClockOf(clock))
    }

    /// Ends it, and waits for that.
    pub async fn stop(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    async fn ready(&mut self, deadline: Instant) -> Result<()> {
        loop {
            if self.is_ready().await.unwrap_or(false) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the controller ended: {status}");
            }
            ensure!(Instant::now() < deadline, "the controller is not ready");
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn is_ready(&self) -> Result<bool> {
        let mut line = Line::open(self.health).await?;
        Ok(line.call("GET", "/readyz", &[]).await?.status == 200)
    }
}

impl Api<'_> {
    fn flags(self) -> Vec<OsString> {
        match self {
            Self::Open => vec!["--api-auth=none".into()],
            Self::Closed { certificate, key } => vec![
                "--api-tls-cert-file".into(),
                certificate.into(),
                "--api-tls-key-file".into(),
                key.into(),
            ],
        }
    }
}

/// The time of another process.
#[derive(Clone, Copy)]
pub struct ClockOf(ClockId);

impl ClockOf {
    /// How long it has computed so far.
    pub fn now(self) -> Result<Duration> {
        Ok(clock_gettime(self.0)?.into())
    }
}

/// Ports that nobody listens on.
fn ports() -> Result<[u16; 3]> {
    // All at once, so that they differ.
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners = [listen()?, listen()?, listen()?];
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}
