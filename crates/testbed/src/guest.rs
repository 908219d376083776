//! A guest kernel for what the host's kernel may lack: VLAN, ipvlan, SR-IOV.
//!
//! QEMU boots Debian's stock kernel on the root file system of the host, which
//! the guest sees read-only below a file system in memory. A test binary built
//! on the host therefore runs in the guest unchanged:
//!
//! ```text
//!   host: run(&Job) ── QEMU ──> kernel ─> initramfs ─> boot script ─> job script ─> program
//!         exit code <─ file in a shared folder ───────────────────────────────────────┘
//!         output    <─ second serial port ────────────────────────────────────────────┘
//! ```
//!
//! The first serial port is the kernel's console; its last lines are part of
//! every error. One boot costs seconds: run a whole test binary per boot.

mod bzimage;
mod cpio;
mod folder;
mod image;
mod initramfs;
mod machine;
mod qemu;
mod script;
mod xz;

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::command;
use crate::packages;
use folder::Folder;
use image::Image;
use machine::Machine;

/// The variable that is `1` for programs in the guest, and only there.
pub const GUEST_VARIABLE: &str = "FLOE_GUEST";

/// Enough for the report of a kernel panic and what came before it.
const SAID_LINES: usize = 50;

/// A program to run as root in the guest.
#[derive(Clone, Debug)]
pub struct Job {
    /// The program, by its path on the host.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, besides `PATH`, `HOME` and [`GUEST_VARIABLE`].
    pub env: Vec<(String, String)>,
    /// Its working directory: the one folder of the host that the guest can write to.
    pub cwd: PathBuf,
    /// How many SR-IOV network cards the guest has, all on one wire.
    pub igb_ports: u8,
    /// When to give up, counted from the start of the boot.
    pub timeout: Duration,
}

/// Why a program could not be run in the guest.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Only x86-64 machines can run their own programs in the guest.
    #[error("the guest kernel needs an x86-64 machine, this is {0}")]
    Architecture(&'static str),
    /// QEMU, kernel or tools are missing and could not be had.
    #[error("cannot get the parts of the guest")]
    Packages(#[from] packages::Error),
    /// A tool that prepares the guest failed.
    #[error("cannot prepare the guest")]
    Command(#[from] command::Failed),
    /// The distribution has no kernel package as expected.
    #[error("no kernel package: '{package}' depends on no kernel image")]
    NoKernel {
        /// The package that was asked.
        package: &'static str,
    },
    /// A downloaded package has not the expected content.
    #[error("unexpected content of the package {package}: looked for {what}")]
    Content {
        /// The package.
        package: String,
        /// What was looked for.
        what: &'static str,
    },
    /// The installed QEMU has no SR-IOV card.
    #[error("QEMU has no device 'igb': version 8.0 or newer is needed")]
    NoIgb,
    /// A path cannot be given to QEMU or to a script.
    #[error("cannot use {0:?} in the guest: it must be absolute and UTF-8")]
    Path(PathBuf),
    /// A file could not be read or written.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The program was still running when its time was over.
    #[error("the guest was stopped after {} s\n{said}", after.as_secs())]
    Timeout {
        /// The job's timeout.
        after: Duration,
        /// The last lines of QEMU and of the kernel's console.
        said: String,
    },
    /// QEMU ended, but the program had not.
    #[error("the guest ended before its program did ({status})\n{said}")]
    Died {
        /// How QEMU ended.
        status: std::process::ExitStatus,
        /// The last lines of QEMU and of the kernel's console.
        said: String,
    },
}

/// Makes everything ready to boot; quick when that was done before.
pub fn prepare() -> Result<(), Error> {
    ready().map(drop)
}

/// Runs a program in the guest with its output on standard output; returns its exit code.
pub fn run(job: &Job) -> Result<u8, Error> {
    run_with(job, |line| {
        // The program goes on when nobody reads: its exit code still matters.
        let _ = writeln!(io::stdout().lock(), "{line}");
    })
}

/// As [`run`], with every line of output given to `on_line`.
///
/// # Guarantees
/// QEMU is gone when this returns or panics, and also when this process is killed.
pub fn run_with(job: &Job, mut on_line: impl FnMut(&str)) -> Result<u8, Error> {
    let (qemu, image) = ready()?;
    let folder = Folder::new().map_err(io_error("cannot make a folder for the guest"))?;
    let (share, console, log) = (folder.share(), folder.console(), folder.qemu());
    script::write(job, &share)?;
    let machine = Machine {
        image: &image,
        cwd: &job.cwd,
        share: &share,
        console: &console,
        igb_ports: job.igb_ports,
        kvm: qemu::kvm_works(),
    };
    let said = || said(&log, &console);

    let mut vm = Vm(qemu::command(&qemu, &machine.arguments()?)
        .stdout(Stdio::piped())
        .stderr(fs::File::create(&log).map_err(io_error("cannot make a log file"))?)
        .spawn()
        .map_err(io_error("cannot start QEMU"))?);
    let lines = lines_of(vm.0.stdout.take());
    let deadline = Instant::now() + job.timeout;
    loop {
        // No time left counts as a timeout even when more lines wait: a program
        // that never stops writing must be stopped as well.
        let left = deadline.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(line) if !left.is_zero() => on_line(&line),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {
                drop(vm);
                return Err(Error::Timeout {
                    after: job.timeout,
                    said: said(),
                });
            }
        }
    }
    let status = vm.0.wait().map_err(io_error("cannot wait for QEMU"))?;
    let code = fs::read_to_string(share.join(script::EXIT_CODE)).unwrap_or_default();
    code.trim().parse().map_err(|_| Error::Died {
        status,
        said: said(),
    })
}

/// A QEMU process that does not outlive this value.
struct Vm(Child);

impl Drop for Vm {
    fn drop(&mut self) {
        // Both fail only for a process that has already been waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ready() -> Result<(PathBuf, Image), Error> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(Error::Architecture(std::env::consts::ARCH));
    }
    packages::ensure(&image::NEEDS)?;
    Ok((qemu::ensure()?, Image::ensure()?))
}

/// Reads lines in a thread of their own, so that the reader can watch the clock.
fn lines_of(output: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    if let Some(output) = output {
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                if sender.send(clean(&line)).is_err() {
                    break;
                }
                line.clear();
            }
        });
    }
    lines
}

/// A line of a serial port as text: without line end and carriage returns.
fn clean(line: &[u8]) -> String {
    String::from_utf8_lossy(line).replace(['\r', '\n'], "")
}

fn said(stderr: &Path, console: &Path) -> String {
    let last = |path: &Path| {
        let text = fs::read(path).unwrap_or_default();
        command::tail(
            &String::from_utf8_lossy(&text).replace('\r', ""),
            SAID_LINES,
        )
    };
    [last(stderr), last(console)]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

fn io_error(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { what, source }
}

#[cfg(test)]
mod tests;
