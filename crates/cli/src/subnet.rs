//! `kubectl floe subnet`: configured ranges and how full they are.

use floe_api::rest::v2::SubnetList;

use crate::{
    args::{self, Format},
    cluster::Cluster,
    console::Console,
    failure::Failure,
    record,
    render::{
        self,
        bars::Share,
        table::{Cell, Table},
    },
};

pub mod settings;
mod usage;

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    command: &args::Subnet,
) -> Result<(), Failure> {
    let args::Subnet::List {
        config_map,
        listing,
    } = command;
    let args::Listing { output, no_headers } = *listing;
    let topology = settings::read(cluster, console, config_map).await?;
    let records = record::all(cluster, console, None).await?;
    // Only these tell how many nodes there are, and not everybody may list nodes.
    let counts_nodes = matches!(
        output.format,
        Some(Format::Wide | Format::Json | Format::Yaml)
    );
    let nodes = if counts_nodes {
        settings::nodes(cluster, console, &topology).await?
    } else {
        None
    };
    let subnets = usage::of(&topology, &records, nodes.as_ref());
    match output.format {
        Some(format @ (Format::Json | Format::Yaml)) => {
            console.print(&render::value(format, &subnets)?)
        }
        Some(Format::Name) => {
            let lines = subnets.items.iter().map(|it| format!("{}\n", it.subnet));
            console.print(&lines.collect::<String>())
        }
        Some(Format::Wide) => show(console, &subnets, Some(nodes.is_some()), no_headers),
        None => show(console, &subnets, None, no_headers),
    }
}

/// Shows the table; a wide one says how many nodes there are, if that is known.
fn show(
    console: &mut Console,
    subnets: &SubnetList,
    wide: Option<bool>,
    no_headers: bool,
) -> Result<(), Failure> {
    if subnets.items.is_empty() {
        console.remark("No addresses are configured.");
    } else {
        let table = table(subnets, wide, console.is_utf8());
        console.print(&table.without_header(no_headers).text())?;
    }
    if subnets.outside > 0 {
        let outside = subnets.outside;
        console.remark(&format!(
            "{outside} more records are of addresses outside of the configuration."
        ));
    }
    Ok(())
}

fn table(subnets: &SubnetList, wide: Option<bool>, is_utf8: bool) -> Table {
    let mut header = vec![
        "SUBNET",
        "USAGE",
        "CAPACITY",
        "FREE",
        "BOUND",
        "KEPT",
        "SPARE",
        "RESERVED",
        "NODE-SUBNETS",
    ];
    if wide.is_some() {
        header.extend(["FOREIGN", "GATEWAY", "VLAN", "RANGES"]);
    }
    let mut table = Table::new(header);
    for it in &subnets.items {
        let share = Share {
            used: u128::from(it.bound),
            waiting: u128::from(it.kept) + u128::from(it.spare) + u128::from(it.foreign),
            reserved: u128::from(it.reserved),
            capacity: it.capacity.parse().unwrap_or(u128::MAX),
        };
        let node_subnets = it.node_subnets.iter().map(|subnet| match wide {
            Some(true) => format!("{} ({})", subnet.subnet, subnet.nodes),
            Some(false) | None => subnet.subnet.clone(),
        });
        let mut cells: Vec<Cell> = vec![
            (&it.subnet).into(),
            Cell::styled(share.bar(is_utf8), share.style()),
            (&it.capacity).into(),
            (&it.free).into(),
            it.bound.to_string().into(),
            it.kept.to_string().into(),
            it.spare.to_string().into(),
            it.reserved.to_string().into(),
            node_subnets.collect::<Vec<_>>().join(",").into(),
        ];
        if wide.is_some() {
            cells.extend([
                it.foreign.to_string().into(),
                (&it.gateway).into(),
                it.vlan
                    .map_or_else(String::new, |vlan| vlan.to_string())
                    .into(),
                it.ranges.join(",").into(),
            ]);
        }
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests;
