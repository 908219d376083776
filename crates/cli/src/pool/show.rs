//! `kubectl floe pool show`.

use std::collections::BTreeMap;

use floe_core::ipam::state::State;
use kube::ResourceExt as _;

use super::{EVERYBODY, KIND, Pool, tally::Tally};
use crate::{
    args::Format,
    cluster::Cluster,
    console::Console,
    failure::Failure,
    record::Record,
    render::{self, sheet::Sheet},
};

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    namespace: &str,
    names: &[String],
    format: Option<Format>,
) -> Result<(), Failure> {
    let mut pools = Vec::new();
    for name in names {
        pools.push(super::one(cluster, namespace, name).await?);
    }
    if let Some(format) = format.filter(|_| render::is_raw(format)) {
        let objects = pools.iter().map(|pool| &pool.raw);
        return console.print(&render::objects(format, KIND, objects, false)?);
    }
    let records = super::records(cluster, console).await?;
    let sheets: Vec<_> = pools
        .iter()
        .map(|pool| sheet(pool, records.as_deref()).text())
        .collect();
    console.print(&sheets.join("\n"))
}

fn sheet(pool: &Pool, records: Option<&[Record]>) -> Sheet {
    let (name, namespace) = (
        pool.raw.name_any(),
        pool.raw.namespace().unwrap_or_default(),
    );
    let counts = if namespace == EVERYBODY {
        "the pods of all namespaces".to_owned()
    } else {
        format!("the pods of namespace {namespace}")
    };
    let mut sheet = Sheet::default();
    sheet
        .line("Name", &name)
        .line("Namespace", &namespace)
        .line("Counts", counts)
        .line("Size", pool.object.size.to_string())
        .line("Preallocate", pool.object.pre_allocate_ip.to_string());
    let Some(records) = records else {
        return sheet;
    };
    let tally = Tally::of(records);
    let own = records.iter().filter(|record| {
        let parts = record.parts();
        record.state != State::Reserved
            && parts.pool == Some(name.as_str())
            && (namespace == EVERYBODY
                || parts.namespace.is_empty()
                || parts.namespace == namespace)
    });
    let own: Vec<_> = own.collect();
    let mut workloads = BTreeMap::<_, u64>::new();
    for record in own.iter().filter(|record| record.state != State::Spare) {
        let workload = match record.workload() {
            // A pod without a workload stands for itself.
            none if none.is_empty() => record.parts().pod.to_owned(),
            workload => workload,
        };
        let holder = format!("{}/{workload}", record.parts().namespace);
        *workloads.entry(holder).or_default() += 1;
    }
    let addresses = own.iter().map(|record| {
        let (address, state) = (record.address(), record.state);
        format!("{address} {state} {}", record.holder())
    });
    sheet
        .line("Used", tally.used(&name, &namespace).to_string())
        .line("Spare", tally.spare(&name).to_string())
        .list(
            "Workloads",
            workloads
                .iter()
                .map(|(holder, count)| format!("{holder} ({count})")),
        )
        .list("Addresses", addresses);
    sheet
}
