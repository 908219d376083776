//! `kubectl floe vip list`.

use anstyle::{AnsiColor, Style};
use floe_api::floe::virtualip::{ACCEPTED, CLAIMED_BY, REACHABLE, SERVING};
use floe_core::explain::shared::State;
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::{KIND, Vip};
use crate::{
    args::{Format, Listing, VipList},
    cluster::Cluster,
    console::Console,
    failure::Failure,
    render::{
        self, age,
        table::{Cell, Table},
    },
};

/// Runs the command.
pub async fn run(cluster: &Cluster, console: &mut Console, args: &VipList) -> Result<(), Failure> {
    let namespace = (!args.all_namespaces).then(|| cluster.namespace());
    let mut found = super::all(cluster, console, namespace, args.selector.as_deref()).await?;
    if let Some(node) = &args.node {
        found.retain(|vip| {
            let holder = vip.object.facts().holder;
            holder.is_some_and(|it| it.node == node)
        });
    }
    let Listing { output, no_headers } = args.listing;
    if let Some(format) = output.format.filter(|_| render::is_raw(output.format)) {
        let objects = found.iter().map(|vip| &vip.raw);
        return console.print(&render::objects(format, KIND, objects, true)?);
    }
    if found.is_empty() {
        console.remark(&match namespace {
            None => "No shared addresses found.".to_owned(),
            Some(name) => format!(
                "No shared addresses found in namespace {name}. -A shows those of all namespaces."
            ),
        });
        return Ok(());
    }
    let is_wide = output.format == Some(Format::Wide);
    let table = table(&found, is_wide, Timestamp::now());
    console.print(&table.without_header(no_headers).text())
}

fn table(found: &[Vip], is_wide: bool, now: Timestamp) -> Table {
    let mut header = vec![
        "NAMESPACE",
        "NAME",
        "ADDRESS",
        "STATE",
        "HOLDER",
        "NODE",
        "SINCE",
        "CANDIDATES",
        "MOVES",
        "REASON",
    ];
    if is_wide {
        header.extend([
            "MODE",
            "NEXT",
            "ACCEPTED",
            "SERVING",
            "REACHABLE",
            "CLAIMED-BY",
        ]);
    }
    let mut table = Table::new(header);
    for vip in found {
        table.row(row(vip, is_wide, now));
    }
    table
}

fn row(vip: &Vip, is_wide: bool, now: Timestamp) -> Vec<Cell> {
    let facts = vip.object.facts();
    let state = facts.state();
    let (pod, node) = facts.holder.map_or(("", ""), |it| (it.pod, it.node));
    let since = facts.holder.map(|_| age::since(facts.since, now));
    let mut cells: Vec<Cell> = vec![
        vip.raw.namespace().unwrap_or_default().into(),
        vip.raw.name_any().into(),
        vip.addresses().into(),
        Cell::styled(state.text(), style(state)),
        pod.into(),
        node.into(),
        since.unwrap_or_default().into(),
        facts.candidates.len().to_string().into(),
        facts.moves.to_string().into(),
        facts.last_move.map_or("", |it| it.reason).into(),
    ];
    if is_wide {
        let holder = vip.object.status.as_ref().and_then(|it| it.holder.as_ref());
        let labels = vip.raw.metadata.labels.as_ref();
        let claimed_by = labels.and_then(|all| all.get(CLAIMED_BY));
        cells.extend([
            holder.map_or("", |it| it.mode.as_str()).into(),
            facts.successor.map_or("", |(next, _)| next.pod).into(),
            condition(vip, ACCEPTED).into(),
            condition(vip, SERVING).into(),
            condition(vip, REACHABLE).into(),
            claimed_by.map_or("", String::as_str).into(),
        ]);
    }
    cells
}

/// Whether a condition holds; if not, why.
fn condition(vip: &Vip, kind: &str) -> String {
    match vip.object.condition(kind) {
        None => String::new(),
        Some(it) if it.status == "True" => it.status.clone(),
        Some(it) => it.reason.clone(),
    }
}

/// The style of a state.
fn style(state: State) -> Style {
    let color = match state {
        State::Held => AnsiColor::Green,
        State::Vacant => AnsiColor::Yellow,
        State::Refused => AnsiColor::Red,
        State::Deleting => AnsiColor::Cyan,
    };
    Style::new().fg_color(Some(color.into()))
}
