//! Calling other plugins.

use std::{
    env,
    ffi::OsString,
    io::{self, ErrorKind},
    iter,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use floe_core::cni::{
    args::CniArgs,
    call::Command,
    error::{CniError, Code},
};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::{Map, Value};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process,
    time::{sleep, timeout},
};
use tracing::warn;

use crate::places;

/// How long a plugin may take. Compat: galaxy's limit.
pub const LIMIT: Duration = Duration::from_secs(220);

/// How much of what a plugin prints is read.
const LONGEST_OUTPUT: u64 = 1 << 20;

/// How often, and after which pause, a plugin is started again that somebody is just
/// writing.
const BUSY: (u32, Duration) = (40, Duration::from_millis(50));

/// Where plugins lie, and how long they may take.
#[derive(Clone, Debug)]
pub struct Runner {
    paths: Vec<String>,
    limit: Duration,
}

/// One call of a plugin.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The command.
    pub command: Command,
    /// The plugin.
    pub kind: &'a str,
    /// The container; empty for commands that are about none.
    pub container: &'a str,
    /// The path of its network namespace; may be empty.
    pub netns: &'a str,
    /// The interface in the container.
    pub ifname: &'a str,
    /// `CNI_ARGS`.
    pub args: &'a CniArgs,
    /// Where the runtime says that plugins lie; the runner's own places come after.
    pub path: &'a [String],
    /// The configuration.
    pub config: &'a Map<String, Value>,
}

impl Runner {
    /// Looks for plugins in these folders after those of the runtime.
    pub fn new(paths: Vec<String>) -> Self {
        Self {
            paths,
            limit: LIMIT,
        }
    }

    /// The same with another limit.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self {
            limit: limit.min(self.limit),
            ..self
        }
    }

    /// Calls a plugin, and gives back what it prints. When its time is over, nothing
    /// of it runs any more.
    pub async fn run(&self, job: Job<'_>) -> Result<Vec<u8>, CniError> {
        let kind = job.kind;
        let folders: Vec<&str> = job.path.iter().chain(&self.paths).map(|it| &**it).collect();
        let program = find(kind, &folders)?;
        let failed = |what: &str, error: &io::Error| {
            CniError::of(Code::Delegate, format!("cannot {what} {kind}: {error}"))
        };
        let mut command = process::Command::new(&program);
        command
            .env_clear()
            .envs(handed_on())
            .env("CNI_COMMAND", job.command.as_str())
            .env("CNI_PATH", folders.join(":"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // With a group of its own, whatever it starts ends with it.
            .process_group(0)
            .kill_on_drop(true);
        if job.command.is_about_a_container() {
            command
                .env("CNI_CONTAINERID", job.container)
                .env("CNI_NETNS", job.netns)
                .env("CNI_IFNAME", job.ifname)
                .env("CNI_ARGS", job.args.to_string());
        }
        let mut child = start(&mut command)
            .await
            .map_err(|error| failed("start", &error))?;
        let mut group = Group(child.id());
        let config =
            serde_json::to_vec(job.config).map_err(|error| failed("tell", &error.into()))?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let talk = async {
            let tell = async {
                if let Some(mut stdin) = stdin {
                    // A plugin may end without reading: what it says then counts.
                    let _ = stdin.write_all(&config).await;
                }
            };
            let ((), out, err, status) =
                tokio::join!(tell, read(stdout), read(stderr), child.wait());
            Ok::<_, io::Error>((out?, err?, status?))
        };
        let talked = timeout(self.limit, talk).await;
        // Once it was waited for, its number may mean somebody else.
        if talked.is_ok() {
            group.0 = None;
        }
        drop(group);
        match talked {
            Ok(Ok((out, _, status))) if status.success() => Ok(out),
            Ok(Ok((out, err, status))) => Err(error_of(kind, &out, &err, status)),
            Ok(Err(error)) => Err(failed("hear", &error)),
            Err(_) => Err(CniError::new(
                Code::Delegate,
                "DelegateTimedOut",
                format!("{kind} was ended after {:?}", self.limit),
            )),
        }
    }
}

/// A process group that ends when this is dropped, also when nobody waits for the
/// plugin to the end.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let Some(id) = self.0.and_then(|id| i32::try_from(id).ok()) else {
            return;
        };
        // An error means that nothing of it is left, which is the usual case.
        let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
    }
}

async fn start(command: &mut process::Command) -> io::Result<process::Child> {
    let (mut tries, pause) = BUSY;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && tries > 0 => {
                tries -= 1;
                sleep(pause).await;
            }
            result => return result,
        }
    }
}

/// What a plugin gets of the agent's own environment.
fn handed_on() -> impl Iterator<Item = (&'static str, OsString)> {
    let names = iter::once("PATH").chain(places::VARIABLES);
    names.filter_map(|name| Some((name, env::var_os(name)?)))
}

/// The name of a plugin comes from a configuration; it names a file in one of the
/// folders and nothing else.
fn find(kind: &str, folders: &[&str]) -> Result<PathBuf, CniError> {
    if kind.is_empty() || kind.contains('/') || kind == "." || kind == ".." {
        let message = format!("{kind:?} cannot be the name of a plugin");
        return Err(CniError::of(Code::InvalidConfiguration, message));
    }
    let mut files = folders.iter().map(|folder| Path::new(folder).join(kind));
    files.find(|file| file.is_file()).ok_or_else(|| {
        let message = format!("plugin {kind} is in none of {}", folders.join(", "));
        CniError::new(Code::Delegate, "PluginNotFound", message)
    })
}

/// Reads to the end, and keeps the beginning.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let Some(mut pipe) = pipe else {
        return Ok(bytes);
    };
    (&mut pipe)
        .take(LONGEST_OUTPUT)
        .read_to_end(&mut bytes)
        .await?;
    // Whoever prints more must not wait for a reader.
    tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    Ok(bytes)
}

fn error_of(kind: &str, out: &[u8], err: &[u8], status: ExitStatus) -> CniError {
    if !out.trim_ascii().is_empty() {
        return CniError::of_delegate(kind, out);
    }
    let err = String::from_utf8_lossy(err);
    let last = err.lines().rev().find(|line| !line.trim().is_empty());
    let told = last.map_or_else(
        || format!("ended with {status} and told nothing"),
        |line| line.trim().chars().take(500).collect(),
    );
    warn!(plugin = kind, status = %status, told, "a plugin failed without an error object");
    CniError::of(Code::Delegate, format!("{kind}: {told}"))
}

#[cfg(test)]
pub mod tests;
