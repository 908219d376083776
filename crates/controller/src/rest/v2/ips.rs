//! Addresses: lists and searches, and one of them.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use floe_api::rest::v2::{Ip, IpList, IpQuery};
use floe_core::config::AddressConfig;

use super::{
    parameters::Parameters,
    problem::Refused,
    query::{IpQuestion, address},
    view,
};
use crate::rest::{
    Rest,
    access::{Access, Caller},
    openapi::Refusals,
};

/// List and search addresses
///
/// Right: `list floatingips.galaxy.k8s.io`. A parameter about holders leaves out free
/// addresses; an empty one means holders that have no such thing. If more than 65536
/// IPv6 addresses are configured, the free ones of IPv6 are not listed.
#[utoipa::path(
    get, path = "/v2/ips", tag = "ips", operation_id = "listIps", params(IpQuery),
    responses((status = 200, description = "One page", body = IpList), Refusals),
)]
pub async fn list(
    State(rest): State<Rest>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Json<IpList>, Refused> {
    caller.may(&Access::ips("list")).await?;
    let question = parameters.read(IpQuestion::take)?;
    let page = question.page;
    let config = if question.asks_the_configuration() {
        rest.store
            .read(|books| books.ledger().topology().config().clone())
    } else {
        AddressConfig::default()
    };
    let found = rest.directory.page(&question.query(&config));
    Ok(Json(IpList {
        items: view::ips(&rest, &found.items),
        total: found.total,
        page: page.number,
        size: page.size,
    }))
}

/// Show one address
///
/// Right: `list floatingips.galaxy.k8s.io`. 404 with the reason `NotConfigured` if it
/// has no record and is in no range.
#[utoipa::path(
    get, path = "/v2/ips/{ip}", tag = "ips", operation_id = "getIp",
    params(("ip" = String, Path, description = "The address", example = "10.0.70.2")),
    responses((status = 200, description = "The address", body = Ip), Refusals),
)]
pub async fn get(
    State(rest): State<Rest>,
    caller: Caller,
    path: Result<Path<String>, PathRejection>,
    parameters: Parameters,
) -> Result<Json<Ip>, Refused> {
    caller.may(&Access::ips("list")).await?;
    let Path(text) = path?;
    parameters.read(|_| Ok(()))?;
    let ip = address("ip", &text)?;
    let item = rest.directory.get(ip).ok_or_else(|| {
        let what = format!("{ip} has no record and is in no range of the configuration");
        Refused::not_found("NotConfigured", what)
    })?;
    Ok(Json(view::one(&rest, &item)))
}
