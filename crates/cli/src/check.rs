//! `kubectl floe check`: whether records, pods, pools, nodes and configuration fit
//! together.
//!
//! What is wrong is found by [`floe_core::audit`]. What can be mended without taking an
//! address from anybody is mended, each object by itself and only as long as it is as it
//! was found. Addresses are freed by the controller if there is one.

use floe_core::{
    audit::{Finding, Fix, audit},
    wording::counted,
};
use serde::Serialize;

use self::{mend::Mender, scene::Scene};
use crate::{
    args::{self, Format, Listing},
    cluster::Cluster,
    console::Console,
    failure::Failure,
    remote::{self, Connect},
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
    if scene.may_not_see_nodes {
        console.warn(
            "you may not list nodenetworks.floe.dev, so records are not compared with what is \
             configured on nodes",
        );
    }
    let findings = audit(&scene.world());
    show(console, &scene, &findings, command.listing)?;
    let notices = findings.iter().filter(|it| it.is_notice()).count();
    if notices > 0 {
        let these = counted(notices, "finding concerns", "findings concern");
        console.remark(&format!(
            "{these} only the author of the object, and the check does not fail for it"
        ));
    }
    let count = findings.len() - notices;
    if count == 0 {
        return Ok(());
    }
    let fixes: Vec<_> = findings.iter().filter_map(Finding::fix).collect();
    if !command.fix || fixes.is_empty() {
        let mendable = if command.fix { 0 } else { fixes.len() };
        return Err(Failure::Found { count, mendable });
    }
    let lines = fixes.iter().map(|fix| format!("  {fix}\n"));
    let question = format!("This is to be done:\n{}Go on?", lines.collect::<String>());
    console.confirm(&question, command.consent.yes)?;
    let frees = fixes.iter().any(|it| matches!(it, Fix::DeleteRecord(_)));
    let mut mender = Mender::new(cluster, &scene);
    if frees {
        let remote = remote::find(cluster, &command.api).await;
        mender.ask(console, remote)?;
    }
    match count - mend(console, &mut mender, &fixes).await? {
        0 => Ok(()),
        count => Err(Failure::Found { count, mendable: 0 }),
    }
}

/// Mends one after the other; gives how many are mended.
async fn mend<C: Connect>(
    console: &mut Console,
    mender: &mut Mender<'_, C>,
    fixes: &[Fix],
) -> Result<usize, Failure> {
    let mut count = 0;
    for fix in fixes {
        match mender.mend(console, fix).await? {
            Ok(()) => {
                count += 1;
                console.remark(&format!("done: {fix}"));
            }
            Err(why) => console.warn(&format!("not done: {fix}: {why}")),
        }
    }
    Ok(count)
}

fn show(
    console: &mut Console,
    scene: &Scene,
    findings: &[Finding],
    listing: Listing,
) -> Result<(), Failure> {
    let table = |is_wide| table(findings, is_wide).without_header(listing.no_headers);
    match listing.output.format {
        Some(format @ (Format::Json | Format::Yaml)) => {
            let rows: Vec<Row> = findings.iter().map(Row::of).collect();
            console.print(&render::value(format, &rows)?)
        }
        Some(Format::Name) => {
            let lines = findings.iter().map(|it| format!("{}\n", it.subject()));
            console.print(&lines.collect::<String>())
        }
        Some(Format::Wide) | None if findings.is_empty() => console.print(&format!(
            "Everything fits together: {}, {}, {}, {}.",
            counted(scene.records.len(), "record", "records"),
            counted(scene.pods.len(), "pod", "pods"),
            counted(scene.pools.len(), "pool", "pools"),
            counted(scene.nodes.len(), "node", "nodes"),
        )),
        Some(Format::Wide) => console.print(&table(true).text()),
        None => console.print(&table(false).text()),
    }
}

fn table(findings: &[Finding], wide: bool) -> Table {
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
    table
}

/// A finding as programs read it.
#[derive(Serialize)]
struct Row {
    object: String,
    reason: &'static str,
    message: String,
    /// Whether it concerns only the author of the object, so that the check does not fail.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    notice: bool,
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
            notice: finding.is_notice(),
            fix: finding.fix().map(|fix| fix.to_string()),
            advice: finding.advice(),
        }
    }
}

#[cfg(test)]
mod tests;
