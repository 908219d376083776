//! Schemathesis, which asks a server everything that its API document allows and
//! forbids, and compares the answers with it.
//!
//! `schemathesis/requirements.txt` beside this crate pins it and all that it needs by
//! hashes. It is installed once, into an environment of its own in the cache folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cache::{Lock, cache_dir, unfinished_in};
use crate::command;
use crate::host::{HostRef, Inside};
use crate::packages::{self, Need};
use crate::progress::Step;

/// The version that the requirements pin.
pub const VERSION: &str = "4.32.5";

const NAME: &str = "schemathesis";
const REQUIREMENTS: &str = include_str!("../schemathesis/requirements.txt");
const FILE: &str = "requirements.txt";

const PYTHON: Need = Need {
    program: "python3",
    package: "python3",
};

/// Debian has what makes environments in a package of its own, without a program.
const ENVIRONMENTS: Need = Need {
    program: "/usr/share/doc/python3-venv",
    package: "python3-venv",
};

/// Binds a file over the names of hosts, for the rest of the command line alone.
const WITH_HOSTS: &str = r#"mount --bind "$1" /etc/hosts; shift; exec "$@""#;

/// Gets it, if it is not there.
pub fn prepare() -> Result<()> {
    ensure().map(drop)
}

/// A command in the network of a host, which knows hosts by the names that the file
/// `hosts` gives them. It runs in `folder`, where it may leave things, and is ended
/// after `limit`.
pub fn command(host: &HostRef, hosts: &Path, folder: &Path, limit: Duration) -> Result<Command> {
    let environment = ensure()?;
    let mut command = host.command(Inside::Network, "timeout");
    command
        .arg(limit.as_secs().to_string())
        .args(["unshare", "--mount", "--", "sh", "-euc", WITH_HOSTS, "sh"])
        .arg(hosts)
        // By the interpreter: the first line of the program names a folder that was
        // renamed since.
        .arg(environment.join("bin/python"))
        .arg(environment.join("bin").join(NAME))
        .current_dir(folder)
        .env("HOME", folder)
        // Nothing of what it asks may leave the testbed.
        .env("NO_PROXY", "*")
        .env("no_proxy", "*");
    Ok(command)
}

/// The folder of the environment, which is made if the cache has none of these
/// requirements.
fn ensure() -> Result<PathBuf> {
    ensure_in(&cache_dir().join(NAME), install)
}

fn ensure_in(parent: &Path, install: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let target = parent.join(VERSION);
    // Written last, so what was begun and not ended is never taken for complete.
    let is_there = || {
        let installed = fs::read_to_string(target.join(FILE));
        installed.is_ok_and(|installed| installed == REQUIREMENTS)
    };
    if is_there() {
        return Ok(target);
    }
    let _lock = Lock::take(NAME).context("cannot lock the cache folder")?;
    // Somebody else may have installed it while this call waited for the lock.
    if is_there() {
        return Ok(target);
    }
    let new = unfinished_in(parent)
        .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
    install(new.path())?;
    fs::write(new.path().join(FILE), REQUIREMENTS)?;
    if target.exists() {
        fs::remove_dir_all(&target)?;
    }
    fs::rename(new.path(), &target)
        .with_context(|| format!("cannot keep {NAME} in {}", target.display()))?;
    // It has another name by now, so there is nothing to remove.
    let _ = new.keep();
    Ok(target)
}

fn install(into: &Path) -> Result<()> {
    let python = python()?;
    Step::run(
        format!("installing {NAME} {VERSION} from PyPI: once per version"),
        || {
            let requirements = into.join("wanted.txt");
            command::read(Command::new(python).args(["-m", "venv"]).arg(into))?;
            fs::write(&requirements, REQUIREMENTS)?;
            // Ends with the thread that waits for it here.
            let mut pip = Command::new("setpriv");
            pip.args(["--pdeathsig", "TERM", "--"])
                .arg(into.join("bin/python"))
                .args(["-m", "pip", "install", "--quiet", "--no-deps"])
                .args([
                    "--require-hashes",
                    "--only-binary",
                    ":all:",
                    "--requirement",
                ])
                .arg(requirements);
            command::read(&mut pip)?;
            Ok(())
        },
    )
}

/// A Python that can make environments and is new enough.
fn python() -> Result<PathBuf> {
    const TRIAL: &str = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))";
    packages::ensure(&[PYTHON])?;
    let usable = || {
        let python = packages::find(PYTHON.program)?;
        let tried = command::read(Command::new(&python).args(["-c", TRIAL]));
        tried.is_ok().then_some(python)
    };
    if let Some(python) = usable() {
        return Ok(python);
    }
    packages::ensure(&[ENVIRONMENTS])?;
    match usable() {
        Some(python) => Ok(python),
        None => bail!("{NAME} needs Python 3.11 or newer, with the module venv"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_pinned_one_and_everything_is_pinned_by_hashes() {
        let packages: Vec<&str> = REQUIREMENTS
            .lines()
            .filter(|line| !line.starts_with([' ', '#']))
            .collect();
        let own = format!("{NAME}=={VERSION} \\");
        assert!(packages.contains(&own.as_str()), "{packages:?}");
        for package in packages {
            let (_, after) = REQUIREMENTS.split_once(package).unwrap();
            assert!(after.starts_with("\n    --hash=sha256:"), "{package}");
        }
    }

    #[test]
    fn it_is_installed_once_and_again_for_other_requirements() {
        let cache = tempfile::tempdir().unwrap();
        let fail = |into: &Path| {
            fs::write(into.join("half"), "")?;
            bail!("no network")
        };
        ensure_in(cache.path(), fail).unwrap_err();
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
        let write = |text: &'static str| {
            move |into: &Path| -> Result<()> { Ok(fs::write(into.join("program"), text)?) }
        };
        let program = || fs::read_to_string(cache.path().join(VERSION).join("program")).unwrap();
        let installed = ensure_in(cache.path(), write("first")).unwrap();
        assert_eq!(program(), "first");
        ensure_in(cache.path(), |_| bail!("it is there")).unwrap();
        fs::write(installed.join(FILE), "others").unwrap();
        ensure_in(cache.path(), write("second")).unwrap();
        assert_eq!(program(), "second");
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
    }
}
