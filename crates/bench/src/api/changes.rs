//! What a change of one record costs, when every order was asked for and when none was.

use std::hint::black_box;

use anyhow::Result;
use floe_core::{
    catalogue::{Catalogue, Query, Sort},
    ipam::ledger::Record,
};

use super::scene;
use crate::{
    filter::percentile_99,
    scene::Size,
    table::{Figure, Row, Wanted},
};

const CALLS: usize = 1_000;

const SORTS: [Sort; 6] = [
    Sort::Pod,
    Sort::Namespace,
    Sort::App,
    Sort::Node,
    Sort::Policy,
    Sort::Since,
];

/// Measures records that change, and that come and go.
pub fn measure(size: Size) -> Result<Vec<Row>> {
    let records: Vec<Record> = scene::all(size).map(|it| it.record()).collect();
    let mut catalogue = Catalogue::default();
    catalogue.configure(size.config()?);
    catalogue.replace(records.iter());
    let before = [
        changed(&mut catalogue, &records),
        gone(&mut catalogue, &records),
    ];
    for sort in SORTS {
        black_box(catalogue.page(&Query {
            sort,
            limit: 1,
            ..Query::default()
        }));
    }
    black_box(catalogue.holders().count());
    let after = [
        changed(&mut catalogue, &records),
        gone(&mut catalogue, &records),
    ];
    let names = [
        "p99 of a changed record, all orders kept, beside none",
        "p99 of a record that goes and comes, all orders kept, beside none",
    ];
    let rows = names.into_iter().zip(after).zip(before);
    Ok(rows
        .map(|((name, after), before)| Row::new(name, after, Wanted::Nothing).against(before))
        .collect())
}

/// A record gets another pod, node and time.
fn changed(catalogue: &mut Catalogue, records: &[Record]) -> Figure {
    let mut nth = 0;
    percentile_99(CALLS, || {
        nth = (nth + 37_813) % records.len();
        let other = &records[records.len() - 1 - nth];
        let new = Record {
            ip: records[nth].ip,
            ..other.clone()
        };
        catalogue.set(new.ip, Some(&new));
    })
}

fn gone(catalogue: &mut Catalogue, records: &[Record]) -> Figure {
    let mut nth = 0;
    percentile_99(CALLS, || {
        nth = (nth + 37_813) % records.len();
        let record = &records[nth];
        catalogue.set(record.ip, None);
        catalogue.set(record.ip, Some(record));
    })
}
