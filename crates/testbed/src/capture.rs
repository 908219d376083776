//! Packets on the wire of a host, as a test sees them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::host::{HostRef, Inside};

/// A capture under way; it ends when dropped.
pub struct Capture {
    tcpdump: Child,
    seen: Arc<(Mutex<Vec<String>>, Condvar)>,
}

impl HostRef {
    /// Captures what passes `link` of this host and matches `filter`, a
    /// `tcpdump` expression. Every packet sent after this returns is seen.
    pub fn capture(&self, link: &str, filter: &str) -> Result<Capture> {
        let mut tcpdump = self
            .command(Inside::Network, "tcpdump")
            // Line by line, with link layer, no names, delivered at once.
            .args(["-l", "-e", "-nn", "--immediate-mode", "-i", link, filter])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run tcpdump")?;
        let (packets, remarks) = tcpdump
            .stdout
            .take()
            .zip(tcpdump.stderr.take())
            .context("both are piped")?;
        let mut said = String::new();
        let mut remarks = BufReader::new(remarks);
        while !said.contains("listening on") {
            if remarks.read_line(&mut said)? == 0 {
                let _ = tcpdump.wait();
                bail!(
                    "tcpdump on {} of {} failed: {}",
                    link,
                    self.name,
                    said.trim_end()
                );
            }
        }
        // Drained, or it would block when the pipe is full.
        thread::spawn(move || remarks.lines().for_each(drop));
        let seen = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let sink = seen.clone();
        thread::spawn(move || {
            for line in BufReader::new(packets).lines().map_while(Result::ok) {
                sink.0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
                sink.1.notify_all();
            }
        });
        Ok(Capture { tcpdump, seen })
    }
}

impl Capture {
    /// The packets so far, one line each.
    pub fn packets(&self) -> Vec<String> {
        self.seen
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits for a packet whose line satisfies `wanted`.
    pub fn wait_for(&self, limit: Duration, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let guard = self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = |lines: &Vec<String>| lines.iter().find(|line| wanted(line)).cloned();
        let (lines, _) = self
            .seen
            .1
            .wait_timeout_while(guard, limit, |lines| found(lines).is_none())
            .unwrap_or_else(PoisonError::into_inner);
        found(&lines).with_context(|| {
            format!(
                "no such packet within {} s; seen:\n{}",
                limit.as_secs(),
                lines.join("\n")
            )
        })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // `nsenter` without a process namespace becomes tcpdump itself.
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
    }
}
