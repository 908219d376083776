//! What of the workspace is built for a run, as arguments for cargo.
//!
//! Packages are never selected, only their targets: features are resolved for the whole workspace
//! every time, so that no dependency is compiled twice.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use tokio::process::Command;

use crate::child::{Children, Output};
use crate::{tools, workspace};

/// The package with the tests on real parts.
const REAL_PARTS: &str = "floe-tests";

/// Its program is built and started by `cargo xtask bench` alone.
const BENCHMARKS: &str = "floe-bench";

/// What the jobs of a run start.
#[derive(Debug, PartialEq, Eq)]
pub enum Scope {
    /// All test programs, and all programs that they start.
    Everything,
    /// The unit tests, and the integration tests of each package but the one with tests on real
    /// parts.
    Unit,
    /// These targets of the package with tests on real parts, and all programs that they start.
    RealParts(Vec<&'static str>),
}

/// The packages of the workspace with their targets.
#[derive(Deserialize)]
pub struct Packages {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Packages {
    /// Asks cargo.
    pub async fn load(children: &Children) -> Result<Self> {
        let mut command = Command::from(tools::cargo());
        command
            .args(["metadata", "--no-deps", "--format-version=1"])
            .current_dir(workspace());
        let finished = children.run(command, Output::Kept).await?;
        let status = finished.status;
        ensure!(status.success(), "cargo metadata failed: {status}");
        Self::parse(&finished.stdout)
    }

    fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).context("cannot read the output of cargo metadata")
    }

    /// Arguments of this form for all targets of a kind, without those of one package.
    fn all_but(&self, package: &str, kind: &str) -> Vec<String> {
        let packages = self.packages.iter().filter(|it| it.name != package);
        let targets = packages.flat_map(|it| &it.targets);
        let of_kind = targets.filter(|it| it.kind.iter().any(|it| it == kind));
        let mut arguments: Vec<String> =
            of_kind.map(|it| format!("--{kind}={}", it.name)).collect();
        arguments.sort_unstable();
        arguments.dedup();
        arguments
    }
}

impl Scope {
    /// The subcommand of cargo and what follows it.
    pub fn arguments(&self, packages: &Packages) -> Vec<String> {
        let programs = || packages.all_but(BENCHMARKS, "bin");
        let (fixed, chosen): (&[&str], Vec<String>) = match self {
            Self::Everything => (
                &["build", "--workspace", "--tests", "--examples"],
                programs(),
            ),
            // With `build`, `--lib` and `--bins` mean the products and not their tests.
            Self::Unit => (
                &["test", "--no-run", "--workspace", "--lib", "--bins"],
                packages.all_but(REAL_PARTS, "test"),
            ),
            Self::RealParts(targets) => {
                let tests = targets.iter().map(|it| format!("--test={it}"));
                (
                    &["build", "--workspace", "--examples"],
                    programs().into_iter().chain(tests).collect(),
                )
            }
        };
        let fixed = fixed.iter().map(|it| (*it).to_owned());
        fixed.chain(chosen).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(scope: &Scope) -> String {
        let packages = br#"{"packages": [
            {"name": "core", "targets": [{"name": "core", "kind": ["lib"]}, {"name": "corpus", "kind": ["test"]}]},
            {"name": "net", "targets": [{"name": "net", "kind": ["lib"]}, {"name": "corpus", "kind": ["test"]}]},
            {"name": "agent", "targets": [{"name": "agent", "kind": ["bin"]}, {"name": "build-script-build", "kind": ["custom-build"]}]},
            {"name": "floe-bench", "targets": [{"name": "floe-bench", "kind": ["bin"]}]},
            {"name": "floe-tests", "targets": [{"name": "cluster", "kind": ["test"]}, {"name": "guest", "kind": ["test"]}]}
        ]}"#;
        let packages = Packages::parse(packages).unwrap();
        scope.arguments(&packages).join(" ")
    }

    #[test]
    fn a_whole_run_builds_all_but_the_benchmarks_themselves() {
        assert_eq!(
            arguments(&Scope::Everything),
            "build --workspace --tests --examples --bin=agent"
        );
    }

    #[test]
    fn unit_tests_are_built_without_tests_on_real_parts() {
        assert_eq!(
            arguments(&Scope::Unit),
            "test --no-run --workspace --lib --bins --test=corpus"
        );
    }

    #[test]
    fn tests_on_real_parts_are_built_with_the_programs_they_start() {
        assert_eq!(
            arguments(&Scope::RealParts(vec!["guest"])),
            "build --workspace --examples --bin=agent --test=guest"
        );
    }
}
