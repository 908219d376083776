//! `kubectl floe check`: whether records, pods, pools, nodes and configuration fit
//! together.
//!
//! What is wrong is found by [`floe_core::audit`]. What can be mended without taking an
//! address from anybody is mended here, each object by itself and only as long as it is
//! as it was found.

use floe_core::audit::{Finding, audit};
use serde::Serialize;

use self::scene::Scene;
use crate::{
    args::{self, Format},
    cluster::Cluster,
    console::Console,
    failure::Failure,
    render::{self, table::Table},
};

mod mend;
mod scene;

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    command: &args::Check,
) -> Result<(), Failure> {
    let scene = Scene::read(cluster, &command.config_map).await?;
    let findings = audit(&scene.world());
    show(console, &scene, &findings, command.output.format)?;
    if findings.is_empty() {
        return Ok(());
    }
    let mendable = findings.iter().filter(|it| it.fix().is_some()).count();
    let count = findings.len();
    if !command.fix || mendable == 0 {
        let mendable = if command.fix { 0 } else { mendable };
        return Err(Failure::Found { count, mendable });
    }
    let fixes: Vec<_> = findings.iter().filter_map(Finding::fix).collect();
    let lines = fixes.iter().map(|fix| format!("  {fix}\n"));
    let question = format!("This is to be done:\n{}Go on?", lines.collect::<String>());
    console.confirm(&question, command.consent.yes)?;
    let mut mended = 0;
    for fix in &fixes {
        match mend::mend(cluster, &scene, fix).await? {
            Ok(()) => {
                mended += 1;
                console.remark(&format!("done: {fix}"));
            }
            Err(why) => console.warn(&format!("not done: {fix}: {why}")),
        }
    }
    match count - mended {
        0 => Ok(()),
        count => Err(Failure::Found { count, mendable: 0 }),
    }
}

fn show(
    console: &mut Console,
    scene: &Scene,
    findings: &[Finding],
    format: Option<Format>,
) -> Result<(), Failure> {
    match format {
        Some(format @ (Format::Json | Format::Yaml)) => {
            let rows: Vec<Row> = findings.iter().map(Row::of).collect();
            console.print(&render::value(format, &rows)?)
        }
        Some(Format::Name) => {
            let lines = findings.iter().map(|it| format!("{}\n", it.subject()));
            console.print(&lines.collect::<String>())
        }
        Some(Format::Wide) | None if findings.is_empty() => console.print(&format!(
            "Everything fits together: {} records, {} pods, {} pools, {} nodes.",
            scene.records.len(),
            scene.pods.len(),
            scene.pools.len(),
            scene.nodes.len(),
        )),
        Some(Format::Wide) => console.print(&table(findings, true)),
        None => console.print(&table(findings, false)),
    }
}

fn table(findings: &[Finding], wide: bool) -> String {
    let mut header = vec!["OBJECT", "REASON", "FIX", "MESSAGE"];
    if wide {
        header.push("ADVICE");
    }
    let mut table = Table::new(header);
    for finding in findings {
        let row = Row::of(finding);
        let mut cells = vec![
            row.object.into(),
            row.reason.into(),
            if row.fix.is_some() { "yes" } else { "no" }.into(),
            row.message.into(),
        ];
        if wide {
            let advice = row.advice.or(row.fix.as_deref());
            cells.push(advice.unwrap_or_default().into());
        }
        table.row(cells);
    }
    table.text()
}

/// A finding as programs read it.
#[derive(Serialize)]
struct Row {
    object: String,
    reason: &'static str,
    message: String,
    /// What `--fix` does about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    /// What a person can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
}

impl Row {
    fn of(finding: &Finding) -> Self {
        Self {
            object: finding.subject(),
            reason: finding.reason(),
            message: finding.to_string(),
            fix: finding.fix().map(|fix| fix.to_string()),
            advice: finding.advice(),
        }
    }
}

#[cfg(test)]
mod tests;
