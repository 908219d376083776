//! Agents that stand still: the whole process, or one thread of it.

use std::fs;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use floe_testbed::cluster::Cluster;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::LIMIT;

/// The program of the agent.
const AGENT: &str = "floe-agent";

/// The process of a node's agent, also when the API server is away. It is the one in the
/// network of the node that has not been started to ask it something.
pub async fn agent_process(cluster: &Cluster, node: &str) -> Result<i32> {
    process(cluster, node, AGENT).await
}

/// The process of a program in the network of a host; of its name only what the kernel keeps.
pub async fn process(cluster: &Cluster, host: &str, program: &str) -> Result<i32> {
    let anchor = cluster.host(host).await?.anchor;
    find(anchor, program, &[])?.with_context(|| format!("no {program} runs on {host}"))
}

/// Stops a program that runs on a host for a moment now and then, in the middle of it, when it
/// was started with exactly these arguments.
pub async fn freeze_next(
    cluster: &Cluster,
    host: &str,
    program: &'static str,
    arguments: &'static [&'static str],
) -> Result<Frozen> {
    let anchor = cluster.host(host).await?.anchor;
    let deadline = Instant::now() + LIMIT;
    let catch = move || {
        while Instant::now() < deadline {
            // One that has ended meanwhile cannot be stopped.
            if let Some(process) = find(anchor, program, arguments)?
                && let Ok(frozen) = Frozen::new(process)
                && stands_still(process, deadline)
            {
                return Ok(frozen);
            }
        }
        bail!("{program} {arguments:?} does not run within {LIMIT:?}")
    };
    tokio::task::spawn_blocking(catch).await?
}

/// Waits until a process has been stopped; one that ends instead never is.
fn stands_still(process: i32, deadline: Instant) -> bool {
    while Instant::now() < deadline {
        match state(process) {
            Some('T') => return true,
            None | Some('Z' | 'X') => return false,
            Some(_) => {}
        }
    }
    false
}

/// What a process does, as the kernel abbreviates it.
fn state(process: i32) -> Option<char> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let state = status.lines().find_map(|it| it.strip_prefix("State:"));
    state?.trim().chars().next()
}

/// The process of a program in the network of another process; with these arguments, if there
/// are any.
fn find(beside: i32, program: &str, arguments: &[&str]) -> Result<Option<i32>> {
    let network = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/net"));
    let its = network(beside)?;
    let entries = fs::read_dir("/proc")?.flatten();
    let mut processes = entries.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    Ok(processes.find(|pid| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
        let is_it = read("comm").is_ok_and(|name| name.trim_end() == program);
        let line = || read("cmdline").unwrap_or_default();
        let is_called = |line: String| {
            let words: Vec<&str> = line.trim_end_matches('\0').split('\0').skip(1).collect();
            words.first() != Some(&"ask") && (arguments.is_empty() || words == arguments)
        };
        is_it && is_called(line()) && network(*pid).is_ok_and(|it| it == its)
    }))
}

/// A process that stands still until this is dropped.
#[derive(Debug)]
pub struct Frozen {
    process: Pid,
    /// Who has started it. One that enters namespaces for it stands still together with it, and
    /// does not go on by itself.
    parent: Option<Pid>,
}

impl Frozen {
    pub fn new(process: i32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let parent = status.lines().find_map(|it| it.strip_prefix("PPid:"));
        let parent = parent.and_then(|it| it.trim().parse().ok());
        let process = Pid::from_raw(process);
        kill(process, Signal::SIGSTOP)?;
        Ok(Self {
            process,
            parent: parent.filter(|it| *it > 1).map(Pid::from_raw),
        })
    }

    /// Whether the process still exists, and is stopped.
    pub fn stands_still(&self) -> bool {
        state(self.process.as_raw()) == Some('T')
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // They may have been ended for their silence.
        for process in [Some(self.process), self.parent].into_iter().flatten() {
            let _ = kill(process, Signal::SIGCONT);
        }
    }
}

/// Threads of a process that stand still until this is dropped, while the others go on. A
/// signal cannot do that: it stops all of them.
#[derive(Debug)]
pub struct Halted {
    release: Option<mpsc::Sender<()>>,
    tracer: Option<JoinHandle<()>>,
}

impl Halted {
    /// Halts the threads whose names begin so.
    pub fn new(process: i32, name: &str) -> Result<Self> {
        let threads = fs::read_dir(format!("/proc/{process}/task"))?.flatten();
        let threads = threads.filter_map(|it| {
            let its = fs::read_to_string(it.path().join("comm")).ok()?;
            let number = it.file_name().to_str()?.parse().ok()?;
            its.starts_with(name).then_some(Pid::from_raw(number))
        });
        let threads: Vec<Pid> = threads.collect();
        ensure!(!threads.is_empty(), "no thread is called {name}");
        let (release, released) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        // Whoever halts a thread has to let it go on.
        let tracer = thread::spawn(move || {
            let halted = threads.iter().try_for_each(|thread| halt(*thread));
            // Nobody waits for it any more: then it is over as well.
            let _ = tell.send(halted);
            // It ends with an error, when the sender is dropped.
            let _ = released.recv();
            for thread in threads {
                // The process may have ended.
                let _ = ptrace::detach(thread, None);
            }
        });
        let halted = Self {
            release: Some(release),
            tracer: Some(tracer),
        };
        told.recv().context("the tracer is gone")??;
        Ok(halted)
    }
}

fn halt(thread: Pid) -> Result<()> {
    ptrace::seize(thread, ptrace::Options::empty())?;
    ptrace::interrupt(thread)?;
    waitpid(thread, Some(WaitPidFlag::__WALL))?;
    Ok(())
}

impl Drop for Halted {
    fn drop(&mut self) {
        drop(self.release.take());
        if let Some(tracer) = self.tracer.take() {
            // It panics never.
            let _ = tracer.join();
        }
    }
}
