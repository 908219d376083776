//! What runs anywhere: unit, property and doc tests.

use std::time::Instant;

use anyhow::Result;
use floe_testbed::progress::Step;
use tokio::process::Command;

use super::Settings;
use super::build::{self, Binary};
use super::group;
use super::libtest::{self, Selection};
use super::report::{Row, Tally};
use crate::child::{Children, Finished, Output};
use crate::{tools, workspace};

/// Runs what plain `cargo test` would.
pub async fn run(children: &mut Children, settings: &Settings, binaries: &[Binary]) -> Result<Row> {
    let started = Instant::now();
    let step = Step::start("unit tests");
    let mut row = Row::new("unit");
    for binary in binaries {
        eprintln!("     {}", binary.title());
        let finished = binary
            .run(
                children,
                settings,
                Selection::Ordinary,
                settings.filter.as_deref(),
            )
            .await?;
        let mut tally = count(&mut row, &binary.title(), &finished);
        if group::owns(binary) {
            // Its ignored tests are not left out: they run with their group.
            tally.skipped = 0;
        }
        row.add(tally);
    }
    eprintln!("     documentation");
    let tally = doc_tests(children, settings, &mut row).await?;
    row.add(tally);

    if row.tally.failed == 0 {
        step.done();
    } else {
        step.fail();
    }
    row.elapsed = started.elapsed();
    Ok(row)
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

/// Only cargo can run these. It prints one result or more for each library.
async fn doc_tests(children: &mut Children, settings: &Settings, row: &mut Row) -> Result<Tally> {
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
        .args(libtest::arguments(
            Selection::Ordinary,
            settings.filter.as_deref(),
        ))
        .current_dir(workspace());
    let finished = children.run(command, Output::Shown).await?;
    let mut tally: Tally = libtest::results(&String::from_utf8_lossy(&finished.stdout))
        .into_iter()
        .sum();
    if tally.failed == 0 && !finished.status.success() {
        row.note("the documentation's tests did not build or did not end");
        tally += Tally::FAILED;
    }
    Ok(tally)
}
