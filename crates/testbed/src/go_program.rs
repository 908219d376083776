//! A program that is built once from its published Go module, and cached.
//!
//! A small module beside this crate pins its version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cache::{Lock, cache_dir, unfinished_in};
use crate::progress::Step;

/// Which program, and how it is built.
pub(crate) struct GoProgram {
    /// The name of program, cache folder and lock.
    pub name: &'static str,
    /// The release that `go.mod` pins.
    pub version: &'static str,
    /// The folder of `go.mod`.
    pub module: &'static str,
    /// The package that is the program.
    pub package: &'static str,
    /// Further flags of the linker, which tell the program its version.
    pub flags: &'static str,
}

impl GoProgram {
    /// The path of the program, which is built if the cache has none of this version.
    pub(crate) fn ensure(&self) -> Result<PathBuf> {
        self.ensure_in(&cache_dir().join(self.name), |into| self.compile(into))
    }

    fn ensure_in(
        &self,
        parent: &Path,
        compile: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let target = parent.join(self.version);
        let program = target.join(self.name);
        if program.is_file() {
            return Ok(program);
        }
        let _lock = Lock::take(self.name).context("cannot lock the cache folder")?;
        // Somebody else may have built it while this call waited for the lock.
        if program.is_file() {
            return Ok(program);
        }
        let new = unfinished_in(parent)
            .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
        compile(new.path())?;
        fs::create_dir_all(&target)?;
        fs::rename(new.path().join(self.name), &program)
            .with_context(|| format!("cannot keep {} in {}", self.name, target.display()))?;
        Ok(program)
    }

    fn compile(&self, into: &Path) -> Result<()> {
        let (name, version) = (self.name, self.version);
        let go = Command::new("go").arg("version").output();
        if !go.is_ok_and(|output| output.status.success()) {
            bail!("{name} has to be built once, and that needs Go 1.24 or newer in PATH");
        }
        Step::run(
            format!("building {name} {version}: once per version"),
            || self.go_build(into),
        )
    }

    fn go_build(&self, into: &Path) -> Result<()> {
        // Ends with the thread that waits for it here; an interrupt ends its compilers, too.
        let output = Command::new("setpriv")
            .args(["--pdeathsig", "INT", "--", "go", "build"])
            .args(["-trimpath", "-buildvcs=false", "-ldflags"])
            .arg(format!("-s -w {}", self.flags))
            .arg("-o")
            .arg(into.join(""))
            .arg(self.package)
            .current_dir(self.module)
            .env("CGO_ENABLED", "0")
            // Found and removed with the rest when the build is killed.
            .env("GOTMPDIR", into)
            .output()
            .context("cannot run go")?;
        if !output.status.success() {
            bail!(
                "go build of {} failed:\n{}",
                self.name,
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }
        Ok(())
    }
}

/// The release of a module that the `go.mod` in a folder pins.
#[cfg(test)]
pub(crate) fn pinned(folder: &str, module: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(folder).join("go.mod")).ok()?;
    let lines = text
        .lines()
        .map(|line| line.trim().trim_start_matches("require "));
    let version = lines.filter_map(|line| line.strip_prefix(module)?.strip_prefix(' '));
    let mut versions = version.filter_map(|rest| rest.split_whitespace().next());
    versions.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: GoProgram = GoProgram {
        name: "tool",
        version: "v1",
        module: "",
        package: "",
        flags: "",
    };

    #[test]
    fn it_is_built_once_and_a_build_that_fails_leaves_nothing() {
        let cache = tempfile::tempdir().unwrap();
        let fail = |into: &Path| {
            fs::write(into.join("half"), "")?;
            bail!("no disk left")
        };
        PROGRAM.ensure_in(cache.path(), fail).unwrap_err();
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
        let write = |into: &Path| Ok(fs::write(into.join("tool"), "new")?);
        let built = PROGRAM.ensure_in(cache.path(), write).unwrap();
        assert_eq!(fs::read_to_string(&built).unwrap(), "new");
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
        let again = PROGRAM.ensure_in(cache.path(), |_| bail!("it is there"));
        assert_eq!(again.unwrap(), built);
    }
}
