//! Programs from `PyPI`, each in an environment of its own in the cache folder.
//!
//! A list of requirements pins a program and all that it needs by hashes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cache::{Lock, cache_dir, unfinished_in};
use crate::command;
use crate::packages::{self, Need};
use crate::progress::Step;

/// The list of what is installed, in the environment.
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

/// A program from `PyPI`.
pub struct Tool {
    /// Its name there.
    pub name: &'static str,
    /// The version that the requirements pin.
    pub version: &'static str,
    /// All packages with their versions and hashes.
    pub requirements: &'static str,
    /// Some of them come as sources only.
    pub builds: bool,
}

impl Tool {
    /// The folder of the environment, which is made if the cache has none of these
    /// requirements. Programs in it are started by `bin/python`: their first lines name a
    /// folder that was renamed since.
    pub fn ensure(&self) -> Result<PathBuf> {
        self.ensure_in(&cache_dir().join(self.name), |into| self.install(into))
    }

    fn ensure_in(
        &self,
        parent: &Path,
        install: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let target = parent.join(self.version);
        // Written last, so what was begun and not ended is never taken for complete.
        let is_there = || {
            let installed = fs::read_to_string(target.join(FILE));
            installed.is_ok_and(|installed| installed == self.requirements)
        };
        if is_there() {
            return Ok(target);
        }
        let _lock = Lock::take(self.name).context("cannot lock the cache folder")?;
        // Somebody else may have installed it while this call waited for the lock.
        if is_there() {
            return Ok(target);
        }
        let new = unfinished_in(parent)
            .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
        install(new.path())?;
        fs::write(new.path().join(FILE), self.requirements)?;
        if target.exists() {
            fs::remove_dir_all(&target)?;
        }
        fs::rename(new.path(), &target)
            .with_context(|| format!("cannot keep {} in {}", self.name, target.display()))?;
        // It has another name by now, so there is nothing to remove.
        let _ = new.keep();
        Ok(target)
    }

    fn install(&self, into: &Path) -> Result<()> {
        let python = self.python()?;
        let (name, version) = (self.name, self.version);
        Step::run(
            format!("installing {name} {version} from PyPI: once per version"),
            || {
                let requirements = into.join("wanted.txt");
                command::read(Command::new(python).args(["-m", "venv"]).arg(into))?;
                fs::write(&requirements, self.requirements)?;
                // Ends with the thread that waits for it here.
                let mut pip = Command::new("setpriv");
                pip.args(["--pdeathsig", "TERM", "--"])
                    .arg(into.join("bin/python"))
                    .args(["-m", "pip", "install", "--quiet", "--no-deps"])
                    .args(["--require-hashes", "--requirement"])
                    .arg(requirements);
                if !self.builds {
                    pip.args(["--only-binary", ":all:"]);
                }
                command::read(&mut pip)?;
                Ok(())
            },
        )
    }

    /// A Python that can make environments and is new enough.
    fn python(&self) -> Result<PathBuf> {
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
            None => bail!(
                "{} needs Python 3.11 or newer, with the module venv",
                self.name
            ),
        }
    }

    /// Fails unless the requirements have this version, and hashes for everything.
    #[cfg(test)]
    pub(crate) fn assert_pinned(&self) {
        let packages: Vec<&str> = self
            .requirements
            .lines()
            .filter(|line| !line.starts_with([' ', '#']))
            .collect();
        let own = format!("{}=={} \\", self.name, self.version);
        assert!(packages.contains(&own.as_str()), "{packages:?}");
        for package in packages {
            let (_, after) = self.requirements.split_once(package).unwrap();
            assert!(after.starts_with("\n    --hash=sha256:"), "{package}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_installed_once_and_again_for_other_requirements() {
        const TOOL: Tool = Tool {
            name: "tool",
            version: "1.2.3",
            requirements: "tool==1.2.3",
            builds: false,
        };
        let cache = tempfile::tempdir().unwrap();
        let fail = |into: &Path| {
            fs::write(into.join("half"), "")?;
            bail!("no network")
        };
        TOOL.ensure_in(cache.path(), fail).unwrap_err();
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
        let write = |text: &'static str| {
            move |into: &Path| -> Result<()> { Ok(fs::write(into.join("program"), text)?) }
        };
        let program = || {
            let folder = cache.path().join(TOOL.version);
            fs::read_to_string(folder.join("program")).unwrap()
        };
        let installed = TOOL.ensure_in(cache.path(), write("first")).unwrap();
        assert_eq!(program(), "first");
        TOOL.ensure_in(cache.path(), |_| bail!("it is there"))
            .unwrap();
        fs::write(installed.join(FILE), "others").unwrap();
        TOOL.ensure_in(cache.path(), write("second")).unwrap();
        assert_eq!(program(), "second");
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
    }
}
