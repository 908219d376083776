//! A plugin, called as a container runtime calls it, and what a call takes.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeVal,
};
use serde_json::Value;

use super::{
    mode::ADDRESS,
    node::{Node, Pod},
};

/// A plugin with its configuration.
pub struct Plugin<'a> {
    node: &'a Node,
    program: &'static str,
    config: String,
    args: String,
}

/// What a call took.
#[derive(Clone, Copy)]
pub struct Took {
    /// From its start until its end was seen.
    pub wall: Duration,
    /// The time that it and the programs that it called were on a processor.
    pub processor: Duration,
    /// The part of that outside of the kernel, at most: the kernel looks at each tick
    /// who is at work, and takes a program that it never saw for one that is.
    pub user: Duration,
}

impl<'a> Plugin<'a> {
    /// The plugin of this name on a node.
    pub fn new(node: &'a Node, program: &'static str, config: &Value, args: &str) -> Self {
        Self {
            node,
            program,
            config: config.to_string(),
            args: args.to_owned(),
        }
    }

    /// Attaches and detaches a pod once, and looks whether it was really done.
    pub fn prove(&self, container: &str) -> Result<()> {
        let pod = Pod::new()?;
        self.call("ADD", container, &pod)?;
        let seen = pod.run("ip", &["-4", "address", "show", "eth0"])?;
        ensure!(seen.contains(ADDRESS), "ADD gave no {ADDRESS}: {seen}");
        let seen = pod.run("ip", &["route"])?;
        ensure!(
            seen.contains("default via"),
            "ADD gave no default route: {seen}"
        );
        self.call("DEL", container, &pod)?;
        let seen = pod.run("ip", &["-o", "link"])?;
        ensure!(!seen.contains("eth0"), "DEL has left something: {seen}");
        Ok(())
    }

    /// Calls it, which must succeed.
    pub fn call(&self, command: &str, container: &str, pod: &Pod) -> Result<Took> {
        let bin = self.node.path("bin");
        let mut program = Command::new(bin.join(self.program));
        program
            .env_clear()
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", container)
            .env("CNI_NETNS", pod.path())
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", &bin)
            .env("CNI_ARGS", &self.args)
            .env("FLOE_RUN", self.node.path("run"))
            .env("FLOE_STATE", self.node.path("state"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let before = usage()?;
        let start = Instant::now();
        let mut child = program
            .spawn()
            .with_context(|| format!("cannot run {}", self.program))?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that refuses earlier does not read it; its status tells.
            let _ = stdin.write_all(self.config.as_bytes());
        }
        let output = child.wait_with_output()?;
        let wall = start.elapsed();
        let after = usage()?;
        ensure!(
            output.status.success(),
            "{command} of {} failed ({}): {}{}",
            self.program,
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        Ok(Took {
            wall,
            processor: after.0.saturating_sub(before.0),
            user: after.1.saturating_sub(before.1),
        })
    }
}

/// The time on a processor of all children that have ended, and its part outside of
/// the kernel.
fn usage() -> Result<(Duration, Duration)> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let user = duration(usage.user_time());
    Ok((user + duration(usage.system_time()), user))
}

fn duration(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}
