//! Workloads and pools that hold addresses.

use std::collections::HashMap;

use axum::{Json, extract::State};
use floe_api::rest::v2::{HolderList, HolderQuery, HolderSummary};
use floe_core::{
    catalogue::Row,
    ipam::{
        key::{HolderKey, KeyParts},
        state,
    },
};

use super::{
    parameters::{Page, Parameters},
    problem::Refused,
    query::Wanted,
    view,
};
use crate::rest::{
    Rest,
    access::{Access, Caller},
    openapi::Refusals,
};

/// What one holder has.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    addresses: u64,
    bound: u64,
}

/// List workloads and pools that hold addresses
///
/// Right: `list floatingips.galaxy.k8s.io`. Reserved addresses, and records whose keys
/// name nobody, are not among them.
#[utoipa::path(
    get, path = "/v2/holders", tag = "holders", operation_id = "listHolders",
    params(HolderQuery),
    responses((status = 200, description = "One page", body = HolderList), Refusals),
)]
pub async fn list(
    State(rest): State<Rest>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Json<HolderList>, Refused> {
    caller.may(&Access::ips("list")).await?;
    let (page, wanted) = parameters.read(|all| Ok((Page::take(all)?, Wanted::take(all))))?;
    let mut found: Vec<(HolderKey, Count)> = rest.directory.look(|catalogue| {
        let all = counted(catalogue.rows()).into_iter();
        all.map(|(prefix, count)| (HolderKey::from(prefix), count))
            .filter(|(key, _)| wanted.admits_key(key))
            .collect()
    });
    found.sort_unstable_by(|(a, _), (b, _)| order(a).cmp(&order(b)));
    let total = found.len();
    let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    let size = usize::try_from(page.size).unwrap_or(usize::MAX);
    let items = found.into_iter().skip(offset).take(size);
    Ok(Json(HolderList {
        items: items
            .filter_map(|(key, count)| {
                Some(HolderSummary {
                    holder: view::holder(&key)?,
                    addresses: count.addresses,
                    bound: count.bound,
                })
            })
            .collect(),
        total: u64::try_from(total).unwrap_or(u64::MAX),
        page: page.number,
        size: page.size,
    }))
}

/// What each holder has, by what the keys of all its pods start with.
fn counted<'a>(rows: impl Iterator<Item = &'a Row>) -> HashMap<&'a str, Count> {
    let mut counts: HashMap<&str, Count> = HashMap::new();
    for row in rows.filter(|row| row.state != state::State::Reserved) {
        let Some(parts) = row.key.parts() else {
            continue;
        };
        let text = row.key.as_str();
        let prefix = &text[..text.len() - parts.pod.len()];
        let count = counts.entry(prefix).or_default();
        count.addresses += 1;
        count.bound += u64::from(row.state == state::State::Bound);
    }
    counts
}

fn order(key: &HolderKey) -> (&str, &str, &str, &str) {
    let KeyParts {
        pool,
        kind,
        namespace,
        app,
        ..
    } = key.parts().unwrap_or_default();
    (pool.unwrap_or_default(), namespace, kind, app)
}
