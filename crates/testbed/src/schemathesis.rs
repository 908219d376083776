//! Schemathesis, which asks a server everything that its API document allows and
//! forbids, and compares the answers with it.
//!
//! `schemathesis/requirements.txt` beside this crate pins it and all that it needs by
//! hashes. It is installed once, into an environment of its own in the cache folder.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::host::{HostRef, Inside};
use crate::python::Tool;

/// The version that the requirements pin.
pub const VERSION: &str = "4.32.5";

const TOOL: Tool = Tool {
    name: "schemathesis",
    version: VERSION,
    requirements: include_str!("../schemathesis/requirements.txt"),
    builds: false,
};

/// Binds a file over the names of hosts, for the rest of the command line alone.
const WITH_HOSTS: &str = r#"mount --bind "$1" /etc/hosts; shift; exec "$@""#;

/// Gets it, if it is not there.
pub fn prepare() -> Result<()> {
    TOOL.ensure().map(drop)
}

/// A command in the network of a host, which knows hosts by the names that the file
/// `hosts` gives them. It runs in `folder`, where it may leave things, and is ended
/// after `limit`.
pub fn command(host: &HostRef, hosts: &Path, folder: &Path, limit: Duration) -> Result<Command> {
    let environment = TOOL.ensure()?;
    let mut command = host.command(Inside::Network, "timeout");
    command
        .arg(limit.as_secs().to_string())
        .args(["unshare", "--mount", "--", "sh", "-euc", WITH_HOSTS, "sh"])
        .arg(hosts)
        // By the interpreter: the first line of the program names a folder that was
        // renamed since.
        .arg(environment.join("bin/python"))
        .arg(environment.join("bin").join(TOOL.name))
        .current_dir(folder)
        .env("HOME", folder)
        // Nothing of what it asks may leave the testbed.
        .env("NO_PROXY", "*")
        .env("no_proxy", "*");
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_pinned_one_and_everything_is_pinned_by_hashes() {
        TOOL.assert_pinned();
    }
}
