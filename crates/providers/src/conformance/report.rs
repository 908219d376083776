//! What a suite has found.

use std::fmt;

/// How a check went.
pub type Checked = Result<(), Miss>;

/// Why a check is not passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The server or its client has no means for it, which is said here.
    CannotRun(String),
    /// What was seen instead.
    Failed(String),
}

impl From<String> for Miss {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

/// Says that a check has no means.
pub fn cannot(reason: impl Into<String>) -> Miss {
    Miss::CannotRun(reason.into())
}

/// Fails with these words unless it holds.
pub fn demand(holds: bool, words: impl FnOnce() -> String) -> Checked {
    if holds {
        Ok(())
    } else {
        Err(Miss::Failed(words()))
    }
}

/// All checks of a suite, in their order.
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    checks: Vec<(String, Checked)>,
}

impl Report {
    /// An empty one.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            checks: Vec::new(),
        }
    }

    /// Adds a check; its name is that of its function.
    pub fn add(&mut self, name: &str, checked: Checked) {
        self.checks.push((name.replace('_', " "), checked));
    }

    /// What did not run, by name.
    pub fn left_out(&self) -> Vec<&str> {
        let left_out = |checked: &Checked| matches!(checked, Err(Miss::CannotRun(_)));
        self.names(left_out)
    }

    /// What failed, by name.
    pub fn failed(&self) -> Vec<&str> {
        self.names(|checked| matches!(checked, Err(Miss::Failed(_))))
    }

    /// How many have passed.
    pub fn passed(&self) -> usize {
        self.names(Result::is_ok).len()
    }

    /// The report, for whoever prints it.
    ///
    /// # Panics
    /// With the report, if a check failed or none has passed.
    #[track_caller]
    #[expect(
        clippy::return_self_not_must_use,
        reason = "printing it is one more service"
    )]
    pub fn conclude(self) -> Self {
        assert!(self.failed().is_empty() && self.passed() > 0, "{self}");
        self
    }

    /// The same, of a suite in which exactly these checks have no means: neither does one
    /// drop out unseen, nor does one stay on the list that could run by now.
    ///
    /// # Panics
    /// With the report, if others did not run or a check failed.
    #[track_caller]
    #[expect(
        clippy::return_self_not_must_use,
        reason = "printing it is one more service"
    )]
    pub fn conclude_without(self, expected: &[&str]) -> Self {
        assert_eq!(self.left_out(), expected, "{self}");
        self.conclude()
    }

    fn names(&self, of: impl Fn(&Checked) -> bool) -> Vec<&str> {
        let chosen = self.checks.iter().filter(|(_, checked)| of(checked));
        chosen.map(|(name, _)| name.as_str()).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} passed", self.title, self.passed())?;
        for (name, checked) in &self.checks {
            match checked {
                Ok(()) => writeln!(f, "  ok          {name}")?,
                Err(Miss::CannotRun(reason)) => writeln!(f, "  cannot run  {name}: {reason}")?,
                Err(Miss::Failed(words)) => writeln!(f, "  FAILED      {name}: {words}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(checks: &[(&str, Checked)]) -> Report {
        let mut report = Report::new("a cloud");
        for (name, checked) in checks {
            report.add(name, checked.clone());
        }
        report
    }

    #[test]
    fn what_did_not_run_is_named_with_its_reason() {
        let report = report(&[("it_lists", Ok(())), ("it_buys", Err(cannot("no shop")))]);
        let text = report.conclude_without(&["it buys"]).to_string();
        assert_eq!(
            text,
            "a cloud: 1 passed\n  ok          it lists\n  cannot run  it buys: no shop\n"
        );
    }

    #[test]
    #[should_panic(expected = "FAILED      it buys: twice")]
    fn a_failure_fails() {
        let failed = Err("twice".to_owned().into());
        report(&[("it_lists", Ok(())), ("it_buys", failed)]).conclude();
    }

    #[test]
    #[should_panic(expected = "cannot run  it buys")]
    fn what_drops_out_unseen_fails() {
        report(&[("it_lists", Ok(())), ("it_buys", Err(cannot("no shop")))]).conclude_without(&[]);
    }

    #[test]
    #[should_panic(expected = "a cloud: 0 passed")]
    fn a_suite_in_which_nothing_ran_fails() {
        report(&[("it_buys", Err(cannot("no shop")))]).conclude();
    }
}
