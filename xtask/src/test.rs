//! `cargo xtask test`: everything that has to hold, in one run.
//!
//! The parts run one after the other, and a failing one does not keep the next
//! from running. Each leaves a row in the report.

mod build;
mod check;
mod group;
mod libtest;
mod report;
mod rights;
mod unit;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::ValueEnum;
use floe_testbed::progress::Step;

use crate::child::Children;
use build::Binary;
use group::Group;
use report::{Report, Row, Tally};

/// Check and test everything, or a part of it
///
/// Runs formatting, clippy, dependency rules and licences, the unit, property and doc tests, and then the tests on real
/// parts: network namespaces, a guest kernel, a cluster. The last line is `N passed, N failed, N skipped`; the exit code
/// is 0 when nothing failed. What this machine cannot run is skipped with its reason, but fails where the environment
/// variable CI is set.
#[derive(clap::Args)]
pub struct Args {
    /// Run only these parts, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,

    /// Make the long form of tests that have one: many cases, many rounds
    #[arg(long)]
    nightly: bool,

    /// Run only tests whose name contains this, or all of the test target that is named so
    ///
    /// A target of `tests` such as `lifecycle` runs as a whole, and the others of its part not at all. The checks are left
    /// out unless asked for with --only.
    filter: Option<String>,
}

/// A part of the whole.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Formatting, clippy, dependency rules, licences
    Check,
    /// Unit, property and doc tests: what plain `cargo test` runs
    Unit,
    /// Tests in network namespaces of their own (needs root)
    Netns,
    /// Images, chart and manifests (needs root)
    Shipped,
    /// Clients of clouds and name servers, on servers that are not ours where there are some (needs root)
    Clouds,
    /// Alert rules, by Prometheus' own promtool (needs root where it is not installed)
    Monitoring,
    /// Tests in a guest kernel (needs root)
    Guest,
    /// Tests on a real cluster (needs root)
    Cluster,
}

/// How the test programs are started.
struct Settings {
    filter: Option<String>,
    nightly: bool,
    /// Whether what cannot run is a failure.
    ci: bool,
}

impl Args {
    /// Only the checks.
    pub fn check() -> Self {
        Self {
            only: vec![Part::Check],
            nightly: false,
            filter: None,
        }
    }

    fn wants(&self, part: Part) -> bool {
        if self.only.is_empty() {
            // A name selects tests, and checks have none.
            part != Part::Check || self.filter.is_none()
        } else {
            self.only.contains(&part)
        }
    }
}

/// Runs the parts that were asked for and reports on them.
pub fn run(args: Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(run_parts(&args));
    // Does not wait for work that Ctrl-C abandoned.
    runtime.shutdown_background();
    let report = report?;

    writeln!(std::io::stdout(), "\n{report}")?;
    if report.total().executed() == 0 {
        bail!(
            "no test was executed{}",
            args.filter
                .map(|filter| format!(" (filter: {filter})"))
                .unwrap_or_default()
        );
    }
    Ok(if report.total().failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn run_parts(args: &Args) -> Result<Report> {
    let settings = Settings {
        filter: args.filter.clone(),
        nightly: args.nightly,
        ci: is_ci(std::env::var("CI").ok().as_deref()),
    };
    let mut children = Children::new()?;
    let mut report = Report::default();

    if args.wants(Part::Check) {
        report.add(check::run(&mut children, settings.ci).await?);
    }
    let groups: Vec<&Group> = group::GROUPS
        .iter()
        .filter(|group| args.wants(group.part))
        .collect();
    if !args.wants(Part::Unit) && groups.is_empty() {
        return Ok(report);
    }

    let Some(binaries) = build_binaries(&mut children, &mut report).await? else {
        return Ok(report);
    };
    if args.wants(Part::Unit) {
        report.add(unit::run(&mut children, &settings, &binaries).await?);
    }
    for group in groups {
        report.add(group.run(&mut children, &settings, &binaries).await?);
    }
    Ok(report)
}

/// All test programs, or a failed row in the report.
async fn build_binaries(
    children: &mut Children,
    report: &mut Report,
) -> Result<Option<Vec<Binary>>> {
    let started = Instant::now();
    let step = Step::start("build programs and tests");
    let binaries = build::run(children).await?;
    let mut row = Row::new("build");
    if binaries.is_some() {
        step.done();
    } else {
        step.fail();
        row.add(Tally::FAILED);
        row.note("the workspace does not compile, so no test ran");
    }
    row.elapsed = started.elapsed();
    report.add(row);
    Ok(binaries)
}

/// Continuous integration is said by `CI`, with any value that does not deny it.
fn is_ci(value: Option<&str>) -> bool {
    value.is_some_and(|value| !value.is_empty() && value != "false")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Args {
        Cli::try_parse_from(line.split(' '))
            .expect("a valid command line")
            .args
    }

    fn wanted(args: &Args) -> Vec<Part> {
        Part::value_variants()
            .iter()
            .copied()
            .filter(|part| args.wants(*part))
            .collect()
    }

    #[test]
    fn everything_runs_by_default() {
        assert!(wanted(&parse("test")) == Part::value_variants());
    }

    #[test]
    fn parts_can_be_listed_and_a_filter_may_follow() {
        let args = parse("test --only unit,netns --nightly lease");
        assert!(wanted(&args) == [Part::Unit, Part::Netns]);
        assert!(args.nightly);
        assert_eq!(args.filter.as_deref(), Some("lease"));
    }

    #[test]
    fn a_filter_leaves_the_checks_out_unless_they_are_asked_for() {
        assert!(!parse("test lease").wants(Part::Check));
        assert!(parse("test lease").wants(Part::Cluster));
        assert!(parse("test --only check,unit lease").wants(Part::Check));
    }

    #[test]
    fn ci_is_any_value_that_does_not_deny_it() {
        assert!(is_ci(Some("true")));
        assert!(is_ci(Some("1")));
        assert!(!is_ci(Some("false")));
        assert!(!is_ci(Some("")));
        assert!(!is_ci(None));
    }
}
