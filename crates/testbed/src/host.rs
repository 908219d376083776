//! A host: network, mount, UTS and process namespaces, held by one process.
//!
//! That process, the anchor, is the first one of the host's process namespace.
//! While it lives the host is switched on; killing it is pulling the plug, and
//! the kernel then ends every process, link and mount of the host.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroup;
use crate::command;
use crate::netns::NetNs;

/// A host that is switched on, addressed by the process that holds it.
///
/// This is only an address: it may be copied, sent to another process, and
/// outlive the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRef {
    /// The name of the host, which is also its host name.
    pub name: String,
    /// The anchor, as seen from the machine.
    pub anchor: i32,
}

/// Which namespaces of a host a command enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// Everything: the command is a process of the host.
    Host,
    /// Only the network: files and processes stay those of the machine.
    Network,
}

impl HostRef {
    /// A command that will run inside the host.
    pub fn command(&self, inside: Inside, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(self.nsenter_arguments(inside)).arg(program);
        command
    }

    /// The words after `nsenter` that lead into the host.
    pub fn nsenter_arguments(&self, inside: Inside) -> Vec<String> {
        let mut words = vec![
            "--target".to_owned(),
            self.anchor.to_string(),
            "--net".to_owned(),
        ];
        if inside == Inside::Host {
            words.extend(["--mount", "--uts", "--pid", "--wd=/"].map(str::to_owned));
        }
        words.push("--".to_owned());
        words
    }

    /// Runs a shell script inside the host's network and returns what it printed.
    pub fn network_script(&self, script: &str) -> Result<String> {
        command::read(self.command(Inside::Network, "sh").args(["-euc", script]))
            .with_context(|| format!("on host {}", self.name))
    }

    /// Runs a shell script as a process of the host and returns what it printed.
    pub fn shell(&self, script: &str) -> Result<String> {
        command::read(self.command(Inside::Host, "sh").args(["-euc", script]))
            .with_context(|| format!("on host {}", self.name))
    }

    /// The network namespace of the host.
    pub fn network(&self) -> Result<NetNs> {
        NetNs::of_process(self.anchor)
            .with_context(|| format!("host {} is switched off", self.name))
    }
}

/// A host that this process switched on; dropping it switches it off.
#[derive(Debug)]
pub struct Host {
    address: HostRef,
    holder: Child,
}

/// What the anchor prepares before the host counts as switched on.
#[derive(Clone, Debug)]
pub enum Role {
    /// A plain network host that shares the machine's files.
    Plain,
    /// A Kubernetes node with a disk of its own, which survives a power-off.
    Node {
        /// The directory that is the node's disk.
        disk: PathBuf,
    },
}

impl Host {
    /// Switches a host on, as a member of `cgroup` if there is one.
    ///
    /// # Assumptions
    /// The host dies with the *thread* that calls this (that is how the kernel
    /// counts parents), so call it from a thread that lives as long as the host.
    pub fn boot(name: &str, role: &Role, cgroup: Option<&Cgroup>) -> Result<Self> {
        let join = cgroup.map(Cgroup::join_script).unwrap_or_default();
        let mut command = Command::new("sh");
        command
            .arg("-euc")
            .arg(format!(
                "{join} exec setpriv --pdeathsig KILL unshare --net --mount --uts --pid --fork \
                 --kill-child --propagation private -- \"$@\""
            ))
            .arg("sh")
            .arg(testbed_program()?)
            .args(["anchor", "--name", name]);
        if let Role::Node { disk } = role {
            command.arg("--disk").arg(disk);
        }
        let mut holder = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a host")?;
        let stdout = holder
            .stdout
            .take()
            .context("the anchor's output is piped")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if line.trim() != "ready" {
            let _ = holder.kill();
            let _ = holder.wait();
            bail!("host {name} did not come up (its anchor said {line:?})");
        }
        let anchor = only_child(holder.id())
            .with_context(|| format!("host {name} died while it came up"))?;
        let address = HostRef {
            name: name.to_owned(),
            anchor,
        };
        Ok(Self { address, holder })
    }

    /// The address of this host.
    pub fn address(&self) -> &HostRef {
        &self.address
    }

    /// Pulls the plug: no process of the host runs when this returns.
    ///
    /// The kernel clears its network away in its own time, so pull the cable
    /// first if nothing may answer any more.
    pub fn power_off(mut self) {
        self.kill();
    }

    fn kill(&mut self) {
        // The anchor itself, not its holder: the kernel ends a first process
        // only after every other process of the host, and the holder after it.
        if matches!(self.holder.try_wait(), Ok(None)) {
            // It fails only when the anchor is just going by itself.
            let _ = kill(Pid::from_raw(self.address.anchor), Signal::SIGKILL);
            let _ = self.holder.wait();
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The only child of a process, if it has one.
pub fn only_child(pid: u32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// The `floe-testbed` program, which is built beside every other program of the
/// workspace.
pub fn testbed_program() -> Result<PathBuf> {
    sibling_program("floe-testbed")
}

/// A program of this workspace, looked for where the running one was built.
pub fn sibling_program(name: &str) -> Result<PathBuf> {
    let me = std::env::current_exe().context("cannot tell which program this is")?;
    // Tests and examples live one folder below the programs.
    me.ancestors()
        .skip(1)
        .take(2)
        .map(|dir: &Path| dir.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("{name} is not built: run `cargo build --workspace --bins` first"))
}
