//! QEMU: a version with SR-IOV cards, and whether it may use the CPU's virtualisation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Error;
use crate::packages::{self, Apt, Need};

const QEMU: Need = Need {
    program: "qemu-system-x86_64",
    package: "qemu-system-x86",
};
/// The first version with the device `igb`.
const MINIMUM: (u32, &str) = (8, "8.0");

/// The path of a QEMU that has SR-IOV cards, installed if need be.
pub(super) fn ensure() -> Result<PathBuf, Error> {
    if let Some(qemu) = installed() {
        return Ok(qemu);
    }
    let apt = Apt::open(&[&QEMU])?;
    if let Some(qemu) = installed() {
        return Ok(qemu);
    }
    eprintln!(
        "The guest kernel needs QEMU {} or newer. Debian package to be installed: {}.",
        MINIMUM.1, QEMU.package
    );
    apt.update()?;
    let offered = Apt::cache(&["policy", QEMU.package])?;
    let release = match candidate_major(&offered) {
        Some(major) if major >= MINIMUM.0 => None,
        _ => Some(packages::enable_backports(&apt, QEMU.package, MINIMUM.1)?),
    };
    apt.install(&[QEMU.package], release.as_deref())?;
    installed().ok_or(Error::NoIgb)
}

/// A QEMU process that is killed when the thread that starts it ends.
pub(super) fn command(qemu: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(qemu)
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Whether KVM can really be used.
///
/// The device file alone proves nothing: it exists and opens on machines whose
/// CPU has no virtualisation, and an ordinary kernel hangs there.
pub(super) fn kvm_works() -> bool {
    let writable = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_ok();
    writable && fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| virtualises(&text))
}

fn installed() -> Option<PathBuf> {
    let qemu = packages::find(QEMU.program)?;
    let status = Command::new(&qemu)
        .args(["-device", "igb,help"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success()).then_some(qemu)
}

/// The major version that apt would install, from `apt-cache policy`.
fn candidate_major(policy: &str) -> Option<u32> {
    let version = policy
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate:"))?
        .trim();
    let upstream = version
        .split_once(':')
        .map_or(version, |(_epoch, rest)| rest);
    upstream.split(['.', '+', '-']).next()?.parse().ok()
}

fn virtualises(cpuinfo: &str) -> bool {
    cpuinfo
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| {
            line.split_whitespace()
                .any(|flag| flag == "vmx" || flag == "svm")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offered_version_is_read() {
        let policy =
            |version: &str| format!("qemu:\n  Installed: (none)\n  Candidate: {version}\n");
        assert_eq!(candidate_major(&policy("1:7.2+dfsg-7+deb12u18")), Some(7));
        assert_eq!(candidate_major(&policy("1:10.0.2+ds-2")), Some(10));
        assert_eq!(candidate_major(&policy("8.2-1")), Some(8));
        assert_eq!(candidate_major(&policy("(none)")), None);
        assert_eq!(candidate_major(""), None);
    }

    #[test]
    fn only_whole_flags_of_the_cpu_count() {
        assert!(virtualises("model name : x\nflags\t\t: fpu vmx sse\n"));
        assert!(virtualises("flags : svm\n"));
        assert!(!virtualises(
            "flags : fpu vmx_like svml\nvmx flags : vnmi\n"
        ));
        assert!(!virtualises("model name : svm\n"));
    }

    #[test]
    fn qemu_dies_with_its_parent() {
        let command = command(Path::new("/usr/bin/qemu"), &["-x".to_owned()]);
        assert_eq!(
            crate::command::line(&command),
            "setpriv --pdeathsig KILL -- /usr/bin/qemu -x"
        );
    }
}
