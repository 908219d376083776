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

use crate::cache::cache_dir;
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
        let cached = cache_dir().join("kubernetes").join(VERSION);
        let mut found = BTreeMap::new();
        for program in Program::ALL {
            let kept = cached.join(program.name());
            if let Some(path) = installed(program) {
                found.insert(program, path);
            } else if kept.is_file() {
                found.insert(program, kept);
            }
        }
        let missing: Vec<_> = Program::ALL
            .into_iter()
            .filter(|program| !found.contains_key(program))
            .collect();
        if !missing.is_empty() {
            build(&missing, &cached)?;
            found.extend(missing.into_iter().map(|p| (p, cached.join(p.name()))));
        }
        Ok(Self(found))
    }

    /// The path of one program.
    pub fn path(&self, program: Program) -> &Path {
        &self.0[&program]
    }
}

/// A program of the pinned minor version that is already on the machine.
fn installed(program: Program) -> Option<PathBuf> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    assets
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

fn build(programs: &[Program], target: &Path) -> Result<()> {
    let go = Command::new("go").arg("version").output();
    if !go.is_ok_and(|output| output.status.success()) {
        bail!(
            "Kubernetes has to be built once, and that needs Go 1.24 or newer in PATH \
             (or set KUBEBUILDER_ASSETS to a directory with Kubernetes {VERSION} programs)"
        );
    }
    let partial = target.with_extension("partial");
    fs::create_dir_all(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
    let names: Vec<_> = programs.iter().map(|p| p.name()).collect();
    Step::run(
        format!(
            "building Kubernetes {VERSION} ({}): once per version, 7 to 15 minutes on two cores",
            names.join(", ")
        ),
        || compile(programs, &partial),
    )?;
    fs::create_dir_all(target)?;
    for name in names {
        fs::rename(partial.join(name), target.join(name))
            .with_context(|| format!("cannot keep {name} in {}", target.display()))?;
    }
    fs::remove_dir_all(&partial)?;
    Ok(())
}

fn compile(programs: &[Program], into: &Path) -> Result<()> {
    let version = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {version}.gitVersion={VERSION} -X {version}.gitMajor=1 -X {version}.gitMinor=34 \
         -X {version}.gitTreeState=clean"
    );
    let output = Command::new("go")
        .current_dir(MODULE)
        .env("CGO_ENABLED", "0")
        .args([
            "build",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
            &flags,
            "-o",
        ])
        .arg(into.join(""))
        .args(
            programs
                .iter()
                .map(|p| format!("k8s.io/kubernetes/cmd/{}", p.name())),
        )
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
}
