//! `kubectl floe ip list`.

use anstyle::{AnsiColor, Style};
use floe_core::ipam::state::State;
use jiff::Timestamp;

use super::KIND;
use crate::{
    args::{Format, IpList, Listing},
    cluster::Cluster,
    console::Console,
    failure::Failure,
    record::{self, Filter, Record},
    render::{
        self, age,
        table::{Cell, Table},
    },
};

/// Runs the command.
pub async fn run(cluster: &Cluster, console: &mut Console, args: &IpList) -> Result<(), Failure> {
    let selection = &args.selection;
    let filter = Filter::of(selection, cluster.namespace());
    let all = record::all(cluster, console, selection.selector.as_deref()).await?;
    let found: Vec<_> = all
        .into_iter()
        .filter(|record| filter.admits(record))
        .collect();
    let Listing { output, no_headers } = args.listing;
    if let Some(format) = output.format.filter(|_| render::is_raw(output.format)) {
        let objects = found.iter().map(|record| &record.raw);
        return console.print(&render::objects(format, KIND, objects, true)?);
    }
    if found.is_empty() {
        console.remark(&nothing(selection.all_namespaces, cluster.namespace()));
        return Ok(());
    }
    let is_wide = output.format == Some(Format::Wide);
    let table = table(&found, is_wide, Timestamp::now());
    console.print(&table.without_header(no_headers).text())
}

/// The style of a state.
pub fn style(state: State) -> Style {
    let color = match state {
        State::Bound => AnsiColor::Green,
        State::Kept | State::Spare => AnsiColor::Cyan,
        State::Reserved => AnsiColor::Blue,
        State::Shared => AnsiColor::Magenta,
        State::Foreign => AnsiColor::Red,
        State::Free => return Style::new(),
    };
    Style::new().fg_color(Some(color.into()))
}

fn table(found: &[Record], is_wide: bool, now: Timestamp) -> Table {
    let mut header = vec!["ADDRESS", "STATE", "HOLDER", "POLICY", "NODE", "SINCE"];
    if is_wide {
        header.extend(["POOL", "WORKLOAD", "POD-UID", "CONFIGURED", "KEY"]);
    }
    let mut table = Table::new(header);
    for record in found {
        let mut cells: Vec<Cell> = vec![
            record.address().into(),
            Cell::styled(record.state.text(), style(record.state)),
            record.holder().into(),
            record.policy.text().into(),
            (&record.node).into(),
            age::since(record.since, now).into(),
        ];
        if is_wide {
            let configured = if record.is_outside { "no" } else { "yes" };
            cells.extend([
                record.parts().pool.unwrap_or_default().into(),
                record.workload().into(),
                (&record.uid).into(),
                configured.into(),
                record.key.as_str().into(),
            ]);
        }
        table.row(cells);
    }
    table
}

fn nothing(all_namespaces: bool, namespace: &str) -> String {
    if all_namespaces {
        "No addresses found.".into()
    } else {
        format!("No addresses found in namespace {namespace}. -A shows those of all namespaces.")
    }
}
