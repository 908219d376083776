//! The reference: keepalived as Debian ships it, with its defaults, on two plain hosts.
//!
//! Each round has a lab of its own, because a host that was switched off does not come
//! back there.

use std::{
    fs,
    net::Ipv4Addr,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use floe_testbed::{
    host::{HostRef, Inside},
    lab::{self, Lab},
    packages::{self, Need},
};

use super::{
    history::Outage,
    prober::{Prober, SPACING},
};

const NEEDS: &[Need] = &[Need {
    program: "keepalived",
    package: "keepalived",
}];
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 100);
const MASTER: &str = "master";
const BACKUP: &str = "backup";
const CLIENT: &str = "client";
/// It only ends what hangs.
const LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
/// How long all packets must be answered before something is done, and afterwards.
const STEADY: Duration = Duration::from_secs(1);

/// How the master goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its host is switched off.
    PowerOff,
    /// It is told to end, and says goodbye.
    Stopped,
}

/// What several rounds of each kind cost.
#[derive(Default)]
pub struct Reference {
    /// The master's host was switched off.
    pub power_off: Vec<Outage>,
    /// The master was told to end.
    pub stopped: Vec<Outage>,
}

/// Measures; needs root. A lab dies with the thread that made it, and so does what is
/// measured here.
pub fn measure(rounds: usize) -> Result<Reference> {
    packages::ensure(NEEDS)?;
    lab::prepare()?;
    let mut all = Reference::default();
    for _ in 0..rounds {
        all.power_off.push(round(Loss::PowerOff)?);
        all.stopped.push(round(Loss::Stopped)?);
    }
    Ok(all)
}

fn round(loss: Loss) -> Result<Outage> {
    let folder = tempfile::tempdir()?;
    let mut lab = Lab::new(&[MASTER, BACKUP, CLIENT])?;
    // The higher one is the master. Neither has another setting that is not necessary.
    let _backup = Daemon::start(lab.host(BACKUP)?, folder.path(), 100)?;
    let master = Daemon::start(lab.host(MASTER)?, folder.path(), 150)?;
    until("the master has the address", || has(lab.host(MASTER)?))?;
    until("the backup has not", || Ok(!has(lab.host(BACKUP)?)?))?;
    let prober = Prober::start(lab.host(CLIENT)?, vec![ADDRESS], SPACING)?;
    until("the address answers", || Ok(prober.is_steady(STEADY)))?;

    let from = prober.at(Instant::now());
    match loss {
        Loss::PowerOff => lab.power_off(MASTER)?,
        Loss::Stopped => master.stop(lab.host(MASTER)?)?,
    }
    until("the backup has the address", || has(lab.host(BACKUP)?))?;
    until("the address answers again", || Ok(prober.is_steady(STEADY)))?;
    let histories = prober.stop();
    let history = histories.first().context("there is one target")?;
    history
        .outage(from)
        .context("the address fell silent again")
}

/// Whether a host has the address.
fn has(host: &HostRef) -> Result<bool> {
    let listed = host.network_script("ip -o -4 addr show dev eth0")?;
    Ok(listed.contains(&format!("{ADDRESS}/")))
}

/// A keepalived on a host; it ends with this value, or with the host.
struct Daemon(Child);

impl Daemon {
    fn start(host: &HostRef, folder: &Path, priority: u8) -> Result<Self> {
        // Hosts share the machine's files; what it writes there is its own.
        host.shell("mount -t tmpfs tmpfs /run")?;
        let file = folder.join(format!("{}.conf", host.name));
        fs::write(&file, configuration(priority))?;
        let log = fs::File::create(folder.join(format!("{}.log", host.name)))?;
        let daemon = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "nsenter"])
            .args(host.nsenter_arguments(Inside::Host))
            .arg("keepalived")
            .args(["--dont-fork", "--log-console", "--vrrp", "--use-file"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start keepalived")?;
        Ok(Self(daemon))
    }

    /// Tells it to end, and waits until it has.
    fn stop(mut self, host: &HostRef) -> Result<()> {
        host.shell("kill -TERM \"$(cat /run/keepalived.pid)\"")?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The daemon itself ends with its host; this is the way into it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn configuration(priority: u8) -> String {
    format!(
        "vrrp_instance bench {{
    interface eth0
    virtual_router_id 51
    priority {priority}
    virtual_ipaddress {{
        {ADDRESS}/24
    }}
}}
"
    )
}

fn until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    while !holds()? {
        if Instant::now() > deadline {
            bail!("waited {} s in vain until {what}", LIMIT.as_secs());
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_no_setting_but_the_necessary_ones() {
        let text = configuration(150);
        assert!(text.contains("priority 150\n"));
        assert!(text.contains("        10.9.0.100/24\n"));
        // Intervals, preemption and announcements are keepalived's own.
        for setting in ["advert_int", "garp", "preempt", "version", "state"] {
            assert!(!text.contains(setting), "{setting}");
        }
    }
}
