//! What is told at the end.

use std::fmt;
use std::iter::Sum;
use std::ops::AddAssign;
use std::time::Duration;

use anyhow::Result;

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
    name: &'static str,
    pub tally: Tally,
    pub elapsed: Duration,
    notes: Vec<String>,
}

impl Row {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            tally: Tally::default(),
            elapsed: Duration::ZERO,
            notes: Vec::new(),
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

    /// Why something failed or was skipped, told below the table.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// The table of all parts, its notes, and the line that counts.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub fn total(&self) -> Tally {
        self.rows.iter().map(|row| row.tally).sum()
    }
}

impl fmt::Display for Report {
    /// Ends with the totals, without a line break after them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<8} {:>7} {:>7} {:>7} {:>8}",
            "part", "passed", "failed", "skipped", "seconds"
        )?;
        for Row {
            name,
            tally,
            elapsed,
            ..
        } in &self.rows
        {
            writeln!(
                f,
                "{name:<8} {:>7} {:>7} {:>7} {:>8.1}",
                tally.passed,
                tally.failed,
                tally.skipped,
                elapsed.as_secs_f64()
            )?;
        }
        for row in &self.rows {
            for note in &row.notes {
                writeln!(f, "{}: {note}", row.name)?;
            }
        }
        write!(f, "{}", self.total())
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_report_ends_with_its_totals() {
        let mut unit = Row::new("unit");
        unit.add(Tally {
            passed: 120,
            failed: 1,
            skipped: 0,
        });
        unit.elapsed = Duration::from_millis(4_260);
        let mut netns = Row::new("netns");
        netns.add(Tally::missing(7, false));
        netns.note("skipped, needs root");
        let mut report = Report::default();
        report.add(unit);
        report.add(netns);

        let expected = [
            "part      passed  failed skipped  seconds",
            "unit         120       1       0      4.3",
            "netns          0       0       7      0.0",
            "netns: skipped, needs root",
            "120 passed, 1 failed, 7 skipped",
        ];
        assert_eq!(report.to_string().lines().collect::<Vec<_>>(), expected);
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
