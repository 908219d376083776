//! `kubectl floe nodepool list`.

use anstyle::{AnsiColor, Style};
use floe_api::flipop::{PUBLISHED, READY};
use kube::ResourceExt as _;

use super::{KIND, NodePool};
use crate::{
    args::{Format, Listing, NodePoolList},
    cluster::Cluster,
    console::Console,
    failure::Failure,
    render::{
        self,
        table::{Cell, Table},
    },
};

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    args: &NodePoolList,
) -> Result<(), Failure> {
    let namespace = (!args.all_namespaces).then(|| cluster.namespace());
    let mut found = super::all(cluster, console, namespace, args.selector.as_deref()).await?;
    if let Some(node) = &args.node {
        found.retain(|pool| {
            let mut ips = pool.object.status.iter().flat_map(|it| it.ips.values());
            ips.any(|ip| ip.node_name == *node)
        });
    }
    let Listing { output, no_headers } = args.listing;
    if let Some(format) = output.format.filter(|_| render::is_raw(output.format)) {
        let objects = found.iter().map(|pool| &pool.raw);
        return console.print(&render::objects(format, KIND, objects, true)?);
    }
    if found.is_empty() {
        console.remark(&match namespace {
            None => "No node pools found.".to_owned(),
            Some(name) => format!(
                "No node pools found in namespace {name}. -A shows those of all namespaces."
            ),
        });
        return Ok(());
    }
    let is_wide = output.format == Some(Format::Wide);
    let mut header = vec![
        "NAMESPACE",
        "NAME",
        "PROVIDER",
        "ADDRESSES",
        "ACTIVE",
        "WAITING",
        "READY",
        "REASON",
    ];
    if is_wide {
        header.extend(["REGION", "DESIRED", "DNS", "PUBLISHED", "ERROR"]);
    }
    let mut table = Table::new(header);
    for pool in &found {
        table.row(row(pool, is_wide));
    }
    console.print(&table.without_header(no_headers).text())
}

fn row(pool: &NodePool, is_wide: bool) -> Vec<Cell> {
    let object = &pool.object;
    let status = object.status.clone().unwrap_or_default();
    let summary = status.summary.unwrap_or_default();
    let ready = object.condition(READY);
    let (state, reason) = match ready {
        Some(it) => (it.status.as_str(), it.reason.as_str()),
        // What cannot be followed has no such condition.
        None if !status.error.is_empty() => ("False", "Invalid"),
        None => ("", ""),
    };
    let mut cells: Vec<Cell> = vec![
        pool.raw.namespace().unwrap_or_default().into(),
        pool.raw.name_any().into(),
        object.spec.provider.as_str().into(),
        summary.addresses.to_string().into(),
        summary.active.to_string().into(),
        summary.waiting.to_string().into(),
        Cell::styled(state, style(state)),
        reason.into(),
    ];
    if is_wide {
        let dns = object.spec.dns_record_set.as_ref();
        let dns = dns.map(|it| format!("{} in {}", it.record_name, it.zone));
        cells.extend([
            object.spec.region.as_str().into(),
            object.spec.desired_ips.to_string().into(),
            dns.unwrap_or_default().into(),
            pool.condition(PUBLISHED).into(),
            status.error.into(),
        ]);
    }
    cells
}

fn style(state: &str) -> Style {
    let color = match state {
        "True" => AnsiColor::Green,
        "False" => AnsiColor::Red,
        _ => AnsiColor::Yellow,
    };
    Style::new().fg_color(Some(color.into()))
}
