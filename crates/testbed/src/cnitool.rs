//! The CNI project's own tool, built once and cached, and the plugins that go with it.
//!
//! It calls plugins through the library that container runtimes use, and it sends
//! CHECK, STATUS and GC too, which Debian's containerd never does. The small module in
//! `cnitool/` beside this crate pins its version, as the one in `kubernetes/` does for
//! Kubernetes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cache::{Lock, cache_dir, unfinished_in};
use crate::packages::{self, Need};
use crate::progress::Step;

/// The release that `cnitool/go.mod` pins.
pub const VERSION: &str = "v1.3.0";

/// Where Debian puts the reference plugins.
pub const REFERENCE_PLUGINS: &str = "/usr/lib/cni";

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cnitool");
const PACKAGE: &str = "github.com/containernetworking/cni/cnitool";
const NAME: &str = "cnitool";

/// A reference plugin that changes what another one made.
const TUNING: Need = Need {
    program: "/usr/lib/cni/tuning",
    package: "containernetworking-plugins",
};

/// Gets the tool and the reference plugins that tests chain with floe's.
pub fn prepare() -> Result<()> {
    packages::ensure(&[TUNING])?;
    ensure().map(drop)
}

/// The path of the tool, which is built if the cache has none of this version.
pub fn ensure() -> Result<PathBuf> {
    ensure_in(&cache_dir().join(NAME), compile)
}

fn ensure_in(parent: &Path, compile: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let target = parent.join(VERSION);
    let program = target.join(NAME);
    if program.is_file() {
        return Ok(program);
    }
    let _lock = Lock::take(NAME).context("cannot lock the cache folder")?;
    // Somebody else may have built it while this call waited for the lock.
    if program.is_file() {
        return Ok(program);
    }
    let new = unfinished_in(parent)
        .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
    compile(new.path())?;
    fs::create_dir_all(&target)?;
    fs::rename(new.path().join(NAME), &program)
        .with_context(|| format!("cannot keep {NAME} in {}", target.display()))?;
    Ok(program)
}

fn compile(into: &Path) -> Result<()> {
    let go = Command::new("go").arg("version").output();
    if !go.is_ok_and(|output| output.status.success()) {
        bail!("{NAME} has to be built once, and that needs Go 1.24 or newer in PATH");
    }
    Step::run(
        format!("building {NAME} {VERSION}: once per version"),
        || go_build(into),
    )
}

fn go_build(into: &Path) -> Result<()> {
    // Ends with the thread that waits for it here; an interrupt ends its compilers, too.
    let output = Command::new("setpriv")
        .args(["--pdeathsig", "INT", "--", "go", "build"])
        .args(["-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o"])
        .arg(into.join(""))
        .arg(PACKAGE)
        .current_dir(MODULE)
        .env("CGO_ENABLED", "0")
        // Found and removed with the rest when the build is killed.
        .env("GOTMPDIR", into)
        .output()
        .context("cannot run go")?;
    if !output.status.success() {
        bail!(
            "go build of {NAME} failed:\n{}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_version_is_the_one_of_the_go_module() {
        let module = fs::read_to_string(Path::new(MODULE).join("go.mod")).unwrap();
        let pinned = module
            .lines()
            .find_map(|line| line.strip_prefix("require github.com/containernetworking/cni "));
        let version = pinned.and_then(|rest| rest.split_whitespace().next());
        assert_eq!(version, Some(VERSION));
    }

    #[test]
    fn it_is_built_once_and_a_build_that_fails_leaves_nothing() {
        let cache = tempfile::tempdir().unwrap();
        let fail = |into: &Path| {
            fs::write(into.join("half"), "")?;
            bail!("no disk left")
        };
        ensure_in(cache.path(), fail).unwrap_err();
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
        let write = |into: &Path| Ok(fs::write(into.join(NAME), "new")?);
        let built = ensure_in(cache.path(), write).unwrap();
        assert_eq!(fs::read_to_string(&built).unwrap(), "new");
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
        let again = ensure_in(cache.path(), |_| bail!("it is there")).unwrap();
        assert_eq!(again, built);
    }

    #[test]
    fn the_reference_plugins_are_where_tests_look_for_them() {
        assert_eq!(
            Path::new(TUNING.program).parent(),
            Some(Path::new(REFERENCE_PLUGINS))
        );
    }
}
