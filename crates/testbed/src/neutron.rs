//! A real Neutron, `OpenStack`'s network service, from `PyPI`: with `SQLite`, without Keystone,
//! agents and a message bus. Nothing carries packets, but everything that its API promises
//! and refuses is its own.
//!
//! `neutron/` beside this crate has what it needs by hashes, how it is started, and the
//! networks, ports and floating IPs of the tests.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tempfile::TempDir;

use crate::command;
use crate::python::Tool;

/// The version that the requirements pin.
pub const VERSION: &str = "29.0.0";

const TOOL: Tool = Tool {
    name: "neutron",
    version: VERSION,
    requirements: include_str!("../neutron/requirements.txt"),
    // Not everything that it needs comes ready to run.
    builds: true,
};
const SERVE: &str = include_str!("../neutron/serve.py");
const SCENE: &str = include_str!("../neutron/scene.py");

/// How long it may take until it listens; on an idle machine it is 15 s.
const PATIENCE: Duration = Duration::from_mins(3);
const INTERVAL: Duration = Duration::from_millis(50);

/// Gets it, if it is not there.
pub fn prepare() -> Result<()> {
    TOOL.ensure().map(drop)
}

/// A server with a database of its own. It ends when it is dropped, or the thread ends that
/// started it.
pub struct Neutron {
    process: Child,
    address: SocketAddr,
    python: PathBuf,
    folder: TempDir,
}

/// What there is in a project after [`Neutron::furnish`].
#[derive(Clone, Debug, Deserialize)]
pub struct Furnished {
    /// The id of the external network `public`, which floating IPs are of.
    pub network: String,
    /// Servers with one port, on a network with a router.
    pub servers: Vec<String>,
    /// One with a second port, on a network without a router.
    pub with_storage: String,
    /// One with two ports that both have a way outside.
    pub ambiguous: String,
    /// One whose only port has no way outside.
    pub unrouted: String,
    /// Floating IPs that are on none of them.
    pub addresses: Vec<IpAddr>,
}

impl Neutron {
    /// Starts one and waits until it listens on a free port of 127.0.0.1.
    pub fn start() -> Result<Self> {
        let python = TOOL.ensure()?.join("bin/python");
        let folder = tempfile::tempdir()?;
        let script = folder.path().join("serve.py");
        fs::write(&script, SERVE)?;
        let port_file = folder.path().join("port");
        let log = fs::File::create(folder.path().join("log"))?;
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&python)
            .arg(&script)
            .arg(folder.path())
            .arg(&port_file)
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start Neutron")?;
        let mut server = Self {
            process,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            python,
            folder,
        };
        let begun = Instant::now();
        let port = loop {
            if let Ok(port) = fs::read_to_string(&port_file) {
                break port;
            }
            if let Some(status) = server.process.try_wait()? {
                bail!("Neutron ended ({status}):\n{}", server.last_words());
            }
            if begun.elapsed() > PATIENCE {
                bail!("Neutron does not listen:\n{}", server.last_words());
            }
            thread::sleep(INTERVAL);
        };
        server.address.set_port(port.parse()?);
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes networks, servers' ports and floating IPs in a project that has none.
    pub fn furnish(&self, project: &str) -> Result<Furnished> {
        let script = self.folder.path().join("scene.py");
        fs::write(&script, SCENE)?;
        let url = format!("http://{}", self.address);
        let mut maker = Command::new(&self.python);
        maker.arg(script).args([&url, project]).env("NO_PROXY", "*");
        let said = command::read(&mut maker).with_context(|| self.last_words())?;
        serde_json::from_str(&said).context("what was made cannot be read")
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("log"));
        command::tail(&log.unwrap_or_default(), 20)
    }
}

impl Drop for Neutron {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_pinned_one() {
        TOOL.assert_pinned();
    }
}
