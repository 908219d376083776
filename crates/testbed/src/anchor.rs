//! The first process of a host: prepares its file systems, then only reaps.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::sethostname;

/// Kernel settings that a kubelet insists on, with the value it wants.
///
/// They are settings of the whole machine. A node sees files of its own in their
/// place, so that no kubelet ever finds a reason to change the real ones.
const KUBELET_SYSCTLS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Prepares the host, says `ready` on standard output, and reaps until killed.
pub fn run(name: &str, disk: Option<&Path>) -> Result<()> {
    sethostname(name).context("cannot set the host name")?;
    mount_fresh("proc", "/proc")?;
    remount_sys()?;
    if let Some(disk) = disk {
        prepare_node(disk)?;
    }
    // Last of all: what was moved about above must not spread. From now on
    // mounts of containers do, as on any node.
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_REC | MsFlags::MS_SHARED,
        None::<&str>,
    )
    .context("cannot let mounts spread")?;
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block().context("cannot block SIGCHLD")?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "ready").and_then(|()| stdout.flush())?;
    loop {
        children.wait().context("cannot wait for a signal")?;
        reap();
    }
}

/// Orphans of the host become children of its first process.
fn reap() {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return,
            Ok(_) | Err(_) => {}
        }
    }
}

fn prepare_node(disk: &Path) -> Result<()> {
    for directory in [
        "kubelet",
        "containerd",
        "cni",
        "log",
        "etc",
        "etc-work",
        "cni-bin",
        "sysctl",
    ] {
        let path = disk.join(directory);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    }
    hide_kernel_settings(&disk.join("sysctl"))?;
    let etc = format!(
        "lowerdir=/etc,upperdir={0}/etc,workdir={0}/etc-work",
        disk.display()
    );
    mount(
        Some("overlay"),
        "/etc",
        Some("overlay"),
        MsFlags::empty(),
        Some(etc.as_str()),
    )
    .context("cannot lay the node's own /etc over the machine's")?;
    for volatile in ["/run", "/var/lib", "/opt"] {
        mount_fresh("tmpfs", volatile)?;
    }
    for (kept, place) in [
        ("kubelet", "/var/lib/kubelet"),
        ("containerd", "/var/lib/containerd"),
        ("cni", "/var/lib/cni"),
        ("log", "/var/log"),
        ("cni-bin", "/opt/cni/bin"),
    ] {
        fs::create_dir_all(place)?;
        bind(&disk.join(kept), Path::new(place))?;
    }
    fs::create_dir_all("/run/netns")?;
    Ok(())
}

/// `/sys` shows the network of the namespace it was mounted in, so it has to be
/// mounted again; the control groups below it are carried over.
fn remount_sys() -> Result<()> {
    // Any existing directory below which nothing of ours is looked for will do.
    let aside = "/mnt";
    mount(
        Some("/sys/fs/cgroup"),
        aside,
        None::<&str>,
        MsFlags::MS_BIND | MsFlags::MS_REC,
        None::<&str>,
    )
    .context("cannot carry /sys/fs/cgroup over")?;
    mount_fresh("sysfs", "/sys")?;
    mount(
        Some(aside),
        "/sys/fs/cgroup",
        None::<&str>,
        MsFlags::MS_BIND | MsFlags::MS_REC,
        None::<&str>,
    )
    .context("cannot bring /sys/fs/cgroup back")?;
    nix::mount::umount2(aside, nix::mount::MntFlags::MNT_DETACH)
        .context("cannot release the carried control groups")?;
    Ok(())
}

fn hide_kernel_settings(directory: &Path) -> Result<()> {
    for (setting, value) in KUBELET_SYSCTLS {
        let real = Path::new("/proc/sys").join(setting);
        if !real.exists() {
            continue;
        }
        let own = directory.join(setting.replace('/', "."));
        fs::write(&own, value)?;
        bind(&own, &real)?;
    }
    Ok(())
}

fn mount_fresh(kind: &str, at: &str) -> Result<()> {
    mount(Some(kind), at, Some(kind), MsFlags::empty(), None::<&str>)
        .with_context(|| format!("cannot mount {kind} on {at}"))
}

fn bind(from: &Path, to: &Path) -> Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .with_context(|| format!("cannot bind {} to {}", from.display(), to.display()))
}
