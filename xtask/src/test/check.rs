//! What can be said without running a test: formatting, lints, dependencies.

use anyhow::Result;
use floe_testbed::progress::Step;
use tokio::process::Command;

use super::report::{Row, Tally};
use super::run::Context;
use crate::child::{Children, Interrupted, Output, background};
use crate::{dependencies, tools, workspace};

/// A check, which counts as one test.
#[derive(Clone, Copy)]
pub enum Check {
    Formatting,
    Clippy,
    Dependencies,
    Licences,
}

/// A check that has all it needs.
enum Work {
    Command(Box<Command>),
    DependencyRules,
}

impl Check {
    /// Runs the check, or reports why it cannot run.
    pub async fn run(self, context: &Context, row: &mut Row) -> Result<()> {
        match self.prepare(&context.children).await? {
            Ok(work) => {
                let step = Step::start(self.title());
                if work.passes(&context.children).await? {
                    step.done();
                    row.add(Tally::PASSED);
                } else {
                    step.fail();
                    row.add(Tally::FAILED);
                    row.note(format!("{} failed", self.title()));
                }
            }
            Err(reason) => {
                row.add(Tally::missing(1, context.settings.ci));
                row.note(format!("{} could not run: {reason}", self.title()));
            }
        }
        Ok(())
    }

    fn title(self) -> &'static str {
        match self {
            Self::Formatting => "formatting",
            Self::Clippy => "clippy",
            Self::Dependencies => "dependency rules",
            Self::Licences => "licences, bans and sources",
        }
    }

    /// Finds the tools, or says what is missing.
    async fn prepare(self, children: &Children) -> Result<Result<Work, String>> {
        Ok(match self {
            Self::Formatting => component("rustfmt", &["fmt", "--all", "--check"]).await,
            Self::Clippy => {
                let arguments = [
                    "clippy",
                    "--workspace",
                    "--all-targets",
                    "--",
                    "-D",
                    "warnings",
                ];
                component("clippy", &arguments).await
            }
            Self::Dependencies => Ok(Work::DependencyRules),
            Self::Licences => match tools::cargo_deny(children).await {
                Ok(program) => {
                    let mut command = Command::new(program);
                    command.args(["check", "licenses", "bans", "sources"]);
                    Ok(Work::Command(command.into()))
                }
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(error) => Err(format!("{error:#}")),
            },
        })
    }
}

impl Work {
    async fn passes(self, children: &Children) -> Result<bool> {
        match self {
            Self::Command(mut command) => {
                command.current_dir(workspace());
                let command = background(command.as_std());
                Ok(children
                    .run(command.into(), Output::Shown)
                    .await?
                    .status
                    .success())
            }
            Self::DependencyRules => {
                let violations = children
                    .wait_for(|| dependencies::check(workspace()))
                    .await?;
                for violation in &violations {
                    eprintln!("{violation}");
                }
                Ok(violations.is_empty())
            }
        }
    }
}

/// A cargo subcommand that is an optional component of the toolchain.
async fn component(name: &str, arguments: &[&str]) -> Result<Work, String> {
    if !tools::has_subcommand(arguments[0]).await {
        return Err(format!(
            "{name} is not installed; add it with `rustup component add {name}`"
        ));
    }
    let mut command = Command::from(tools::cargo());
    command.args(arguments);
    Ok(Work::Command(command.into()))
}
