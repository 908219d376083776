//! Packets on the wire of a host, as a test sees them.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
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
        self.capture_as(&[], link, filter)
    }

    /// As [`Self::capture`]; each line begins with the seconds since 1970.
    pub fn capture_with_times(&self, link: &str, filter: &str) -> Result<Capture> {
        self.capture_as(&["-tt"], link, filter)
    }

    fn capture_as(&self, options: &[&str], link: &str, filter: &str) -> Result<Capture> {
        let mut tcpdump = Command::new("nsenter");
        tcpdump
            .args(self.nsenter_arguments(Inside::Network))
            .arg("tcpdump")
            // Line by line, with link layer, no names, delivered at once.
            .args(["-l", "-e", "-nn", "--immediate-mode"])
            // The kernel forgets a death signal when the user changes.
            .args(["-Z", "root"])
            .args(options)
            .args(["-i", link, filter]);
        Capture::start(&tcpdump)
            .with_context(|| format!("cannot capture on {link} of {}", self.name))
    }
}

impl Capture {
    /// Starts a command that is, or becomes, `tcpdump`.
    fn start(tcpdump: &Command) -> Result<Self> {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(tcpdump.get_program())
            .args(tcpdump.get_args())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let seen = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let sink = seen.clone();
        let (sender, started) = mpsc::channel();
        // It would die with the thread that started it, and the caller's may
        // end before the capture. This one reads for as long as it writes.
        thread::spawn(move || {
            let packets = match start(&mut command) {
                Ok((tcpdump, packets)) => {
                    // Received below; were it not, it would end here.
                    let _ = sender.send(Ok(Self { tcpdump, seen }));
                    packets
                }
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return;
                }
            };
            for line in packets.lines().map_while(Result::ok) {
                sink.0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
                sink.1.notify_all();
            }
        });
        started.recv().context("tcpdump was lost")?
    }

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

/// Starts tcpdump and waits until it listens.
fn start(command: &mut Command) -> Result<(Child, BufReader<ChildStdout>)> {
    let mut tcpdump = command.spawn().context("cannot run tcpdump")?;
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
            bail!("tcpdump failed: {}", said.trim_end());
        }
    }
    // Drained, or it would block when the pipe is full.
    thread::spawn(move || remarks.lines().for_each(drop));
    Ok((tcpdump, BufReader::new(packets)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Result<Capture> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Capture::start(&command)
    }

    #[test]
    fn a_capture_goes_on_after_the_thread_that_asked_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let script = format!("echo listening on x >&2; cat {}", fifo.display());
        let capture = thread::spawn(move || shell(&script))
            .join()
            .unwrap()
            .unwrap();
        // Opened in both directions, it does not wait for a reader.
        let mut options = std::fs::File::options();
        let mut wire = options.read(true).write(true).open(&fifo).unwrap();
        wire.write_all(b"first\nsecond\n").unwrap();
        let packet = capture.wait_for(LIMIT, |line| line == "second").unwrap();
        assert_eq!(packet, "second");
        assert_eq!(capture.packets(), ["first", "second"]);
    }

    #[test]
    fn what_tcpdump_says_when_it_fails_is_the_error() {
        let error = shell("echo x: no such device >&2; exit 1").err().unwrap();
        assert_eq!(error.to_string(), "tcpdump failed: x: no such device");
    }
}
