//! What runs anywhere: unit, property and doc tests.

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::process::Command;

use super::build::{self, Binary};
use super::jobs::{JOBS, Job};
use super::libtest;
use super::report::{Row, Tally};
use super::run::{Context, run_program, show};
use crate::child::{Finished, Output, background};
use crate::{tools, workspace};

/// How many programs run at a time. Each has as many threads as there are processors, but some
/// mostly wait while others compute.
const AT_ONCE: usize = 2;

/// Runs the ordinary tests of all programs, as plain `cargo test` would.
pub async fn run(context: &Context, binaries: &[Binary], row: &mut Row) -> Result<()> {
    if context.settings.names_target() {
        return Ok(());
    }
    let name = row.name;
    let programs = binaries.iter().map(|binary| async move {
        let mut row = Row::new(name);
        run_one(context, binary, &mut row).await?;
        anyhow::Ok(row)
    });
    let mut ended = stream::iter(programs).buffer_unordered(AT_ONCE);
    while let Some(part) = ended.try_next().await? {
        row.merge(part);
    }
    Ok(())
}

async fn run_one(context: &Context, binary: &Binary, row: &mut Row) -> Result<()> {
    let title = binary.title();
    if !JOBS
        .iter()
        .filter_map(Job::tests)
        .any(|it| it.are_in(binary))
    {
        let ignored = binary.ignored(context, None).await?.len();
        if ignored > 0 {
            row.add(Tally::FAILED);
            row.note(format!("{ignored} ignored tests of {title} are in no job"));
        }
    }
    let names = binary.ordinary(context).await?;
    if names.is_empty() {
        return Ok(());
    }
    // Lines of two programs mix.
    let target = binary.target.trim_start_matches("floe");
    let label = format!("{} {}", row.name, target.trim_start_matches(['-', '_']));
    show(&label, &title);
    let command = binary.command(&context.settings, &libtest::arguments(&names));
    let command = background(command.as_std()).into();
    let finished = run_program(command, &label, &names, context, row).await?;
    finished.count(row, &title, names.len());
    Ok(())
}

/// Counts the results of a test program that was to run so many tests, and notes why it ended
/// badly.
pub fn count(row: &mut Row, title: &str, expected: usize, stdout: &str, end: End) {
    let mut tally = build::tally(stdout, end.is_success).unwrap_or_else(|tally| {
        let words = end.words;
        row.note(format!("{title} ended without a valid result ({words})"));
        tally
    });
    let counted = tally.executed() + tally.skipped;
    if tally.failed == 0 && counted < expected {
        row.note(format!("{title} ran {counted} tests instead of {expected}"));
        tally += Tally::FAILED;
    }
    row.add(tally);
}

impl Finished {
    /// Counts the results of a test program on this machine.
    pub fn count(&self, row: &mut Row, title: &str, expected: usize) {
        let end = End {
            is_success: self.status.success(),
            words: self.status.to_string(),
        };
        let stdout = String::from_utf8_lossy(&self.stdout);
        count(row, title, expected, &stdout, end);
    }
}

/// How a test program has ended.
pub struct End {
    pub is_success: bool,
    /// The same in words.
    pub words: String,
}

/// Runs the examples in the documentation, which only cargo can. It prints one result or more
/// for each library.
pub async fn examples(context: &Context, row: &mut Row) -> Result<()> {
    if context.settings.names_target() {
        return Ok(());
    }
    let mut command = Command::from(tools::cargo());
    command
        .args([
            "test",
            "--workspace",
            "--doc",
            "--no-fail-fast",
            "--quiet",
            "--",
        ])
        .args(&context.settings.filter)
        .current_dir(workspace());
    let name = row.name;
    let tell = |line: &str| show(name, line);
    let command = background(command.as_std()).into();
    let finished = context.children.run(command, Output::Lines(&tell)).await?;
    let results = libtest::results(&String::from_utf8_lossy(&finished.stdout));
    let mut tally: Tally = results.into_iter().sum();
    if tally.failed == 0 && !finished.status.success() {
        row.note("the documentation's tests did not build or did not end");
        tally += Tally::FAILED;
    }
    row.add(tally);
    Ok(())
}
