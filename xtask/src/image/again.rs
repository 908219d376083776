//! The place of the second build: other folders, and another time.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use floe_testbed::progress::Step;

use super::{Check, Place};
use crate::workspace;

/// The folder of all of it.
const FOLDER: &str = "target/image-check";

/// What is no source.
const NOT_COPIED: [&str; 2] = ["target", ".git"];

/// What programs and crates of floe begin with, as cargo names files.
const OWN: [&str; 4] = ["floe-", "floe_", "libfloe-", "libfloe_"];

/// Where it is.
pub fn place() -> Place {
    let folder = workspace().join(FOLDER);
    Place {
        sources: folder.join("sources"),
        target: folder.join("target"),
    }
}

/// Copies the sources there, and of the first build what need not be built again.
pub fn prepared(what: Check) -> Result<Place> {
    let place = place();
    removed()?;
    Step::run("copying the sources", || {
        copy_sources(workspace(), &place.sources)
    })?;
    if what == Check::Own {
        Step::run("copying libraries of the first build", || {
            copy_libraries(&Place::usual().target, &place.target)
        })?;
    }
    Ok(place)
}

/// Takes all of it away.
pub fn removed() -> Result<()> {
    let folder = workspace().join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

fn copy_sources(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if NOT_COPIED.iter().any(|it| name == *it) {
            continue;
        }
        let copy = to.join(name);
        if entry.file_type()?.is_dir() {
            copy_sources(&path, &copy)?;
        } else {
            fs::copy(&path, &copy).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

/// Copies what cargo has built, with its times, by which cargo tells what is old; nothing
/// of floe's own stays in the copy.
fn copy_libraries(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let release = from.join("release");
    let copied = Command::new("cp")
        .args(["--archive", "--reflink=auto"])
        .args([&release, to])
        .status()
        .context("cannot run cp")?;
    ensure!(copied.success(), "cannot copy {}", release.display());
    let release = to.join("release");
    for folder in ["", ".fingerprint", "build", "deps"] {
        forget_own(&release.join(folder))?;
    }
    Ok(())
}

fn forget_own(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder);
    for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        if !OWN.iter().any(|it| name.starts_with(it)) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn sources_are_copied_without_what_was_made_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for file in ["Cargo.lock", "crates/a/src/main.rs", ".cargo/config.toml"] {
            write(&from.join(file));
        }
        for file in ["target/debug/a", "fuzz/target/b", ".git/HEAD"] {
            write(&from.join(file));
        }
        copy_sources(&from, &to).unwrap();
        for (file, there) in [
            ("Cargo.lock", true),
            ("crates/a/src/main.rs", true),
            (".cargo/config.toml", true),
            ("target", false),
            ("fuzz/target", false),
            (".git", false),
        ] {
            assert_eq!(to.join(file).exists(), there, "{file}");
        }
    }

    #[test]
    fn of_a_build_nothing_of_floe_s_own_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let own = [
            "floe-agent",
            "floe-agent.d",
            ".fingerprint/floe-core-0123/lib-floe_core",
            "build/floe-agent-0123/output",
            "deps/libfloe_core-0123.rlib",
            "deps/floe_agent-0123",
        ];
        let others = [
            ".fingerprint/serde-0123/lib-serde",
            "build/ring-0123/output",
            "deps/libserde-0123.rlib",
        ];
        for file in own.iter().chain(&others) {
            write(&from.join("release").join(file));
        }
        copy_libraries(&from, &to).unwrap();
        let release = to.join("release");
        assert!(own.iter().all(|file| !release.join(file).exists()));
        for file in others {
            let time = |root: &Path| {
                let data = fs::metadata(root.join("release").join(file)).unwrap();
                data.modified().unwrap()
            };
            assert_eq!(time(&to), time(&from), "{file}");
        }
    }
}
