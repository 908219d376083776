//! Rust's test harness, as seen from outside: its arguments and what it prints.

use super::report::Tally;

/// The arguments that run tests of these names.
pub fn arguments(names: &[String]) -> Vec<String> {
    let all = ["--include-ignored", "--exact"].map(str::to_owned);
    all.into_iter().chain(names.iter().cloned()).collect()
}

/// The arguments that list tests, for [`listed`]: all of them, or those that are marked
/// `#[ignore]`.
pub fn list_arguments(is_ignored: bool, filter: Option<&str>) -> Vec<String> {
    let ignored = is_ignored.then_some("--ignored");
    let words = ignored.into_iter().chain(filter);
    let words = words.chain(["--list", "--format", "terse"]);
    words.map(str::to_owned).collect()
}

/// The names of the tests in the output of a listing, in the order in which they run.
pub fn listed(output: &str) -> Vec<String> {
    let names = output.lines().filter_map(|it| it.strip_suffix(": test"));
    names.map(str::to_owned).collect()
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
    fn listed_tests_are_named() {
        let output = "arp::answers: test\nbgp::speaks: test\nsort: benchmark\n";
        assert_eq!(listed(output), ["arp::answers", "bgp::speaks"]);
        assert_eq!(listed(""), [""; 0]);
    }

    #[test]
    fn tests_are_listed_all_or_ignored_and_run_by_name() {
        let terse = ["--list", "--format", "terse"];
        assert_eq!(list_arguments(false, None), terse);
        let ignored = [["--ignored", "arp"].as_slice(), &terse].concat();
        assert_eq!(list_arguments(true, Some("arp")), ignored);
        let names = ["arp::answers".to_owned()];
        assert_eq!(
            arguments(&names),
            ["--include-ignored", "--exact", "arp::answers"]
        );
    }
}
