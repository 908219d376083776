//! Rules of the packet filter, through the program `nft`: a script is one transaction,
//! done as a whole or not at all.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Seek, Write},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use nix::sys::memfd::{MFdFlags, memfd_create};

/// How long a script may take. Thousands of elements take some tens of milliseconds, but
/// somebody else's transaction may come first.
const PATIENCE: Duration = Duration::from_secs(10);

/// The program, which acts on the namespace of the thread that calls it.
#[derive(Clone, Debug)]
pub struct Nft {
    program: OsString,
    patience: Duration,
}

/// Why rules are not as they were asked to be.
#[derive(Debug, thiserror::Error)]
pub enum NftError {
    /// The program cannot be run.
    #[error("cannot run nft: {0}")]
    Start(#[from] io::Error),
    /// It did not end in time, and was ended. Nobody knows whether it was done.
    #[error("nft took longer than {0:?}")]
    Slow(Duration),
    /// It refused, and nothing was changed.
    #[error("nft refused: {0}")]
    Refused(String),
}

impl NftError {
    /// The stable name of the failure.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Start(_) => "NftMissing",
            Self::Slow(_) => "NftSlow",
            Self::Refused(_) => "NftRefused",
        }
    }
}

impl Default for Nft {
    fn default() -> Self {
        Self::new("nft")
    }
}

impl Nft {
    /// The program of this name or path.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            patience: PATIENCE,
        }
    }

    /// The same, with less time for each call.
    #[must_use]
    pub fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Runs a script.
    pub fn apply(&self, script: &str) -> Result<(), NftError> {
        self.run(&["-f", "-"], script).map(drop)
    }

    /// The rules of a table, such as `inet floe-vip`, or none if there is no such table.
    pub fn list(&self, table: &str) -> Result<Option<String>, NftError> {
        self.list_one("table", table)
    }

    /// The rules of a chain, such as `inet floe-vip guard`, or none if there is no such chain.
    pub fn list_chain(&self, chain: &str) -> Result<Option<String>, NftError> {
        self.list_one("chain", chain)
    }

    /// All chains of all tables, without their rules.
    pub fn list_chains(&self) -> Result<String, NftError> {
        self.run(&["list", "chains"], "")
    }

    fn list_one(&self, kind: &str, name: &str) -> Result<Option<String>, NftError> {
        let words: Vec<_> = ["list", kind]
            .into_iter()
            .chain(name.split_whitespace())
            .collect();
        match self.run(&words, "") {
            Ok(text) => Ok(Some(text)),
            Err(NftError::Refused(text)) if text.contains("No such file or directory") => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn run(&self, arguments: &[&str], script: &str) -> Result<String, NftError> {
        let limit = self.patience;
        let deadline = Instant::now() + limit;
        let child = Command::new(&self.program)
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(in_memory(script)?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut child = Ended(child);
        // Each says its last word when the program ends.
        let said = reader(child.0.stdout.take())?;
        let complained = reader(child.0.stderr.take())?;
        let mut wait = |words: &mpsc::Receiver<String>| {
            let left = deadline.saturating_duration_since(Instant::now());
            words.recv_timeout(left).map_err(|_| {
                child.end();
                NftError::Slow(limit)
            })
        };
        let (said, complained) = (wait(&said)?, wait(&complained)?);
        if child.0.wait()?.success() {
            return Ok(said);
        }
        Err(NftError::Refused(complained.trim_end().to_owned()))
    }
}

/// A program that does not outlive this value.
struct Ended(Child);

impl Ended {
    fn end(&mut self) {
        // It fails only when the program has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.end();
    }
}

/// A file with this text that is nowhere. A pipe would have to be filled while the
/// program's own words are read.
fn in_memory(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("nft", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// All that comes out of a pipe, once it is closed.
fn reader(pipe: Option<impl Read + Send + 'static>) -> io::Result<mpsc::Receiver<String>> {
    let mut pipe = pipe.ok_or_else(|| io::Error::other("no pipe to read from"))?;
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        // What was said until then is better than nothing.
        let _ = pipe.read_to_end(&mut bytes);
        // Nobody waits for it any more when it took too long.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    })?;
    Ok(receiver)
}
