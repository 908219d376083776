//! The test programs: built once, then started directly.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use tokio::process::Command;

use super::Settings;
use super::libtest;
use super::report::Tally;
use super::run::Context;
use super::scope::{Packages, Scope};
use crate::child::{Children, Output};
use crate::{tools, workspace};

/// A test program.
#[derive(Debug, PartialEq, Eq)]
pub struct Binary {
    /// Name of the target; its file without extension for integration tests.
    pub target: String,
    /// An integration test, as opposed to the unit tests of a lib or bin.
    pub integration: bool,
    /// The folder of its package, from which it is run.
    pub folder: PathBuf,
    pub executable: PathBuf,
}

/// Builds what a run needs and returns its test programs; none when they do not compile, which the
/// compiler explains on standard error.
pub async fn run(children: &Children, scope: &Scope) -> Result<Option<Vec<Binary>>> {
    let packages = Packages::load(children).await?;
    let mut command = Command::from(tools::cargo());
    command
        .args(scope.arguments(&packages))
        .arg("--message-format=json-render-diagnostics")
        .current_dir(workspace());
    let finished = children.run(command, Output::Kept).await?;
    if !finished.status.success() {
        return Ok(None);
    }
    parse(&String::from_utf8_lossy(&finished.stdout)).map(Some)
}

/// How many cases a property test makes in a nightly run.
const NIGHTLY_CASES: &str = "20000";

impl Binary {
    /// A name to show to people: the package's folder and the target.
    pub fn title(&self) -> String {
        let folder = self
            .folder
            .strip_prefix(workspace())
            .unwrap_or(&self.folder);
        format!("{} ({})", folder.display(), self.target)
    }

    /// The names of its tests that run anywhere, in the order in which they run.
    pub async fn ordinary(&self, context: &Context) -> Result<Vec<String>> {
        let filter = context.settings.filter.as_deref();
        let mut names = self.list(context, false, filter).await?;
        let ignored = self.ignored(context, filter).await?;
        names.retain(|it| !ignored.contains(it));
        Ok(names)
    }

    /// The names of its tests that are marked `#[ignore]` because they need real parts.
    pub async fn ignored(&self, context: &Context, filter: Option<&str>) -> Result<Vec<String>> {
        self.list(context, true, filter).await
    }

    async fn list(
        &self,
        context: &Context,
        is_ignored: bool,
        filter: Option<&str>,
    ) -> Result<Vec<String>> {
        let arguments = libtest::list_arguments(is_ignored, filter);
        let command = self.command(&context.settings, &arguments);
        let finished = context.children.run(command, Output::Kept).await?;
        let title = self.title();
        ensure!(finished.status.success(), "{title} cannot list its tests");
        let output = String::from_utf8_lossy(&finished.stdout);
        Ok(libtest::listed(&output))
    }

    /// Its call with these arguments, as cargo starts it.
    pub fn command(&self, settings: &Settings, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .args(arguments)
            .current_dir(&self.folder)
            .envs(self.environment(settings));
        command
    }

    /// What it finds in its environment besides what is there already.
    pub fn environment(&self, settings: &Settings) -> Vec<(String, String)> {
        let folder = self.folder.to_string_lossy().into_owned();
        let mut variables = vec![("CARGO_MANIFEST_DIR".to_owned(), folder)];
        if settings.nightly {
            variables.push(("FLOE_NIGHTLY".to_owned(), "1".to_owned()));
            variables.push(("PROPTEST_CASES".to_owned(), NIGHTLY_CASES.to_owned()));
        }
        variables
    }
}

/// The tally of one program, from its output and whether it succeeded. A program
/// that ends badly without saying so in its result counts as one failure.
pub fn tally(stdout: &str, success: bool) -> Result<Tally, Tally> {
    match libtest::results(stdout).last() {
        Some(tally) if success == (tally.failed == 0) => Ok(*tally),
        Some(tally) => Err(Tally {
            failed: tally.failed + 1,
            ..*tally
        }),
        None => Err(Tally::FAILED),
    }
}

/// Reads cargo's messages, one JSON object in a line.
fn parse(messages: &str) -> Result<Vec<Binary>> {
    let mut binaries = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message =
            serde_json::from_str(line).context("cannot read a message of cargo")?;
        let Message::CompilerArtifact {
            manifest_path,
            target,
            profile,
            executable: Some(executable),
        } = message
        else {
            continue;
        };
        if !profile.test {
            continue;
        }
        let folder = Path::new(&manifest_path)
            .parent()
            .context("a manifest without a folder")?;
        binaries.push(Binary {
            integration: target.kind.iter().any(|kind| kind == "test"),
            target: target.name,
            folder: folder.to_owned(),
            executable,
        });
    }
    // Cargo reports them as they come out of the compiler.
    binaries.sort_by(|a, b| (&a.folder, &a.target).cmp(&(&b.folder, &b.target)));
    Ok(binaries)
}

#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact {
        manifest_path: String,
        target: Target,
        profile: Profile,
        executable: Option<PathBuf>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_among_the_messages() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/w/core/Cargo.toml","target":{"kind":["lib"],"name":"core"},"profile":{"test":false},"executable":null}
{"reason":"build-script-executed","package_id":"ring"}
not a message
{"reason":"compiler-artifact","manifest_path":"/w/tests/Cargo.toml","target":{"kind":["test"],"name":"netns"},"profile":{"test":true},"executable":"/t/netns-1"}
{"reason":"compiler-artifact","manifest_path":"/w/core/Cargo.toml","target":{"kind":["lib"],"name":"core"},"profile":{"test":true},"executable":"/t/core-1"}
{"reason":"compiler-artifact","manifest_path":"/w/cli/Cargo.toml","target":{"kind":["bin"],"name":"cli"},"profile":{"test":false},"executable":"/t/cli"}
{"reason":"build-finished","success":true}
"#;
        let binary = |target: &str, integration, folder: &str, executable: &str| Binary {
            target: target.to_owned(),
            integration,
            folder: folder.into(),
            executable: executable.into(),
        };
        assert_eq!(
            parse(messages).unwrap(),
            [
                binary("core", false, "/w/core", "/t/core-1"),
                binary("netns", true, "/w/tests", "/t/netns-1"),
            ]
        );
    }

    #[test]
    fn a_result_counts_when_the_exit_code_agrees() {
        let passed = "test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out";
        let failed =
            "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(
            tally(passed, true),
            Ok(Tally {
                passed: 3,
                failed: 0,
                skipped: 2
            })
        );
        assert_eq!(
            tally(failed, false),
            Ok(Tally {
                passed: 3,
                failed: 1,
                skipped: 0
            })
        );
        assert_eq!(
            tally(passed, false),
            Err(Tally {
                passed: 3,
                failed: 1,
                skipped: 2
            })
        );
        // A failing test may have printed a result of its own.
        assert_eq!(
            tally(&format!("{passed}\n{failed}"), false),
            Ok(Tally {
                passed: 3,
                failed: 1,
                skipped: 0
            })
        );
    }

    #[test]
    fn a_program_without_a_result_is_one_failure() {
        assert_eq!(
            tally("running 5 tests\ntest a ... ok\n", false),
            Err(Tally::FAILED)
        );
        assert_eq!(tally("", true), Err(Tally::FAILED));
    }
}
