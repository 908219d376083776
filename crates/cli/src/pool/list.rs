//! `kubectl floe pool list`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::ResourceExt as _;

use super::{EVERYBODY, KIND, Pool, tally::Tally};
use crate::{
    args::Listing,
    cluster::Cluster,
    console::Console,
    failure::Failure,
    render::{
        self, age,
        table::{Cell, Table},
    },
};

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    namespace: Option<&str>,
    selector: Option<&str>,
    listing: Listing,
) -> Result<(), Failure> {
    let pools = super::all(cluster, namespace, selector).await?;
    let Listing { output, no_headers } = listing;
    if let Some(format) = output.format.filter(|_| render::is_raw(output.format)) {
        let objects = pools.iter().map(|pool| &pool.raw);
        return console.print(&render::objects(format, KIND, objects, true)?);
    }
    let records = super::records(cluster, console).await?;
    let tally = records.as_deref().map(Tally::of);
    let mut table = Table::new([
        "NAMESPACE",
        "NAME",
        "SIZE",
        "USED",
        "SPARE",
        "PREALLOCATE",
        "AGE",
    ]);
    let mut count = 0;
    for pool in &pools {
        table.row(row(pool, tally.as_ref()));
        count += 1;
    }
    // Names without a limit are no objects: no selector chooses them.
    if let (Some(tally), None, None) = (&tally, namespace, selector) {
        let known: BTreeSet<_> = pools.iter().map(|pool| pool.raw.name_any()).collect();
        for name in tally.others(&known) {
            table.row(unlimited(name, tally));
            count += 1;
        }
    }
    if count == 0 {
        console.remark(&match namespace {
            None => "No pools found.".to_owned(),
            Some(name) => {
                format!("No pools found in namespace {name}. -A shows those of all namespaces.")
            }
        });
        return Ok(());
    }
    console.print(&table.without_header(no_headers).text())
}

fn row(pool: &Pool, tally: Option<&Tally>) -> Vec<Cell> {
    let (name, namespace) = (
        pool.raw.name_any(),
        pool.raw.namespace().unwrap_or_default(),
    );
    let count = |number: &dyn Fn(&Tally) -> u64| {
        tally.map_or("?".to_owned(), |tally| number(tally).to_string())
    };
    let created = pool.raw.creation_timestamp().map(|time| time.0);
    vec![
        (&namespace).into(),
        (&name).into(),
        pool.object.size.to_string().into(),
        count(&|tally| tally.used(&name, &namespace)).into(),
        count(&|tally| tally.spare(&name)).into(),
        pool.object.pre_allocate_ip.to_string().into(),
        age::since(created, Timestamp::now()).into(),
    ]
}

/// A pool that only holders name.
fn unlimited(name: &str, tally: &Tally) -> Vec<Cell> {
    vec![
        "".into(),
        name.into(),
        "".into(),
        tally.used(name, EVERYBODY).to_string().into(),
        tally.spare(name).to_string().into(),
        "".into(),
        "".into(),
    ]
}
