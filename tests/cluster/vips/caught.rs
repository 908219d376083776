//! A process that is stopped at the worst system call: right before it sends a message to
//! the kernel, and again right after.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The pause between two looks at threads that run.
const LOOK: Duration = Duration::from_micros(200);

/// A process whose threads all stand still until this is dropped.
#[derive(Debug)]
pub struct Caught {
    steps: Option<mpsc::Sender<()>>,
    done: mpsc::Receiver<Result<()>>,
    tracer: Option<JoinHandle<()>>,
}

impl Caught {
    /// Waits until one of the threads is about to send a message that is `wanted`, and stops
    /// the process there.
    pub fn before_sending(
        process: i32,
        wanted: fn(&[u8]) -> bool,
        limit: Duration,
    ) -> Result<Self> {
        let (steps, wishes) = mpsc::channel();
        let (report, done) = mpsc::channel();
        // A thread that traces has to do all of it, and whatever it traces goes on when it
        // ends.
        let tracer = thread::spawn(move || {
            let caught = catch(process, wanted, limit);
            let (thread, outcome) = match caught {
                Ok(thread) => (Some(thread), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // The receiver goes away only when the test is over.
            let _ = report.send(outcome);
            while let (Ok(()), Some(thread)) = (wishes.recv(), thread) {
                let _ = report.send(finish_call(thread));
            }
        });
        let caught = Self {
            steps: Some(steps),
            done,
            tracer: Some(tracer),
        };
        caught.done.recv().context("the tracer is gone")??;
        Ok(caught)
    }

    /// Lets the kernel have the message, and nothing else happen.
    pub fn send(&self) -> Result<()> {
        let steps = self.steps.as_ref().context("it is over")?;
        steps.send(()).context("the tracer is gone")?;
        self.done.recv().context("the tracer is gone")?
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        drop(self.steps.take());
        if let Some(tracer) = self.tracer.take() {
            // It panics never.
            let _ = tracer.join();
        }
    }
}

/// The renewal of the time for which a node serves shared addresses: a batch for `nf_tables`
/// that adds elements to the set `alive` of the node's rules.
pub fn renews(message: &[u8]) -> bool {
    const INET: u8 = 1;
    fills_alive(message, INET)
}

/// The same for a pod that has the addresses itself. A node's batch may contain both families.
pub fn renews_pod(message: &[u8]) -> bool {
    const NETDEV: u8 = 5;
    fills_alive(message, NETDEV) && !renews(message)
}

fn fills_alive(message: &[u8], family: u8) -> bool {
    const ADD_ELEMENTS: u16 = 0x0a0c;
    has(message, |kind, body| {
        let is_alive = |it: &[u8]| it == b"alive\0";
        kind == ADD_ELEMENTS && body.first() == Some(&family) && body.windows(6).any(is_alive)
    })
}

/// An address for a link: while pods keep what they have, an agent sends it only for a pod that
/// has a shared address itself.
pub fn lends(message: &[u8]) -> bool {
    const NEW_ADDRESS: u16 = 20;
    has(message, |kind, _| kind == NEW_ADDRESS)
}

/// Whether one of the netlink messages in a datagram, by its kind and body, is such a one.
fn has(datagram: &[u8], is_one: impl Fn(u16, &[u8]) -> bool) -> bool {
    const HEADER: usize = 16;
    let mut rest = datagram;
    while rest.len() >= HEADER {
        let length = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
        let kind = u16::from_ne_bytes([rest[4], rest[5]]);
        let Some(one) = rest.get(HEADER..length) else {
            return false;
        };
        if is_one(kind, one) {
            return true;
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

/// Traces a process until the call is about to be made. All threads stop at their next call.
fn catch(process: i32, wanted: fn(&[u8]) -> bool, limit: Duration) -> Result<Pid> {
    let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_TRACECLONE;
    for entry in fs::read_dir(format!("/proc/{process}/task"))?.flatten() {
        let number = entry.file_name().to_str().and_then(|it| it.parse().ok());
        let thread = Pid::from_raw(number.context("a thread has a number")?);
        match ptrace::seize(thread, options).and_then(|()| ptrace::interrupt(thread)) {
            // It has ended meanwhile.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let memory = File::open(format!("/proc/{process}/mem"))?;
    let deadline = Instant::now() + limit;
    // Only threads that this thread traces, and none of the test's other children.
    let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WNOHANG;
    loop {
        ensure!(
            Instant::now() < deadline,
            "no such message within {limit:?}"
        );
        let (thread, signal) = match waitpid(None::<Pid>, Some(flags)) {
            Ok(WaitStatus::PtraceSyscall(thread)) => {
                if is_sending(thread, &memory, wanted)? {
                    return Ok(thread);
                }
                (thread, None)
            }
            Ok(WaitStatus::PtraceEvent(thread, ..)) => (thread, None),
            Ok(WaitStatus::Stopped(thread, signal)) => (thread, Some(signal)),
            Ok(WaitStatus::StillAlive) => {
                thread::sleep(LOOK);
                continue;
            }
            Ok(_) => continue,
            Err(error) => bail!("cannot wait for threads of {process}: {error}"),
        };
        match ptrace::syscall(thread, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a thread that has stopped at a call is about to send such a message.
fn is_sending(thread: Pid, memory: &File, wanted: fn(&[u8]) -> bool) -> Result<bool> {
    const LARGEST: usize = 1 << 16;
    let registers = match ptrace::getregs(thread) {
        Ok(registers) => registers,
        Err(Errno::ESRCH) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    // The kernel has this there before a call, and the result after it.
    let is_entry = registers.rax.cast_signed() == -i64::from(libc::ENOSYS);
    let is_send = registers.orig_rax.cast_signed() == libc::SYS_sendto;
    if !is_entry || !is_send {
        return Ok(false);
    }
    let mut message = vec![0; usize::try_from(registers.rdx)?.min(LARGEST)];
    let length = memory.read_at(&mut message, registers.rsi)?;
    Ok(wanted(&message[..length]))
}

/// Lets a thread that has stopped before a call make it, and stops it again.
fn finish_call(thread: Pid) -> Result<()> {
    ptrace::syscall(thread, None)?;
    let status = waitpid(thread, Some(WaitPidFlag::__WALL))?;
    let is_over = matches!(status, WaitStatus::PtraceSyscall(_));
    ensure!(
        is_over,
        "instead of the end of the call there is {status:?}"
    );
    Ok(())
}
