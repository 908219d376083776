//! What runs anywhere: unit, property and doc tests.

use anyhow::Result;
use tokio::process::Command;

use super::build::{self, Binary};
use super::libtest;
use super::report::{Row, Tally};
use super::run::{Context, run_program, show};
use crate::child::{Finished, Output, background};
use crate::{tools, workspace};

/// Runs the ordinary tests of all programs, as plain `cargo test` would.
pub async fn run(context: &Context, binaries: &[Binary], row: &mut Row) -> Result<()> {
    for binary in binaries {
        let names = binary.ordinary(context).await?;
        if names.is_empty() {
            continue;
        }
        show(row.name, &binary.title());
        let finished = run_program(binary, &names, true, context, row).await?;
        let tally = count(row, &binary.title(), &finished);
        row.add(tally);
    }
    Ok(())
}

/// The tally of a test program that has ended, with a note when it ended badly.
pub fn count(row: &mut Row, title: &str, finished: &Finished) -> Tally {
    build::tally(
        &String::from_utf8_lossy(&finished.stdout),
        finished.status.success(),
    )
    .unwrap_or_else(|tally| {
        row.note(format!(
            "{title} ended without a valid result ({})",
            finished.status
        ));
        tally
    })
}

/// Runs the examples in the documentation, which only cargo can. It prints one result or more
/// for each library.
pub async fn examples(context: &Context, row: &mut Row) -> Result<()> {
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
