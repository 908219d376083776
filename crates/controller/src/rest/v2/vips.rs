//! Addresses that several pods share: which pod has them.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use floe_api::{
    floe::virtualip::VirtualIP,
    rest::v2::{Vip, VipList, VipQuery},
};
use floe_core::{addr::IpSet, explain::shared, vip::VipId};

use super::{
    parameters::{Page, Parameters},
    problem::Refused,
    query::within,
};
use crate::rest::{
    Rest,
    access::{Access, Caller},
    openapi::Refusals,
};

pub mod view;

/// List and search `VirtualIPs`
///
/// Right: `list virtualips.floe.dev` in all namespaces. A parameter about the holder
/// leaves out those that nobody holds.
#[utoipa::path(
    get, path = "/v2/vips", tag = "vips", operation_id = "listVips", params(VipQuery),
    responses((status = 200, description = "One page", body = VipList), Refusals),
)]
pub async fn list(
    State(rest): State<Rest>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Json<VipList>, Refused> {
    caller.may(&Access::vip("list", "", "")).await?;
    let (page, wanted) = parameters.read(|all| Ok((Page::take(all)?, Wanted::take(all)?)))?;
    let mut found = match &wanted.namespace {
        Some(namespace) => known(&rest)?.within(namespace),
        None => known(&rest)?.all(),
    };
    found.retain(|(id, vip)| wanted.admits(id, vip));
    let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    let size = usize::try_from(page.size).unwrap_or(usize::MAX);
    let shown = found.iter().skip(offset).take(size);
    Ok(Json(VipList {
        items: shown.map(|(_, vip)| view::vip(vip)).collect(),
        total: u64::try_from(found.len()).unwrap_or(u64::MAX),
        page: page.number,
        size: page.size,
    }))
}

/// Show one `VirtualIP`
///
/// Right: `get virtualips.floe.dev` in its namespace.
#[utoipa::path(
    get, path = "/v2/vips/{namespace}/{name}", tag = "vips", operation_id = "getVip",
    params(
        ("namespace" = String, Path, description = "Its namespace", example = "shop"),
        ("name" = String, Path, description = "Its name"),
    ),
    responses((status = 200, description = "The VirtualIP", body = Vip), Refusals),
)]
pub async fn get(
    State(rest): State<Rest>,
    caller: Caller,
    names: Result<Path<(String, String)>, PathRejection>,
    parameters: Parameters,
) -> Result<Json<Vip>, Refused> {
    let Path((namespace, name)) = names?;
    caller.may(&Access::vip("get", &namespace, &name)).await?;
    parameters.read(|_| Ok(()))?;
    let id = VipId { namespace, name };
    let found: Option<Arc<VirtualIP>> = known(&rest)?.get(&id);
    let found = found.ok_or_else(|| {
        let VipId { namespace, name } = &id;
        let what = format!("there is no VirtualIP {name:?} in namespace {namespace:?}");
        Refused::not_found("NoSuchVirtualIP", what)
    })?;
    Ok(Json(view::vip(&found)))
}

/// All objects, once they are listed: before that nobody can say what there is.
fn known(rest: &Rest) -> Result<&crate::vips::store::Vips, Refused> {
    if rest.vips.is_complete() {
        return Ok(&rest.vips);
    }
    let why = "the VirtualIPs of the cluster are not listed yet; is their definition installed?";
    Err(Refused::unavailable("VirtualIPsUnknown", why))
}

/// Which objects. What is given must all hold.
#[derive(Clone, Debug, Default)]
struct Wanted {
    /// A text, in small letters.
    text: Option<String>,
    within: Option<IpSet>,
    states: Option<Vec<shared::State>>,
    namespace: Option<String>,
    pod: Option<String>,
    node: Option<String>,
}

impl Wanted {
    fn take(all: &mut BTreeMap<String, String>) -> Result<Self, Refused> {
        let ip = all.remove("ip").map(|text| within(&text)).transpose();
        let state = all.remove("state").map(|text| states(&text)).transpose();
        Ok(Self {
            text: all.remove("q").map(|text| text.to_lowercase()),
            within: ip.map_err(|why| Refused::parameter("ip", why))?,
            states: state.map_err(|why| Refused::parameter("state", why))?,
            namespace: all.remove("namespace"),
            pod: all.remove("pod"),
            node: all.remove("node"),
        })
    }

    fn admits(&self, id: &VipId, vip: &VirtualIP) -> bool {
        let facts = vip.facts();
        let (pod, node) = facts.holder.map_or(("", ""), |it| (it.pod, it.node));
        let is = |wanted: &Option<String>, found: &str| {
            let wanted = wanted.as_deref();
            wanted.is_none_or(|wanted| wanted == found)
        };
        let mut addresses = facts.addresses.iter();
        is(&self.namespace, &id.namespace)
            && is(&self.pod, pod)
            && is(&self.node, node)
            && (self.states.as_ref()).is_none_or(|all| all.contains(&facts.state()))
            && (self.within.as_ref()).is_none_or(|set| addresses.any(|ip| set.contains(*ip)))
            && self.is_text_of(id, &facts)
    }

    fn is_text_of(&self, id: &VipId, facts: &shared::Facts<'_>) -> bool {
        let Some(wanted) = &self.text else {
            return true;
        };
        let has = |text: &str| text.to_lowercase().contains(wanted);
        let holder = facts.holder;
        has(&format!("{}/{}", id.namespace, id.name))
            || holder.is_some_and(|it| has(it.pod) || has(it.node))
            || facts.addresses.iter().any(|ip| has(&ip.to_string()))
    }
}

fn states(text: &str) -> Result<Vec<shared::State>, &'static str> {
    let all = shared::State::ALL;
    text.split(',')
        .map(|name| {
            let found = all.into_iter().find(|state| state.text() == name);
            found.ok_or("it must be of Held, Vacant, Refused and Deleting")
        })
        .collect()
}
