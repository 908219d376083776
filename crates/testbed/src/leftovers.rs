//! What is on the machine: to tell what something left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::supervisor::CGROUP_PREFIX;

/// Settings that change by themselves, or that whoever needs it lifts for everybody.
const RESTLESS: [&str; 10] = [
    "fs/aio-nr",
    "fs/dentry-state",
    "fs/file-nr",
    "fs/inode-nr",
    "fs/inode-state",
    "fs/inotify/max_user_instances",
    "kernel/ns_last_pid",
    "kernel/pty/nr",
    "kernel/random/",
    "user/max_inotify_instances",
];

/// Everything on the machine that a cluster could leave behind.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    processes: BTreeMap<i32, Process>,
    mounts: BTreeSet<String>,
    cgroups: BTreeSet<String>,
    links: BTreeSet<String>,
    sysctls: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
struct Process {
    parent: i32,
    command: String,
    namespaces: BTreeSet<String>,
    cgroups: String,
    /// The job of the test command that it belongs to.
    job: Option<String>,
}

/// Names the job of the test command to its programs, and so to all that these start.
pub const JOB: &str = "FLOE_JOB";

impl Machine {
    /// Looks at the machine now.
    pub fn look() -> Self {
        let mut machine = Self {
            processes: processes(),
            mounts: lines("/proc/self/mountinfo"),
            links: names("/sys/class/net"),
            ..Self::default()
        };
        visit(Path::new("/sys/fs/cgroup"), &mut |path, is_directory| {
            if is_directory {
                machine.cgroups.insert(path.display().to_string());
            }
        });
        visit(Path::new("/proc/sys"), &mut |path, is_directory| {
            let name = path
                .strip_prefix("/proc/sys")
                .unwrap_or(path)
                .display()
                .to_string();
            let restless = RESTLESS.iter().any(|restless| name.starts_with(restless));
            if !is_directory
                && !restless
                && let Ok(value) = fs::read_to_string(path)
            {
                machine.sysctls.insert(name, value);
            }
        });
        machine
    }

    /// Whether any process is in this namespace, given as `net:[4026531840]`.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.processes
            .values()
            .any(|process| process.namespaces.contains(namespace))
    }

    /// What is here now and was not then, or is different, one line each.
    ///
    /// Processes started meanwhile by somebody else, who was there then or is another job
    /// ([`JOB`]), are somebody else's: only orphans, our own children and members of the control
    /// groups of clusters whose names begin with `clusters` count. Kernel modules and settings
    /// that a module brings along are not compared.
    pub fn since(&self, then: &Self, clusters: &str) -> Vec<String> {
        let ours = format!("/{CGROUP_PREFIX}{clusters}");
        let mut differences = Vec::new();
        let known: BTreeSet<_> = then
            .processes
            .values()
            .flat_map(|process| &process.namespaces)
            .collect();
        for (pid, process) in &self.processes {
            let is_ours = process.cgroups.contains(&ours) || !self.is_somebody_else_s(*pid, then);
            if then.processes.contains_key(pid) || !is_ours {
                continue;
            }
            differences.push(format!("process {pid}: {}", process.command));
            for namespace in process
                .namespaces
                .iter()
                .filter(|namespace| !known.contains(namespace))
            {
                differences.push(format!("namespace {namespace} of process {pid}"));
            }
        }
        let pairs = [
            ("mount", &self.mounts, &then.mounts),
            ("link", &self.links, &then.links),
        ];
        for (kind, now, then) in pairs {
            differences.extend(now.difference(then).map(|new| format!("new {kind}: {new}")));
            differences.extend(
                then.difference(now)
                    .map(|gone| format!("missing {kind}: {gone}")),
            );
        }
        // What comes and goes below somebody's group is that somebody's.
        let new_groups = self.cgroups.difference(&then.cgroups).filter(|group| {
            let parent = Path::new(group)
                .parent()
                .map(|parent| parent.display().to_string());
            let top = parent.is_some_and(|parent| is_root_of_hierarchy(&parent));
            let is_of_cluster = group.contains(&format!("/{CGROUP_PREFIX}"));
            group.contains(&ours) || top && !is_of_cluster
        });
        differences.extend(new_groups.map(|group| format!("new control group: {group}")));
        for (name, value) in &self.sysctls {
            if let Some(old) = then.sysctls.get(name)
                && old != value
            {
                differences.push(format!(
                    "sysctl {name}: {} was {}",
                    value.trim(),
                    old.trim()
                ));
            }
        }
        differences
    }

    fn is_somebody_else_s(&self, pid: i32, then: &Self) -> bool {
        let me = i32::try_from(std::process::id()).unwrap_or_default();
        let job = std::env::var(JOB).ok();
        let mut ancestor = pid;
        while let Some(process) = self.processes.get(&ancestor) {
            if process.job.is_some() && process.job != job {
                return true;
            }
            ancestor = process.parent;
            if then.processes.contains_key(&ancestor) {
                return ancestor != 1 && ancestor != me;
            }
        }
        false
    }
}

/// The mount point of control groups itself, or of one controller below it.
fn is_root_of_hierarchy(directory: &str) -> bool {
    let below = directory
        .strip_prefix("/sys/fs/cgroup")
        .unwrap_or(directory);
    below.matches('/').count() <= 1
}

fn processes() -> BTreeMap<i32, Process> {
    let mut found = BTreeMap::new();
    for name in names("/proc") {
        let Ok(pid) = name.parse::<i32>() else {
            continue;
        };
        let directory = Path::new("/proc").join(name);
        let read = |file: &str| {
            let bytes = fs::read(directory.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let command = read("cmdline").replace('\0', " ").trim().to_owned();
        let status = read("status");
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        let zombie = field("State:").is_some_and(|state| state.starts_with('Z'));
        // Threads of the kernel have no command line, and are not ours.
        if command.is_empty() && !zombie {
            continue;
        }
        let namespaces = names(directory.join("ns"))
            .iter()
            .filter_map(|kind| fs::read_link(directory.join("ns").join(kind)).ok())
            .map(|target| target.display().to_string())
            .collect();
        let parent = field("PPid:")
            .and_then(|parent| parent.parse().ok())
            .unwrap_or_default();
        let command = if zombie {
            format!("{} (dead, not buried)", field("Name:").unwrap_or_default())
        } else {
            command
        };
        found.insert(
            pid,
            Process {
                parent,
                command,
                namespaces,
                cgroups: read("cgroup"),
                job: job_in(&read("environ")),
            },
        );
    }
    found
}

/// The job in the environment of a process.
fn job_in(environment: &str) -> Option<String> {
    let mut variables = environment.split('\0');
    let job = variables.find_map(|it| it.strip_prefix(JOB)?.strip_prefix('='))?;
    Some(job.to_owned())
}

fn lines(file: &str) -> BTreeSet<String> {
    fs::read_to_string(file)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn names(directory: impl AsRef<Path>) -> BTreeSet<String> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Visits everything below a directory, following no links.
fn visit(directory: &Path, see: &mut impl FnMut(&Path, bool)) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        see(&entry.path(), kind.is_dir());
        if kind.is_dir() {
            visit(&entry.path(), see);
        }
    }
}
