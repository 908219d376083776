//! Where the files of a cluster are.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::control::ProgramName;
use crate::cache::cache_dir;

/// The directory of one cluster, below the cache directory.
#[derive(Clone, Debug)]
pub struct Paths {
    root: PathBuf,
}

impl Paths {
    /// The files of the cluster with that name, which need not exist.
    pub fn of(name: &str) -> Result<Self> {
        let cache = cache_dir();
        // A node has a /run, /var/lib and /opt of its own and would not see them.
        for hidden in [
            "/run", "/var/lib", "/var/log", "/opt", "/proc", "/sys", "/etc", "/mnt",
        ] {
            if cache.starts_with(hidden) {
                bail!(
                    "the cache directory {} lies in {hidden}, which every node has for itself; \
                     set FLOE_TESTBED_CACHE to another place",
                    cache.display()
                );
            }
        }
        if cache.to_string_lossy().contains([',', ':', '\'']) {
            bail!(
                "the cache directory {} has a comma, colon or quote in its name, which mount options \
                 cannot carry; set FLOE_TESTBED_CACHE to another place",
                cache.display()
            );
        }
        Ok(Self {
            root: cache.join("clusters").join(name),
        })
    }

    /// All of it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Locked by the supervisor for as long as the cluster exists.
    ///
    /// One for the machine, whatever the cache directory: control groups have the
    /// names of clusters, and there is only one tree of them.
    pub fn lock(&self) -> PathBuf {
        let name = self.root.file_name().unwrap_or_default();
        PathBuf::from(format!("/run/floe-testbed-{}.lock", name.display()))
    }

    /// The socket on which the supervisor takes requests.
    pub fn control(&self) -> PathBuf {
        self.root.join("control.sock")
    }

    /// An administrator's access from the machine.
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// Certificates, and configuration of every program.
    pub fn config(&self) -> PathBuf {
        self.root.join("config")
    }

    /// What every program wrote; kept after the end for those who ask why.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// What one program wrote.
    pub fn log(&self, program: &ProgramName) -> PathBuf {
        self.logs()
            .join(&program.host)
            .join(format!("{}.log", program.program))
    }

    /// What floe's accounts asked of the API server, and what came of it: an event of
    /// `audit.k8s.io` in each line.
    pub fn audit(&self) -> PathBuf {
        self.logs().join("audit.log")
    }

    /// What the supervisor itself wrote.
    pub fn supervisor_log(&self) -> PathBuf {
        self.root.join("supervisor.log")
    }

    /// The images that nodes can pull.
    pub fn registry(&self) -> PathBuf {
        self.root.join("registry")
    }

    /// The nodes' disks and etcd's; in memory, seen by the cluster alone.
    pub fn disks(&self) -> PathBuf {
        self.root.join("disks")
    }
}
