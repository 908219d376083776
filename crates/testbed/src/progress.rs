//! Progress of long steps for people: what is being done, and for how long.
//!
//! Lines go to standard error, so that the output of a command stays its own.
//! A step that takes long says so every fifteen seconds, which also shows in a
//! log file where a moving spinner would not.

use std::io::{IsTerminal, Write};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const HEARTBEAT: Duration = Duration::from_secs(15);

/// A step under way; finish it with [`Step::done`] or [`Step::fail`].
pub struct Step {
    title: String,
    started: Instant,
    stop: Option<mpsc::Sender<()>>,
    heartbeat: Option<thread::JoinHandle<()>>,
}

impl Step {
    /// Announces a step and starts its clock.
    pub fn start(title: impl Into<String>) -> Self {
        let title = title.into();
        say("...", &title, None);
        let (stop, stopped) = mpsc::channel();
        let started = Instant::now();
        let heartbeat = thread::spawn({
            let title = title.clone();
            move || {
                while stopped.recv_timeout(HEARTBEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
                    say("...", &title, Some(started.elapsed()));
                }
            }
        });
        Self {
            title,
            started,
            stop: Some(stop),
            heartbeat: Some(heartbeat),
        }
    }

    /// The step succeeded.
    pub fn done(mut self) -> Duration {
        self.finish("ok")
    }

    /// The step failed; the caller reports the error itself.
    pub fn fail(mut self) {
        self.finish("FAIL");
    }

    /// Runs `work` as one step and reports how it ended.
    pub fn run<T, E>(
        title: impl Into<String>,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let step = Self::start(title);
        let result = work();
        match &result {
            Ok(_) => {
                step.done();
            }
            Err(_) => step.fail(),
        }
        result
    }

    /// As [`Step::run`], for work that waits.
    pub async fn run_async<T, E>(
        title: impl Into<String>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let step = Self::start(title);
        let result = work.await;
        match &result {
            Ok(_) => {
                step.done();
            }
            Err(_) => step.fail(),
        }
        result
    }

    fn finish(&mut self, mark: &str) -> Duration {
        self.silence();
        let elapsed = self.started.elapsed();
        say(mark, &self.title, Some(elapsed));
        elapsed
    }

    fn silence(&mut self) {
        drop(self.stop.take());
        if let Some(heartbeat) = self.heartbeat.take() {
            // The heartbeat only prints; a panic in it must not fail the step.
            let _ = heartbeat.join();
        }
    }
}

impl Drop for Step {
    /// A step dropped unfinished (an early return) just falls silent.
    fn drop(&mut self) {
        self.silence();
    }
}

/// Writes one line about a step: a mark such as `ok`, what it is, and how long it took.
pub fn say(mark: &str, title: &str, elapsed: Option<Duration>) {
    let mut err = std::io::stderr().lock();
    let colour = err.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mark = match (mark, colour) {
        ("ok", true) => "\x1b[32m  ok\x1b[0m".to_owned(),
        ("FAIL", true) => "\x1b[31mFAIL\x1b[0m".to_owned(),
        _ => format!("{mark:>4}"),
    };
    // Nobody is left to read it when standard error is gone.
    let _ = match elapsed {
        Some(elapsed) => writeln!(err, "{mark} {title} ({:.1} s)", elapsed.as_secs_f64()),
        None => writeln!(err, "{mark} {title}"),
    };
}
