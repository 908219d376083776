//! Workloads and pools that hold addresses.

use axum::{Json, extract::State};
use floe_api::rest::v2::{HolderList, HolderQuery, HolderSummary};
use floe_core::catalogue::Holding;

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
    let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    let size = usize::try_from(page.size).unwrap_or(usize::MAX);
    let (items, total) = rest.directory.look(|catalogue| {
        let holders = catalogue.holders();
        let mut found = holders.filter(|holding| wanted.admits_holding(holding));
        let before = found.by_ref().take(offset).count();
        let items: Vec<HolderSummary> = found.by_ref().take(size).map(shown).collect();
        let total = before + items.len() + found.count();
        (items, total)
    });
    Ok(Json(HolderList {
        items,
        total: u64::try_from(total).unwrap_or(u64::MAX),
        page: page.number,
        size: page.size,
    }))
}

fn shown(holding: Holding<'_>) -> HolderSummary {
    HolderSummary {
        holder: view::parts_of(&holding.parts),
        addresses: holding.addresses,
        bound: holding.bound,
    }
}
