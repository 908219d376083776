//! The Kubernetes programs: found on the machine, or built once and cached.
//!
//! Nothing can be assumed to be installed, and release archives are not at hand
//! everywhere, but Kubernetes is a Go module. The small module in `kubernetes/`
//! beside this crate pins its version; what it builds is kept in the cache
//! directory under that version, outside of any build tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cache::{Lock, cache_dir, unfinished_in};
use crate::packages;
use crate::progress::Step;

/// The release that `kubernetes/go.mod` pins.
pub const VERSION: &str = "v1.34.4";

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kubernetes");

/// A program of the cluster that comes from the Kubernetes module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// `kube-apiserver`
    ApiServer,
    /// `kube-controller-manager`
    ControllerManager,
    /// `kube-scheduler`
    Scheduler,
    /// `kubelet`
    Kubelet,
    /// `kube-proxy`
    Proxy,
    /// `kubectl`
    Kubectl,
}

impl Program {
    const ALL: [Self; 6] = [
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kubelet,
        Self::Proxy,
        Self::Kubectl,
    ];

    /// The name of its executable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
            Self::Proxy => "kube-proxy",
            Self::Kubectl => "kubectl",
        }
    }
}

/// Where each program is.
#[derive(Clone, Debug)]
pub struct Programs(BTreeMap<Program, PathBuf>);

impl Programs {
    /// Finds all programs, building the ones that no directory offers.
    ///
    /// `KUBEBUILDER_ASSETS`, then `PATH`, then the cache are searched; a program
    /// fits when it is of the pinned minor version.
    pub fn ensure() -> Result<Self> {
        let cached = cached();
        let mut found = BTreeMap::new();
        let mut built = Vec::new();
        for program in Program::ALL {
            if let Some(path) = installed(program) {
                found.insert(program, path);
            } else {
                built.push(program);
            }
        }
        ensure_built(&built, &cached, compile)?;
        found.extend(built.into_iter().map(|p| (p, cached.join(p.name()))));
        Ok(Self(found))
    }

    /// Whether none of them would have to be built.
    pub fn are_there() -> bool {
        let is_there =
            |it: &Program| cached().join(it.name()).is_file() || installed(*it).is_some();
        Program::ALL.iter().all(is_there)
    }

    /// The path of one program.
    pub fn path(&self, program: Program) -> &Path {
        &self.0[&program]
    }
}

/// The folder with those that were built.
fn cached() -> PathBuf {
    cache_dir().join("kubernetes").join(VERSION)
}

/// An etcd that is already on the machine: `KUBEBUILDER_ASSETS`, then `PATH` are searched.
pub fn etcd() -> Option<PathBuf> {
    etcd_in(assets().as_deref())
}

fn etcd_in(assets: Option<&Path>) -> Option<PathBuf> {
    assets
        .map(|dir| dir.join("etcd"))
        .filter(|candidate| candidate.is_file())
        .or_else(|| packages::find("etcd"))
}

/// Where Kubernetes' own test tools put its programs, by an absolute path.
fn assets() -> Option<PathBuf> {
    let dir = std::env::var_os("KUBEBUILDER_ASSETS")?;
    // Fails for an empty one, which counts as unset.
    std::path::absolute(dir).ok()
}

/// A program of the pinned minor version that is already on the machine.
fn installed(program: Program) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    assets()
        .into_iter()
        .chain(std::env::split_paths(&path))
        .map(|dir| dir.join(program.name()))
        .find(|candidate| candidate.is_file() && fits(program, candidate))
}

fn fits(program: Program, candidate: &Path) -> bool {
    let arguments: &[&str] = match program {
        Program::Kubectl => &["version", "--client"],
        Program::ApiServer
        | Program::ControllerManager
        | Program::Scheduler
        | Program::Kubelet
        | Program::Proxy => &["--version"],
    };
    Command::new(candidate)
        .args(arguments)
        .output()
        .is_ok_and(|output| {
            minor_version(&String::from_utf8_lossy(&output.stdout)) == minor_version(VERSION)
        })
}

/// `1.34` from any text that names a version such as `v1.34.4`.
fn minor_version(text: &str) -> Option<String> {
    text.split(|c: char| c.is_whitespace() || c == ':')
        .filter_map(|word| word.strip_prefix('v'))
        .find_map(|version| {
            let mut numbers = version.split('.');
            let (major, minor) = (numbers.next()?, numbers.next()?);
            (major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok())
                .then(|| format!("{major}.{minor}"))
        })
}

/// Builds the programs that are not in `target` yet, one caller at a time.
fn ensure_built(
    programs: &[Program],
    target: &Path,
    compile: impl FnOnce(&[Program], &Path) -> Result<()>,
) -> Result<()> {
    let absent = || -> Vec<Program> {
        let absent = |program: &Program| !target.join(program.name()).is_file();
        programs.iter().copied().filter(absent).collect()
    };
    if absent().is_empty() {
        return Ok(());
    }
    let _lock = Lock::take("kubernetes").context("cannot lock the cache folder")?;
    // Somebody else may have built them while this call waited for the lock.
    let absent = absent();
    if absent.is_empty() {
        return Ok(());
    }
    build(&absent, target, compile)
}

/// Builds beside `target` and then moves, so that what is in there is whole.
fn build(
    programs: &[Program],
    target: &Path,
    compile: impl FnOnce(&[Program], &Path) -> Result<()>,
) -> Result<()> {
    let parent = target.parent().context("a cache lies in a directory")?;
    let new = unfinished_in(parent)
        .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
    compile(programs, new.path())?;
    fs::create_dir_all(target)?;
    for name in programs.iter().map(|program| program.name()) {
        fs::rename(new.path().join(name), target.join(name))
            .with_context(|| format!("cannot keep {name} in {}", target.display()))?;
    }
    Ok(())
}

fn compile(programs: &[Program], into: &Path) -> Result<()> {
    let go = Command::new("go").arg("version").output();
    if !go.is_ok_and(|output| output.status.success()) {
        bail!(
            "Kubernetes has to be built once, and that needs Go 1.24 or newer in PATH \
             (or set KUBEBUILDER_ASSETS to a directory with Kubernetes {VERSION} programs)"
        );
    }
    let names: Vec<_> = programs.iter().map(|p| p.name()).collect();
    let title = format!(
        "building Kubernetes {VERSION} ({}): once per version, 7 to 15 minutes on two cores",
        names.join(", ")
    );
    Step::run(title, || go_build(programs, into))
}

fn go_build(programs: &[Program], into: &Path) -> Result<()> {
    // Ends with the thread that waits for it here; an interrupt ends its compilers, too.
    let output = Command::new("setpriv")
        .args(["--pdeathsig", "INT", "--", "go", "build"])
        .args(["-trimpath", "-buildvcs=false"])
        .args(["-ldflags", &linker_flags(VERSION), "-o"])
        .arg(into.join(""))
        .args(
            programs
                .iter()
                .map(|p| format!("k8s.io/kubernetes/cmd/{}", p.name())),
        )
        .current_dir(MODULE)
        .env("CGO_ENABLED", "0")
        // Found and removed with the rest when the build is killed.
        .env("GOTMPDIR", into)
        .output()
        .context("cannot run go")?;
    if !output.status.success() {
        bail!(
            "go build of Kubernetes failed:\n{}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(())
}

/// Tells the programs their version, as a release build does.
fn linker_flags(version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next(), numbers.next());
    let set = |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
    [
        "-s -w".to_owned(),
        set("gitVersion", version),
        set("gitMajor", major.unwrap_or_default()),
        set("gitMinor", minor.unwrap_or_default()),
        set("gitTreeState", "clean"),
    ]
    .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minor_version_is_found_in_every_program_s_way_of_saying_it() {
        assert_eq!(
            minor_version("Kubernetes v1.34.4\n").as_deref(),
            Some("1.34")
        );
        let kubectl = "Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0\n";
        assert_eq!(minor_version(kubectl).as_deref(), Some("1.32"));
        assert_eq!(minor_version("no version here, only verbs"), None);
    }

    #[test]
    fn the_pinned_version_is_the_one_of_the_go_module() {
        let module = fs::read_to_string(Path::new(MODULE).join("go.mod")).unwrap();
        let pinned = module
            .lines()
            .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
        let version = pinned.and_then(|rest| rest.split_whitespace().next());
        assert_eq!(version, Some(VERSION));
    }
    #[test]
    fn programs_are_told_their_version() {
        let flags = linker_flags("v1.35.2");
        for flag in ["gitVersion=v1.35.2", "gitMajor=1", "gitMinor=35"] {
            let flag = format!(" -X k8s.io/component-base/version.{flag} ");
            assert!(flags.contains(&flag), "{flags}");
        }
    }

    #[test]
    fn only_what_is_absent_is_built_and_nothing_else_is_left() {
        let cache = tempfile::tempdir().unwrap();
        let target = cache.path().join("v1.34.4");
        let write = |programs: &[Program], into: &Path| {
            for program in programs {
                fs::write(into.join(program.name()), "new")?;
            }
            fs::write(into.join("by-product"), "")?;
            Ok(())
        };
        build(&[Program::Proxy], &target, write).unwrap();
        build(&[Program::Kubectl], &target, write).unwrap();
        let names = |dir: &Path| -> Vec<String> {
            let mut names: Vec<_> = fs::read_dir(dir)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(&target), ["kube-proxy", "kubectl"]);
        assert_eq!(names(cache.path()), ["v1.34.4"]);
        ensure_built(&[Program::Proxy, Program::Kubectl], &target, |_, _| {
            bail!("nothing is absent")
        })
        .unwrap();
    }

    #[test]
    fn a_build_that_fails_leaves_what_was_there() {
        let cache = tempfile::tempdir().unwrap();
        let target = cache.path().join("v1.34.4");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("kubectl"), "old").unwrap();
        let fail = |_: &[Program], into: &Path| {
            fs::write(into.join("kube-proxy"), "half")?;
            bail!("no disk left")
        };
        build(&[Program::Proxy], &target, fail).unwrap_err();
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
    }

    #[test]
    fn an_etcd_beside_the_kubernetes_programs_comes_first() {
        let assets = tempfile::tempdir().unwrap();
        assert_eq!(etcd_in(Some(assets.path())), packages::find("etcd"));
        let etcd = assets.path().join("etcd");
        fs::write(&etcd, "").unwrap();
        assert_eq!(etcd_in(Some(assets.path())), Some(etcd));
    }
}
