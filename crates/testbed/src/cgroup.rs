//! A control group tree of our own: who belongs to a cluster, and how to end it.
//!
//! Every process of a cluster lives below one control group named after it, so
//! that a node can be frozen as a whole, its memory read, and everything that a
//! crash left behind found and ended without guessing from process names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const ROOT: &str = "/sys/fs/cgroup";

/// A control group in every hierarchy that the machine has.
#[derive(Clone, Debug)]
pub struct Cgroup {
    name: String,
}

/// How the machine mounts control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// One hierarchy per controller.
    V1,
    /// One hierarchy for all.
    V2,
}

impl Cgroup {
    /// The group of that name, without creating it; `a/b` is a child of `a`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// A child group.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        Self::new(format!("{}/{name}", self.name))
    }

    /// The path as programs are told it, starting at the root of a hierarchy.
    pub fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// Whether it exists in any hierarchy.
    pub fn exists(&self) -> bool {
        hierarchies()
            .iter()
            .any(|hierarchy| hierarchy.join(&self.name).exists())
    }

    /// Creates the group, able to hold both processes and groups of a kubelet.
    pub fn create(&self) -> io::Result<()> {
        for hierarchy in hierarchies() {
            let mut path = hierarchy.clone();
            for part in self.name.split('/') {
                let parent = path.clone();
                path.push(part);
                if !path.exists() {
                    fs::create_dir(&path)?;
                }
                inherit(&parent, &path)?;
            }
        }
        Ok(())
    }

    /// Shell text that moves the calling shell into this group.
    ///
    /// A child that moves itself before it starts anything cannot lose a
    /// grandchild, as a parent that moves it afterwards could.
    pub fn join_script(&self) -> String {
        use std::fmt::Write;
        let mut script = String::new();
        for hierarchy in member_hierarchies() {
            let procs = hierarchy.join(&self.name).join("cgroup.procs");
            // Writing to a String cannot fail.
            let _ = write!(script, "echo $$ > '{}'; ", procs.display());
        }
        script
    }

    /// Begins to stop every process below this group from running, until thawed;
    /// see [`Self::is_frozen`].
    pub fn freeze(&self) -> io::Result<()> {
        match layout() {
            Layout::V1 => fs::write(self.file("freezer", "freezer.state"), "FROZEN"),
            Layout::V2 => fs::write(self.file("", "cgroup.freeze"), "1"),
        }
    }

    /// Whether every process below this group has stopped.
    pub fn is_frozen(&self) -> io::Result<bool> {
        let (file, word) = match layout() {
            Layout::V1 => (self.file("freezer", "freezer.state"), "FROZEN"),
            Layout::V2 => (self.file("", "cgroup.events"), "frozen 1"),
        };
        Ok(fs::read_to_string(file)?.lines().any(|line| line == word))
    }

    /// Lets this group and every group below it run again, whichever of them was
    /// frozen.
    pub fn thaw(&self) -> io::Result<()> {
        let (hierarchy, file, word) = match layout() {
            Layout::V1 => ("freezer", "freezer.state", "THAWED"),
            Layout::V2 => ("", "cgroup.freeze", "0"),
        };
        let mut result = Ok(());
        walk(&self.file(hierarchy, ""), &mut |group| {
            if let Err(error) = fs::write(group.join(file), word) {
                result = Err(error);
            }
        });
        result
    }

    /// Bytes of memory charged to this group and the groups below it.
    pub fn memory(&self) -> io::Result<u64> {
        let file = match layout() {
            Layout::V1 => self.file("memory", "memory.usage_in_bytes"),
            Layout::V2 => self.file("", "memory.current"),
        };
        let text = fs::read_to_string(file)?;
        text.trim().parse().map_err(io::Error::other)
    }

    /// Processor time that this group and the groups below it have used.
    pub fn cpu(&self) -> io::Result<Duration> {
        match layout() {
            Layout::V1 => {
                let text = fs::read_to_string(self.file("cpuacct", "cpuacct.usage"))?;
                let nanoseconds = text.trim().parse().map_err(io::Error::other)?;
                Ok(Duration::from_nanos(nanoseconds))
            }
            Layout::V2 => {
                let text = fs::read_to_string(self.file("", "cpu.stat"))?;
                let line = text.lines().find_map(|it| it.strip_prefix("usage_usec "));
                let line = line.ok_or_else(|| io::Error::other("cpu.stat has no usage_usec"))?;
                let microseconds = line.trim().parse().map_err(io::Error::other)?;
                Ok(Duration::from_micros(microseconds))
            }
        }
    }

    /// The processes of this group and the groups below it.
    pub fn processes(&self) -> Vec<i32> {
        let mut found = Vec::new();
        for hierarchy in hierarchies() {
            walk(&hierarchy.join(&self.name), &mut |dir| {
                let procs = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
                let pids = procs.lines().filter_map(|line| line.parse::<i32>().ok());
                // Zero stands for a process that is not visible from here, and to
                // signal zero would be to signal ourselves.
                found.extend(pids.filter(|pid| *pid > 0));
            });
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Ends every process of the group and removes the group itself.
    pub fn remove(&self, patience: Duration) -> io::Result<()> {
        // A frozen process would not die.
        let _ = self.thaw();
        let deadline = Instant::now() + patience;
        loop {
            for pid in self.processes() {
                match kill(Pid::from_raw(pid), Signal::SIGKILL) {
                    Ok(()) | Err(Errno::ESRCH) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            match self.remove_directories() {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                // The kernel takes a moment to bury what was killed.
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn remove_directories(&self) -> io::Result<()> {
        let mut result = Ok(());
        for hierarchy in hierarchies() {
            let mut directories = Vec::new();
            walk(&hierarchy.join(&self.name), &mut |dir| {
                directories.push(dir.to_owned());
            });
            // Children come after their parents in the walk.
            for directory in directories.iter().rev() {
                if let Err(error) = fs::remove_dir(directory)
                    && error.kind() != io::ErrorKind::NotFound
                {
                    result = Err(error);
                }
            }
        }
        result
    }

    /// A file of this group in one hierarchy; v2 has only the one without name.
    fn file(&self, hierarchy: &str, file: &str) -> PathBuf {
        Path::new(ROOT).join(hierarchy).join(&self.name).join(file)
    }
}

fn layout() -> Layout {
    if Path::new(ROOT).join("cgroup.controllers").exists() {
        Layout::V2
    } else {
        Layout::V1
    }
}

/// The root of each hierarchy with controllers.
fn hierarchies() -> Vec<PathBuf> {
    match layout() {
        Layout::V2 => vec![PathBuf::from(ROOT)],
        Layout::V1 => fs::read_dir(ROOT)
            .map(|entries| {
                let mut paths: Vec<_> = entries
                    .flatten()
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| entry.path())
                    .collect();
                paths.sort();
                paths
            })
            .unwrap_or_default(),
    }
}

/// The hierarchies in which our own processes are members: enough to find,
/// freeze and weigh them, and count what they compute.
fn member_hierarchies() -> Vec<PathBuf> {
    match layout() {
        Layout::V2 => hierarchies(),
        Layout::V1 => ["freezer", "memory", "cpuacct"]
            .map(|controller| Path::new(ROOT).join(controller))
            .into_iter()
            .filter(|hierarchy| hierarchy.exists())
            .collect(),
    }
}

/// Hands down what the kernel does not: CPU sets under v1, controllers under v2.
fn inherit(parent: &Path, child: &Path) -> io::Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let (from, to) = (parent.join(file), child.join(file));
        if layout() == Layout::V1 && to.exists() && fs::read_to_string(&to)?.trim().is_empty() {
            fs::write(to, fs::read_to_string(from)?.trim())?;
        }
    }
    if layout() == Layout::V2 {
        let enabled = fs::read_to_string(parent.join("cgroup.subtree_control"))?;
        let has = |list: &str, name: &str| list.split_whitespace().any(|word| word == name);
        let available = fs::read_to_string(parent.join("cgroup.controllers"))?;
        for controller in ["cpu", "cpuset", "memory", "pids"] {
            if has(&available, controller) && !has(&enabled, controller) {
                fs::write(
                    parent.join("cgroup.subtree_control"),
                    format!("+{controller}"),
                )?;
            }
        }
    }
    Ok(())
}

fn walk(directory: &Path, visit: &mut impl FnMut(&Path)) {
    if !directory.is_dir() {
        return;
    }
    visit(directory);
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), visit);
        }
    }
}
