//! `cargo xtask test`: everything that must hold, in one run.
//!
//! The work is cut into [jobs], which run beside each other as far as the machine allows. One
//! that fails does not keep the others from running. Each leaves a row in the report.

mod budget;
mod build;
mod check;
mod jobs;
mod libtest;
mod report;
mod rights;
mod run;
mod schedule;
mod scope;
mod suite;
mod timeline;
mod unit;
mod usage;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use crate::child::Children;
use crate::workspace;
use budget::{Spent, Start, since_keystroke};
use jobs::{JOBS, Job, Work};
use report::Report;
use run::Context;
use scope::Scope;
use usage::Usage;

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
    /// A target of `tests` such as `lifecycle` runs as a whole, and no other test. The checks are left
    /// out unless asked for with --only.
    filter: Option<String>,
}

/// A part of the whole.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Formatting, clippy, dependency rules, licences
    Check,
    /// Unit, property and doc tests: what plain `cargo test` runs, without those inside `tests/`
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
    /// The targets of the jobs that were asked for.
    targets: Vec<&'static str>,
    /// Whether unit tests were asked for.
    unit: bool,
}

impl Settings {
    /// Whether the filter is the name of a target, so that it means no other test.
    fn names_target(&self) -> bool {
        let is_named = |word: &str| self.targets.contains(&word);
        self.filter.as_deref().is_some_and(is_named)
    }

    /// What has to be built.
    fn scope(&self) -> Scope {
        let filter = self.filter.as_deref().filter(|_| self.names_target());
        let is_wanted = |it: &&str| filter.is_none_or(|word| word == *it);
        let mut targets: Vec<_> = self.targets.iter().copied().filter(is_wanted).collect();
        targets.sort_unstable();
        targets.dedup();
        match (self.unit && filter.is_none(), targets.is_empty()) {
            (true, false) => Scope::Everything,
            (true, true) => Scope::Unit,
            (false, _) => Scope::RealParts(targets),
        }
    }
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

    /// The jobs that were asked for, and what they need.
    fn jobs(&self) -> Vec<&'static Job> {
        let is_wanted = |job: &&Job| job.part.is_some_and(|part| self.wants(part));
        let wanted = || JOBS.iter().filter(is_wanted);
        let is_built = wanted().any(Job::is_after_build);
        let is_needed = |job: &&Job| match job.work {
            Work::Build => is_built,
            // With a filter, a job prepares what its tests need when it finds some.
            Work::Prepare(_) => is_wanted(job) && self.filter.is_none(),
            Work::Check(_) | Work::Unit | Work::Documentation | Work::Tests(_) => is_wanted(job),
        };
        JOBS.iter().filter(is_needed).collect()
    }

    fn settings(&self, ci: bool) -> Settings {
        let jobs = self.jobs();
        let targets = jobs.iter().filter_map(|it| Some(it.tests()?.target));
        Settings {
            filter: self.filter.clone(),
            nightly: self.nightly,
            ci,
            targets: targets.collect(),
            unit: self.wants(Part::Unit),
        }
    }

    /// Whether everything was asked for.
    fn is_whole(&self) -> bool {
        self.only.is_empty() && self.filter.is_none()
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

/// Where the report of the last whole run is, below the workspace.
const REPORT: &str = "target/test-report.txt";

/// Runs the parts that were asked for and reports on them.
pub fn run(args: Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(run_jobs(&args));
    // Does not wait for work that Ctrl-C abandoned.
    runtime.shutdown_background();
    let report = report?;

    // That of a part would replace the one of the last whole run.
    if args.is_whole() {
        match write(&report) {
            Ok(file) => eprintln!("\nthe whole report: {}", file.display()),
            // The results below still count.
            Err(error) => eprintln!("\ncannot write the report: {error:#}"),
        }
    }
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

/// Writes the long form of a report to a file.
fn write(report: &Report) -> Result<PathBuf> {
    let file = workspace().join(REPORT);
    fs::create_dir_all(file.parent().context("it is in a folder")?)?;
    fs::write(&file, report.long()).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

async fn run_jobs(args: &Args) -> Result<Report> {
    let ci = is_ci(std::env::var("CI").ok().as_deref());
    let context = Context::new(Children::new()?, args.settings(ci));
    let mut usage = Usage::new();
    let (start, before, started) = (Start::look(), since_keystroke(), Instant::now());
    let done = run::run(args.jobs(), &context, &mut usage).await?;
    let elapsed = started.elapsed();
    let judged = run::judge_rights(&context, args.filter.is_none());
    // Nightly runs take what they need.
    let spent = (args.is_whole() && !args.nightly).then(|| Spent {
        start,
        elapsed: elapsed + before.unwrap_or_default(),
    });
    let mut report = Report::new(done, usage, elapsed, spent);
    if let Some(row) = judged {
        report.add(row);
    }
    Ok(report)
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
    fn only_what_was_asked_for_is_built() {
        let scope = |line| parse(line).settings(false).scope();
        assert_eq!(scope("test"), Scope::Everything);
        assert_eq!(scope("test lease"), Scope::Everything);
        assert_eq!(scope("test --only unit,check"), Scope::Unit);
        assert_eq!(scope("test --only unit,netns"), Scope::Everything);
        for (line, targets) in [
            ("test lifecycle", vec!["lifecycle"]),
            ("test --only cluster lifecycle", vec!["lifecycle"]),
            ("test --only cluster lease", vec!["cluster", "lifecycle"]),
            ("test --only netns", vec!["netns"]),
        ] {
            assert_eq!(scope(line), Scope::RealParts(targets), "{line}");
        }
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
