//! Modes that need a kernel with VLANs: this program runs itself in the guest, and
//! reads there what it has printed.

use std::{io::Write as _, time::Duration};

use anyhow::{Context as _, Result, ensure};
use floe_testbed::guest::{self, Job};

use super::{mode::Mode, report::Report, turns};

/// How a line with a report begins.
const MARK: &str = "floe-bench report ";
/// It only ends what hangs.
const LIMIT: Duration = Duration::from_mins(20);

/// Measures in the guest.
pub fn measure(rounds: u32, asking: u32) -> Result<Vec<Report>> {
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    let cwd = program.parent().context("this program is in no folder")?;
    let job = Job {
        args: [
            "cni-in-guest".to_owned(),
            rounds.to_string(),
            asking.to_string(),
        ]
        .into(),
        env: Vec::new(),
        cwd: cwd.to_owned(),
        igb_ports: 0,
        timeout: LIMIT,
        program: program.clone(),
    };
    let mut lines = Vec::new();
    let code = guest::run_with(&job, |line| lines.push(line.to_owned()))?;
    ensure!(
        code == 0,
        "exit code {code} in the guest: {}",
        lines.join("\n")
    );
    read(&lines)
}

/// Measures here, which is the guest, and prints what [`measure`] reads.
pub fn tell(rounds: u32, asking: u32) -> Result<()> {
    for mode in Mode::in_guest() {
        let report = turns::measure(&mode, rounds, asking).context(mode.title)?;
        let text = serde_json::to_string(&report)?;
        writeln!(std::io::stdout().lock(), "{MARK}{text}")?;
    }
    Ok(())
}

fn read(lines: &[String]) -> Result<Vec<Report>> {
    let reports = lines.iter().filter_map(|line| line.strip_prefix(MARK));
    let reports: Vec<Report> = reports
        .map(|text| serde_json::from_str(text).with_context(|| text.to_owned()))
        .collect::<Result<_>>()?;
    let wanted = Mode::in_guest().len();
    ensure!(
        reports.len() == wanted,
        "{} of {wanted} modes were measured: {}",
        reports.len(),
        lines.join("\n")
    );
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_is_missing_or_cut_is_no_success() {
        let said = |text: &str| read(&[text.to_owned()]).unwrap_err().to_string();
        assert!(said("a kernel says something").starts_with("0 of 2"));
        assert_eq!(said(&format!("{MARK}{{\"title\"")), "{\"title\"");
    }
}
