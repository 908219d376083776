//! Rust's test harness, as seen from outside: its arguments and what it prints.

use super::report::Tally;

/// What to ask of a test program.
#[derive(Clone, Copy)]
pub enum Selection {
    /// What runs anywhere.
    Ordinary,
    /// What is marked `#[ignore]` because it needs real parts.
    Ignored,
    /// The same without those whose names have this in them.
    IgnoredWithout(&'static str),
}

/// The arguments that run a selection.
pub fn arguments(selection: Selection, filter: Option<&str>) -> Vec<String> {
    let selected: &[&str] = match selection {
        Selection::Ordinary => &[],
        Selection::Ignored => &["--ignored"],
        Selection::IgnoredWithout(skipped) => &["--ignored", "--skip", skipped],
    };
    selected
        .iter()
        .copied()
        .chain(filter)
        .map(str::to_owned)
        .collect()
}

/// The arguments that list a selection, for [`count_listed`].
pub fn list_arguments(selection: Selection, filter: Option<&str>) -> Vec<String> {
    let mut arguments = arguments(selection, filter);
    arguments.extend(["--list", "--format", "terse"].map(str::to_owned));
    arguments
}

/// Counts the tests in the output of a listing.
pub fn count_listed(output: &str) -> usize {
    output
        .lines()
        .filter(|line| line.ends_with(": test"))
        .count()
}

/// Every result line in `output`, in order. Ignored tests count as skipped, and
/// those that a filter left out do not count.
pub fn results(output: &str) -> Vec<Tally> {
    output.lines().filter_map(result).collect()
}

/// Reads `test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; ...`.
fn result(line: &str) -> Option<Tally> {
    let (verdict, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    if !matches!(verdict, "ok" | "FAILED") {
        return None;
    }
    let count = |name: &str| {
        counts
            .split("; ")
            .find_map(|part| part.strip_suffix(name)?.strip_suffix(' ')?.parse().ok())
    };
    Some(Tally {
        passed: count("passed")?,
        failed: count("failed")?,
        skipped: count("ignored")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: &str = "test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 5 filtered out; finished in 0.10s";

    #[test]
    fn a_result_line_is_read() {
        assert_eq!(
            results(PASSED),
            [Tally {
                passed: 3,
                failed: 0,
                skipped: 2
            }]
        );
        let failed = "test result: FAILED. 11 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2s";
        assert_eq!(
            results(failed),
            [Tally {
                passed: 11,
                failed: 4,
                skipped: 0
            }]
        );
    }

    #[test]
    fn lines_around_it_do_not_matter_and_line_endings_neither() {
        let output = format!(
            "\nrunning 3 tests\ntest a ... ok\n\n{PASSED}\r\n\nall doctests ran in 0.3s\n{PASSED}"
        );
        assert_eq!(results(&output).len(), 2);
    }

    #[test]
    fn what_only_resembles_a_result_is_none() {
        for line in [
            "",
            "test result: ",
            "test result: ok.",
            "test result: ok. 3 passed",
            "test result: ok. 3 passed; x failed; 0 ignored",
            "test result: ok. -3 passed; 0 failed; 0 ignored",
            "test result: odd. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            "it said: test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out",
        ] {
            assert_eq!(results(line), [], "{line}");
        }
    }

    #[test]
    fn the_order_of_counts_is_not_relied_on() {
        let line = "test result: ok. 1 ignored; 2 measured; 3 failed; 4 passed";
        assert_eq!(
            results(line),
            [Tally {
                passed: 4,
                failed: 3,
                skipped: 1
            }]
        );
    }

    #[test]
    fn listed_tests_are_counted() {
        assert_eq!(
            count_listed("arp::answers: test\nbgp::speaks: test\nsort: benchmark\n"),
            2
        );
        assert_eq!(count_listed(""), 0);
    }

    #[test]
    fn arguments_follow_the_selection() {
        assert_eq!(arguments(Selection::Ordinary, None), [""; 0]);
        assert_eq!(
            arguments(Selection::Ignored, Some("arp")),
            ["--ignored", "arp"]
        );
        assert_eq!(
            list_arguments(Selection::Ignored, None),
            ["--ignored", "--list", "--format", "terse"]
        );
    }
}
