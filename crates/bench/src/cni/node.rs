//! A node for the plugins: a thread with a network and a folder of its own.
//!
//! Both belong to the thread and to open files, and have no name that others could
//! see. They are gone as soon as the process is, by whatever end.

use std::{
    fs::{self, File},
    io::Write as _,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    thread,
};

use anyhow::{Context as _, Result, bail, ensure};
use floe_testbed::host::sibling_program;
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

/// Any existing folder below which nothing else is looked for: memory is mounted on
/// it, and only the thread sees that.
const FOLDER: &str = "/mnt";
/// Where Debian has the reference plugins.
const THEIRS: &str = "/usr/lib/cni";
/// The name under which floe's program is called.
pub const OURS: &str = "galaxy-k8s-vlan";

/// A node, as the thread in it sees it.
pub struct Node {
    /// The other end of its link.
    far: Pod,
    folder: &'static Path,
}

/// The namespace of a pod, which lives as long as this.
pub struct Pod(File);

/// Runs `work` on a node of its own.
pub fn on_node<T: Send>(work: impl FnOnce(&Node) -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| work(&Node::new()?));
        let outcome = thread.join();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs lines of `ip` in the namespace of this thread.
pub fn ip(batch: &str) -> Result<()> {
    let mut ip = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot run ip")?;
    if let Some(mut stdin) = ip.stdin.take() {
        stdin.write_all(batch.as_bytes())?;
    }
    let status = ip.wait()?;
    ensure!(status.success(), "ip failed ({status}): {batch}");
    Ok(())
}

impl Node {
    fn new() -> Result<Self> {
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET)
            .context("cannot make a network namespace: this needs root")?;
        let nothing = None::<&str>;
        // What is mounted here must not spread.
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(nothing, "/", nothing, private, nothing)?;
        let memory = Some("tmpfs");
        mount(memory, FOLDER, memory, MsFlags::empty(), nothing)
            .with_context(|| format!("cannot mount memory on {FOLDER}"))?;
        for folder in ["bin", "run", "state", "empty"] {
            fs::create_dir(Path::new(FOLDER).join(folder))?;
        }
        let far = Pod::new()?;
        let node = Self {
            far,
            folder: Path::new(FOLDER),
        };
        ip(&format!(
            "link set lo up\n\
             link add uplink type veth peer name wire netns {}\n\
             link set uplink up\n",
            node.far.path().display()
        ))?;
        node.far.run("ip", &["link", "set", "wire", "up"])?;
        Ok(node)
    }

    /// A path in its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Puts floe's program and the reference plugins into one folder, in memory: all
    /// are started from the same place.
    pub fn install(&self) -> Result<()> {
        let copy = |from: &Path, name: &str| {
            fs::copy(from, self.path("bin").join(name))
                .with_context(|| format!("cannot copy {}", from.display()))
        };
        copy(&sibling_program("floe-cni")?, OURS)?;
        for name in ["bridge", "macvlan", "vlan", "static"] {
            copy(&Path::new(THEIRS).join(name), name)?;
        }
        Ok(())
    }
}

impl Pod {
    /// A new network namespace, with nothing in it.
    pub fn new() -> Result<Self> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace")?;
                Ok(Self(File::open("/proc/thread-self/ns/net")?))
            });
            let outcome = thread.join();
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Where a runtime would say it is.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", process::id(), self.0.as_raw_fd()).into()
    }

    /// What a program says that runs in it.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        let mut net = std::ffi::OsString::from("--net=");
        net.push(self.path());
        let output = Command::new("nsenter")
            .arg(net)
            .arg(program)
            .args(args)
            .output()
            .context("cannot run nsenter")?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("{program} {}: {stderr}", args.join(" "));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
