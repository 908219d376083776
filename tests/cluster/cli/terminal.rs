//! A terminal without anybody at it: commands are run as they are printed.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::Cluster;
use floe_testbed::host::sibling_program;
use tempfile::TempDir;

/// The folders with the manifests that documents apply.
const FOLDERS: [&str; 2] = ["deploy", "k8s"];

/// How many seconds a command may take.
const LIMIT: &str = "240";

/// A place where `kubectl floe` is installed, with a home of its own.
pub struct Terminal {
    home: TempDir,
    path: OsString,
}

impl Terminal {
    pub fn open(cluster: &Cluster) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let kubectl = PathBuf::from(cluster.kubectl().get_program());
        symlink(kubectl, home.path().join("kubectl"))?;
        symlink(
            sibling_program("kubectl-floe")?,
            home.path().join("kubectl-floe"),
        )?;
        // What the document writes stays out of the repository.
        let repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        for folder in FOLDERS {
            symlink(repository.join(folder), home.path().join(folder))?;
        }
        let mut path = home.path().as_os_str().to_owned();
        path.push(":/usr/local/bin:/usr/bin:/bin");
        Ok(Self { home, path })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        self.home.path()
    }

    /// Where its kubeconfig is.
    pub fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("kubeconfig")
    }

    /// A command line of a shell, of which errors are a part of what it prints.
    pub fn command(&self, line: &str) -> Command {
        self.started_by(&["bash"], line)
    }

    fn started_by(&self, program: &[&str], line: &str) -> Command {
        let mut command = Command::new(program[0]);
        command
            .args(&program[1..])
            .args(["-c", &format!("exec 2>&1\n{line}")])
            .current_dir(self.home.path())
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.kubeconfig())
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }

    /// What a command prints. It fails exactly if it says that something is wrong.
    pub fn run(&self, line: &str) -> Result<String> {
        // Some wait for what may never come.
        let output = self.started_by(&["timeout", LIMIT, "bash"], line).output();
        let output = output.with_context(|| format!("cannot run {line}"))?;
        let text = String::from_utf8(output.stdout)?;
        let complains = text
            .lines()
            .any(|line| line.to_lowercase().starts_with("error"));
        ensure!(
            output.status.success() != complains,
            "{line} ends with {} and prints:\n{text}",
            output.status
        );
        Ok(text)
    }
}
