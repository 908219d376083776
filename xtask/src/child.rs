//! Child processes that end when this command is interrupted, or killed.

use std::fmt;
use std::io::Write;
use std::process::{self, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use floe_testbed::packages;
use nix::sys::signal::{Signal as Number, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;

/// How long an interrupted child may take to put things in order.
const GRACE: Duration = Duration::from_secs(10);

/// How long to listen on after the end of a child, in case something that it
/// left behind holds its output open.
const DRAIN: Duration = Duration::from_secs(1);

/// Starts children, and ends all of them on Ctrl-C.
#[derive(Clone)]
pub struct Children {
    /// Whether this command was asked to end.
    ended: watch::Receiver<bool>,
}

/// The signals that ask this command to end.
struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal was closed. Not heard under `nohup`.
    hangup: Option<Signal>,
}

/// The user or the system asked this command to end.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// What a child left.
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
}

/// What happens to the standard output of a child, besides being returned.
#[derive(Clone, Copy)]
pub enum Output<'a> {
    /// It is passed on as it comes.
    Shown,
    /// Nobody sees it.
    Kept,
    /// Each whole line goes to this function.
    Lines(&'a dyn Fn(&str)),
}

impl Children {
    /// From here on, signals no longer end this process by themselves.
    pub fn new() -> Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hangup = if ignores(&status, Number::SIGHUP) {
            None
        } else {
            Some(signal(SignalKind::hangup())?)
        };
        let mut signals = EndSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup,
        };
        let (end, ended) = watch::channel(false);
        tokio::spawn(async move {
            signals.recv().await;
            end.send_replace(true);
            // Receivers take a closed channel for no answer, so it stays open.
            std::future::pending::<()>().await;
        });
        Ok(Self { ended })
    }

    /// Starts nothing any more once this command was asked to end.
    fn go_on(&self) -> Result<()> {
        if *self.ended.borrow() {
            return Err(Interrupted.into());
        }
        Ok(())
    }

    /// Returns when this command is asked to end.
    async fn interrupted(&self) {
        // The sender lives as long as the runtime.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }

    /// Runs a child to its end. Its standard error is ours.
    ///
    /// # Assumptions
    /// The calling thread lives until then: the child dies with it, see [`mortal`].
    pub async fn run(&self, command: Command, output: Output<'_>) -> Result<Finished> {
        self.go_on()?;
        let program = command
            .as_std()
            .get_program()
            .to_string_lossy()
            .into_owned();
        let mut child = Command::from(mortal(command.as_std())?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // A group of its own, so that its children can be interrupted too.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {program}"))?;
        let pipe = child
            .stdout
            .take()
            .expect("standard output was asked for just above");

        tokio::select! {
            biased;
            () = self.interrupted() => {
                end(&mut child).await;
                Err(Interrupted.into())
            }
            finished = finish(&mut child, pipe, output) => finished.with_context(|| format!("lost track of {program}")),
        }
    }

    /// Waits for work that cannot be interrupted half way. The thread that does
    /// it is abandoned on Ctrl-C and ends with this process.
    pub async fn wait_for<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.go_on()?;
        tokio::select! {
            biased;
            () = self.interrupted() => Err(Interrupted.into()),
            result = tokio::task::spawn_blocking(work) => result?,
        }
    }
}

impl EndSignals {
    async fn recv(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// The same command, whose process is killed when this one ends without having
/// waited for it, even by `kill -9`.
///
/// To the kernel the parent is the *thread* that starts it: that one must live
/// as long as the child must.
pub fn mortal(command: &process::Command) -> Result<process::Command> {
    let program = command.get_program();
    let path = packages::find(&program.to_string_lossy())
        .with_context(|| format!("cannot run {}: it is not there", program.display()))?;
    let mut mortal = process::Command::new("setpriv");
    mortal
        .args(["--pdeathsig", "KILL", "--"])
        .arg(path)
        .args(command.get_args());
    surround(command, &mut mortal);
    Ok(mortal)
}

/// The same command, which leaves the processors to others that want them.
pub fn background(command: &process::Command) -> process::Command {
    let mut background = process::Command::new("nice");
    background
        .arg(command.get_program())
        .args(command.get_args());
    surround(command, &mut background);
    background
}

/// Gives a command the directory and the environment of another one.
fn surround(command: &process::Command, other: &mut process::Command) {
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        other.current_dir(directory);
    }
}

/// Whether a process ignores a signal, by its `/proc/PID/status`.
fn ignores(status: &str, signal: Number) -> bool {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & (1 << (signal as u64 - 1)) != 0)
}

/// Interrupts the child with all its group and kills it when it stays.
async fn end(child: &mut Child) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        // It may have ended by itself just now.
        let _ = killpg(Pid::from_raw(pid), Number::SIGINT);
    }
    if timeout(GRACE, child.wait()).await.is_err() {
        // Only the child: what it started to tidy up after it lives on.
        let _ = child.kill().await;
    }
}

async fn finish(
    child: &mut Child,
    mut pipe: impl AsyncRead + Unpin,
    output: Output<'_>,
) -> Result<Finished> {
    let mut captured = Captured {
        bytes: Vec::new(),
        passed_on: 0,
        output,
    };
    let status = tokio::select! {
        status = child.wait() => {
            // The rest is in the pipe already; time only runs out on leftovers.
            if let Ok(result) = timeout(DRAIN, captured.read(&mut pipe)).await {
                result?;
            }
            status?
        }
        result = captured.read(&mut pipe) => {
            result?;
            child.wait().await?
        }
    };
    captured.flush();
    let stdout = captured.bytes;
    Ok(Finished { status, stdout })
}

/// What a child has written so far.
struct Captured<'a> {
    bytes: Vec<u8>,
    /// How many bytes were passed on as whole lines.
    passed_on: usize,
    output: Output<'a>,
}

impl Captured<'_> {
    async fn read(&mut self, pipe: &mut (impl AsyncRead + Unpin)) -> Result<()> {
        let mut chunk = vec![0; 8192];
        loop {
            let length = pipe.read(&mut chunk).await?;
            if length == 0 {
                return Ok(());
            }
            self.bytes.extend_from_slice(&chunk[..length]);
            match self.output {
                Output::Kept => {}
                Output::Shown => {
                    // At once, because libtest writes a line's beginning and its end apart.
                    let mut out = std::io::stdout().lock();
                    out.write_all(&chunk[..length])?;
                    out.flush()?;
                }
                Output::Lines(tell) => self.pass_on_lines(tell),
            }
        }
    }

    fn pass_on_lines(&mut self, tell: &dyn Fn(&str)) {
        let is_end = |byte: &u8| *byte == b'\n';
        while let Some(length) = self.bytes[self.passed_on..].iter().position(is_end) {
            let line = &self.bytes[self.passed_on..self.passed_on + length];
            tell(&String::from_utf8_lossy(line));
            self.passed_on += length + 1;
        }
    }

    /// The last line may have no end.
    fn flush(&self) {
        if let Output::Lines(tell) = self.output
            && self.passed_on < self.bytes.len()
        {
            tell(&String::from_utf8_lossy(&self.bytes[self.passed_on..]));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::thread;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn output_and_status_come_back() {
        let children = Children::new().unwrap();
        let finished = children
            .run(shell("echo one; echo two; exit 3"), Output::Kept)
            .await
            .unwrap();
        assert_eq!(finished.stdout, b"one\ntwo\n");
        assert_eq!(finished.status.code(), Some(3));
    }

    #[tokio::test]
    async fn lines_come_whole_and_the_last_one_without_its_end() {
        let children = Children::new().unwrap();
        let lines = std::cell::RefCell::new(Vec::new());
        let tell = |line: &str| lines.borrow_mut().push(line.to_owned());
        let script = "printf 'test a ... '; echo ok; printf 'b\\nc'";
        let finished = children.run(shell(script), Output::Lines(&tell)).await;
        assert_eq!(finished.unwrap().stdout, b"test a ... ok\nb\nc");
        assert_eq!(lines.into_inner(), ["test a ... ok", "b", "c"]);
    }

    #[tokio::test]
    async fn a_leftover_that_holds_the_output_open_is_not_waited_for() {
        let children = Children::new().unwrap();
        let finished = children
            .run(shell("sleep 20 & echo $!"), Output::Kept)
            .await
            .unwrap();
        let leftover = String::from_utf8(finished.stdout).unwrap();
        let leftover = Pid::from_raw(leftover.trim().parse().unwrap());
        nix::sys::signal::kill(leftover, Number::SIGKILL).expect("it still runs");
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let children = Children::new().unwrap();
        let error = children
            .run(Command::new("no-such-program"), Output::Kept)
            .await
            .err()
            .expect("there is no such program");
        assert_eq!(
            error.to_string(),
            "cannot run no-such-program: it is not there"
        );
    }

    #[tokio::test]
    async fn ending_a_child_ends_what_it_started() {
        // Its first byte tells that it is the program, no longer the shell.
        let mut child = shell("tail -f Cargo.toml; true")
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut pipe = child.stdout.take().unwrap();
        pipe.read_u8().await.unwrap();

        end(&mut child).await;
        let status = child.try_wait().unwrap().expect("it has ended");
        assert_eq!(status.signal(), Some(Number::SIGINT as i32));
        // The pipe closes when the last holder of its other end is gone.
        timeout(GRACE, pipe.read_to_end(&mut Vec::new()))
            .await
            .expect("nothing holds the pipe")
            .unwrap();
    }

    #[test]
    fn a_child_is_killed_when_its_parent_is_gone() {
        let mut child = thread::spawn(|| {
            let mut command = process::Command::new("sh");
            command.args(["-c", "echo here; exec sleep 600"]);
            let mut child = mortal(&command)
                .unwrap()
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            // Its first byte tells that it runs, and that the kernel knows.
            let mut pipe = child.stdout.take().unwrap();
            pipe.read_exact(&mut [0]).unwrap();
            child
        })
        .join()
        .unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(Number::SIGKILL as i32));
    }

    #[tokio::test]
    async fn a_child_has_the_folder_and_the_environment_of_its_command() {
        let mut command = shell("pwd; echo \"$GREETING\" \"${HOME-no home}\"");
        command
            .current_dir("/")
            .env("GREETING", "hello")
            .env_remove("HOME");
        let children = Children::new().unwrap();
        let finished = children.run(command, Output::Kept).await.unwrap();
        assert_eq!(finished.stdout, b"/\nhello no home\n");
    }

    #[tokio::test]
    async fn a_command_in_the_background_is_the_same_but_nicer() {
        let children = Children::new().unwrap();
        let run = async |command: Command| {
            let finished = children.run(command, Output::Kept).await.unwrap();
            String::from_utf8(finished.stdout).unwrap()
        };
        let own: u32 = run(shell("nice")).await.trim().parse().unwrap();
        let mut command = shell("nice; pwd; echo \"$GREETING\"");
        command.current_dir("/").env("GREETING", "hello");
        let nicer = (own + 10).min(19);
        let told = run(background(command.as_std()).into()).await;
        assert_eq!(told, format!("{nicer}\n/\nhello\n"));
    }

    #[test]
    fn an_ignored_signal_is_seen_in_the_status() {
        let status =
            "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert!(ignores(status, Number::SIGHUP));
        assert!(!ignores(status, Number::SIGINT));
        assert!(ignores(status, Number::SIGPIPE));
        assert!(!ignores("", Number::SIGHUP));
    }
}
