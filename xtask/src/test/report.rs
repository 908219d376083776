//! What is reported at the end.

use std::cmp::Reverse;
use std::fmt::{self, Write};
use std::iter::Sum;
use std::ops::AddAssign;
use std::time::Duration;

use anyhow::Result;

use super::budget::{Spent, minutes};
use super::run::Done;
use super::timeline::Timed;
use super::usage::Usage;
use crate::child::Interrupted;

/// How tests ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl Tally {
    pub const PASSED: Self = Self {
        passed: 1,
        failed: 0,
        skipped: 0,
    };
    pub const FAILED: Self = Self {
        passed: 0,
        failed: 1,
        skipped: 0,
    };

    /// `count` tests that could not run: failures in CI, where nothing may be
    /// missing, and skipped elsewhere.
    pub fn missing(count: usize, ci: bool) -> Self {
        if ci {
            Self {
                failed: count,
                ..Self::default()
            }
        } else {
            Self {
                skipped: count,
                ..Self::default()
            }
        }
    }

    pub fn executed(self) -> usize {
        self.passed + self.failed
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |mut sum, tally| {
            sum += tally;
            sum
        })
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

/// One line of the report.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    pub tally: Tally,
    pub elapsed: Duration,
    notes: Vec<String>,
    tests: Vec<Timed>,
}

impl Row {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            tally: Tally::default(),
            elapsed: Duration::ZERO,
            notes: Vec::new(),
            tests: Vec::new(),
        }
    }

    pub fn add(&mut self, tally: Tally) {
        self.tally += tally;
    }

    /// Takes an error for a failure and notes it, so that the report is not lost;
    /// only an interruption is passed on.
    pub fn absorb(&mut self, result: Result<()>) -> Result<()> {
        match result {
            Err(error) if !error.is::<Interrupted>() => {
                self.add(Tally::FAILED);
                self.note(format!("{error:#}"));
                Ok(())
            }
            result => result,
        }
    }

    /// Why something failed or was skipped, printed below the table.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Adds the results, notes and times of a part of the same job.
    pub fn merge(&mut self, part: Self) {
        self.tally += part.tally;
        self.notes.extend(part.notes);
        self.tests.extend(part.tests);
    }

    /// How long its tests have taken.
    pub fn times(&mut self, tests: Vec<Timed>) {
        self.tests.extend(tests);
    }
}

/// How all jobs went and where the time has gone.
pub struct Report {
    rows: Vec<Line>,
    usage: Usage,
    elapsed: Duration,
    /// Only for a run that has a budget.
    spent: Option<Spent>,
}

/// A row and its start time.
struct Line {
    row: Row,
    start: Duration,
    waited_for: Option<&'static str>,
}

/// How many of the slowest tests the short report lists, and the long one.
const SLOWEST: usize = 5;
const SLOWEST_IN_FILE: usize = 30;

impl Report {
    pub fn new(done: Vec<Done>, usage: Usage, elapsed: Duration, spent: Option<Spent>) -> Self {
        let lines = done.into_iter().map(|it| Line {
            row: it.row,
            start: it.start,
            waited_for: it.waited_for,
        });
        Self {
            rows: lines.collect(),
            usage,
            elapsed,
            spent,
        }
    }

    /// Adds a result computed after all jobs.
    pub fn add(&mut self, row: Row) {
        self.rows.push(Line {
            row,
            start: self.elapsed,
            waited_for: None,
        });
    }

    pub fn total(&self) -> Tally {
        self.rows.iter().map(|it| it.row.tally).sum()
    }

    /// The whole report: what the short one has, and all about times.
    pub fn long(&self) -> String {
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = self.write_table(&mut text, true);
        let _ = self.write_times(&mut text, SLOWEST_IN_FILE);
        let _ = self.write_clusters(&mut text);
        let _ = writeln!(text, "\n{}", self.total());
        text
    }

    fn write_table(&self, f: &mut dyn Write, is_long: bool) -> fmt::Result {
        writeln!(
            f,
            "{:<17} {:>7} {:>7} {:>7} {:>8} {:>8} {:>5}",
            "job", "passed", "failed", "skipped", "start", "seconds", "busy"
        )?;
        for Line { row, start, .. } in &self.rows {
            let Row { name, tally, .. } = row;
            // Hide jobs that had nothing to do.
            if *tally == Tally::default() && row.notes.is_empty() && !is_long {
                continue;
            }
            let busy = self.usage.jobs.get(name).copied().unwrap_or_default();
            writeln!(
                f,
                "{name:<17} {:>7} {:>7} {:>7} {:>8.1} {:>8.1} {:>4.0}%",
                tally.passed,
                tally.failed,
                tally.skipped,
                start.as_secs_f64(),
                row.elapsed.as_secs_f64(),
                busy.percent(),
            )?;
        }
        for Line { row, .. } in &self.rows {
            for note in &row.notes {
                writeln!(f, "{}: {note}", row.name)?;
            }
        }
        Ok(())
    }

    fn write_times(&self, f: &mut dyn Write, count: usize) -> fmt::Result {
        let mut tests: Vec<(&Timed, &str)> = self
            .rows
            .iter()
            .flat_map(|it| it.row.tests.iter().map(|test| (test, it.row.name)))
            .collect();
        tests.sort_by_key(|(test, _)| Reverse(test.took));
        if !tests.is_empty() {
            writeln!(f, "\nslowest tests, with the time they waited for others:")?;
        }
        for (test, job) in tests.iter().take(count) {
            let seconds = test.took.as_secs_f64();
            writeln!(f, "{seconds:>8.1} s  {job}: {}", test.name)?;
        }
        let path: Vec<String> = self
            .critical_path()
            .iter()
            .map(|it| format!("{} {:.0} s", it.row.name, it.row.elapsed.as_secs_f64()))
            .collect();
        writeln!(f, "\ncritical path: {}", path.join(", then "))?;
        writeln!(
            f,
            "whole run: {:.1} min, processors busy {:.0} % of the time",
            minutes(self.elapsed),
            self.usage.machine.percent()
        )?;
        if let Some(spent) = &self.spent {
            writeln!(
                f,
                "since the command was given: {:.1} min; {spent}",
                minutes(spent.elapsed)
            )?;
        }
        Ok(())
    }

    fn write_clusters(&self, f: &mut dyn Write) -> fmt::Result {
        writeln!(
            f,
            "\n{:<17} {:>8} {:>8} {:>9} {:>6}",
            "cluster", "seconds", "starting", "computed", "cores"
        )?;
        for (name, it) in &self.usage.clusters {
            let (alive, computed) = (it.alive.as_secs_f64(), it.processor.as_secs_f64());
            let cores = if alive > 0.0 { computed / alive } else { 0.0 };
            let starting = it.starting.as_secs_f64();
            writeln!(
                f,
                "{name:<17} {alive:>8.1} {starting:>8.1} {computed:>9.1} {cores:>6.2}"
            )?;
        }
        Ok(())
    }

    /// The jobs that made the run as long as it was, each of which waited for the one before.
    fn critical_path(&self) -> Vec<&Line> {
        let end = |it: &&Line| it.start + it.row.elapsed;
        let judged = |it: &&Line| it.start < self.elapsed;
        let mut path: Vec<&Line> = Vec::new();
        let mut next = self.rows.iter().filter(judged).max_by_key(end);
        while let Some(line) = next {
            path.push(line);
            let before = line.waited_for;
            next = self.rows.iter().find(|it| Some(it.row.name) == before);
        }
        path.reverse();
        path
    }
}

impl fmt::Display for Report {
    /// The short form. Ends with the totals, without a line break after them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_table(f, false)?;
        self.write_times(f, SLOWEST)?;
        write!(f, "\n{}", self.total())
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Start;
    use super::*;

    #[test]
    fn missing_parts_are_skipped_here_and_fail_in_ci() {
        assert_eq!(
            Tally::missing(3, false).to_string(),
            "0 passed, 0 failed, 3 skipped"
        );
        assert_eq!(
            Tally::missing(3, true).to_string(),
            "0 passed, 3 failed, 0 skipped"
        );
    }

    fn line(name: &'static str, tally: Tally, times: [u64; 2], before: &'static str) -> Line {
        let mut row = Row::new(name);
        row.add(tally);
        row.elapsed = Duration::from_secs(times[1]);
        Line {
            row,
            start: Duration::from_secs(times[0]),
            waited_for: (!before.is_empty()).then_some(before),
        }
    }

    fn report() -> Report {
        let passed = |passed| Tally {
            passed,
            ..Tally::default()
        };
        let mut unit = line("unit", passed(120), [30, 60], "build");
        unit.row.times(vec![Timed {
            name: "leases::expire".into(),
            took: Duration::from_millis(1_250),
        }]);
        let mut netns = line("netns", Tally::missing(7, false), [30, 5], "build");
        netns.row.note("could not run: these tests need root");
        Report {
            rows: vec![
                line("kernel", Tally::default(), [0, 1], ""),
                line("build", Tally::default(), [1, 29], "kernel"),
                netns,
                unit,
                line("examples", Tally::FAILED, [35, 20], "netns"),
            ],
            usage: Usage::new(),
            elapsed: Duration::from_secs(90),
            spent: Some(Spent {
                start: Start::Warm,
                elapsed: Duration::from_mins(2),
            }),
        }
    }

    #[test]
    fn a_report_ends_with_its_totals() {
        let mut report = report();
        report.add(Row::new("permissions"));
        let expected = [
            "job                passed  failed skipped    start  seconds  busy",
            "netns                   0       0       7     30.0      5.0    0%",
            "unit                  120       0       0     30.0     60.0    0%",
            "examples                0       1       0     35.0     20.0    0%",
            "netns: could not run: these tests need root",
            "",
            "slowest tests, with the time they waited for others:",
            "     1.2 s  unit: leases::expire",
            "",
            "critical path: kernel 1 s, then build 29 s, then unit 60 s",
            "whole run: 1.5 min, processors busy 0 % of the time",
            "since the command was given: 2.0 min; budget warm: 15 min, 13.0 min under",
            "",
            "120 passed, 1 failed, 7 skipped",
        ];
        assert_eq!(report.to_string().lines().collect::<Vec<_>>(), expected);
        let long = report.long();
        assert!(long.contains("\nkernel "), "{long}");
        assert!(
            long.ends_with("\n120 passed, 1 failed, 7 skipped\n"),
            "{long}"
        );
    }

    #[test]
    fn an_error_is_a_failure_with_a_note_and_an_interruption_goes_on() {
        let mut row = Row::new("cluster");
        row.add(Tally::PASSED);
        row.absorb(Ok(())).unwrap();
        row.absorb(Err(anyhow::anyhow!("why").context("what")))
            .unwrap();
        assert_eq!(row.tally.to_string(), "1 passed, 1 failed, 0 skipped");
        assert_eq!(row.notes, ["what: why"]);
        assert!(row.absorb(Err(Interrupted.into())).is_err());
        assert_eq!(row.tally.failed, 1);
    }
}
