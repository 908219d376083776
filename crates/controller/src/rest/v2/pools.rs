//! Pools: their limits, and how many addresses they have.

use std::collections::BTreeSet;

use axum::{
    Json,
    extract::{Path, Request, State, rejection::PathRejection},
    http::StatusCode,
};
use floe_api::{
    galaxy,
    rest::v2::{Pool, PoolList, PoolSettings},
};
use floe_core::ipam::{
    key::{HolderKey, KeyParts},
    ledger::Scope,
    state,
};

use super::{body, parameters::Parameters, problem::Refused};
use crate::{
    actions::pool::{PoolError, PoolId, Settings},
    rest::{
        Rest,
        access::{Access, Caller},
        openapi::Refusals,
    },
    store::{Books, EVERYWHERE},
};

/// How often a pool is set again when somebody else was faster.
const TRIES: usize = 5;

/// Namespace and name, as they are in the path.
type Names = Result<Path<(String, String)>, PathRejection>;

/// List all pools: those with a limit, and those that only holders name
///
/// Right: `list pools.galaxy.k8s.io` in all namespaces.
#[utoipa::path(
    get, path = "/v2/pools", tag = "pools", operation_id = "listPools",
    responses((status = 200, description = "All pools", body = PoolList), Refusals),
)]
pub async fn list(
    State(rest): State<Rest>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Json<PoolList>, Refused> {
    caller.may(&Access::pool("list", "", "")).await?;
    parameters.read(|_| Ok(()))?;
    let mut nameless: BTreeSet<String> = rest.directory.look(|catalogue| {
        let rows = catalogue.rows();
        let rows = rows.filter(|row| row.state != state::State::Reserved);
        let pools: BTreeSet<&str> = rows.filter_map(|row| row.key.parts()?.pool).collect();
        pools.into_iter().map(ToOwned::to_owned).collect()
    });
    let mut items: Vec<Pool> = rest.store.read(|books| {
        let pools = books.pools().iter();
        pools
            .map(|((namespace, name), pool)| shown(books, namespace, name, pool))
            .collect()
    });
    for pool in &items {
        nameless.remove(&pool.name);
    }
    items.extend(nameless.into_iter().map(|name| {
        let (used, spare) = rest.store.read(|books| usage(books, &name, None));
        Pool {
            name,
            namespace: None,
            size: None,
            pre_allocate_ip: false,
            used,
            spare,
        }
    }));
    items.sort_by(|a, b| (&a.name, &a.namespace).cmp(&(&b.name, &b.namespace)));
    Ok(Json(PoolList { items }))
}

/// Show a pool with a limit
///
/// Right: `get pools.galaxy.k8s.io` in its namespace.
#[utoipa::path(
    get, path = "/v2/pools/{namespace}/{name}", tag = "pools", operation_id = "getPool",
    params(
        ("namespace" = String, Path, description = "The namespace of the limit", example = "kube-system"),
        ("name" = String, Path, description = "The name of the pool"),
    ),
    responses((status = 200, description = "The pool", body = Pool), Refusals),
)]
pub async fn get(
    State(rest): State<Rest>,
    caller: Caller,
    names: Names,
    parameters: Parameters,
) -> Result<Json<Pool>, Refused> {
    let Path((namespace, name)) = names?;
    caller.may(&Access::pool("get", &namespace, &name)).await?;
    parameters.read(|_| Ok(()))?;
    let id = existing(&namespace, &name)?;
    let pool = rest.actions.pool(&id).await?;
    let pool = pool.ok_or_else(|| missing(&name))?;
    Ok(Json(
        rest.store
            .read(|books| shown(books, &namespace, &name, &pool)),
    ))
}

/// Set the limit of a pool
///
/// Right: `create pools.galaxy.k8s.io` in its namespace for a new limit, `update` for
/// another one. Addresses that are taken ahead are there at once, as far as there are
/// free ones: `used` and `spare` tell.
#[utoipa::path(
    put, path = "/v2/pools/{namespace}/{name}", tag = "pools", operation_id = "setPool",
    params(
        ("namespace" = String, Path, description = "The namespace of the limit", example = "kube-system"),
        ("name" = String, Path, description = "The name of the pool"),
    ),
    request_body = PoolSettings,
    responses(
        (status = 200, description = "The pool has this limit now", body = Pool),
        (status = 201, description = "The limit is new", body = Pool),
        Refusals,
    ),
)]
pub async fn set(
    State(rest): State<Rest>,
    caller: Caller,
    names: Names,
    parameters: Parameters,
    request: Request,
) -> Result<(StatusCode, Json<Pool>), Refused> {
    let Path((namespace, name)) = names?;
    parameters.read(|_| Ok(()))?;
    let id = PoolId::new(&namespace, &name)?;
    let mut before = rest.actions.pool(&id).await?;
    let verb = |before: &Option<galaxy::Pool>| {
        if before.is_some() { "update" } else { "create" }
    };
    let access = Access::pool(verb(&before), &namespace, &name);
    caller.may(&access).await?;
    let PoolSettings {
        size,
        pre_allocate_ip,
    } = body::read(request).await?;
    let settings = Settings::new(size, pre_allocate_ip)?;
    let mut tries = TRIES;
    let (pool, is_new) = loop {
        let is_new = before.is_none();
        tries -= 1;
        match rest.actions.set_pool(&id, before, settings).await {
            Err(PoolError::Conflict { .. }) if tries > 0 => {
                before = rest.actions.pool(&id).await?;
                let access = Access::pool(verb(&before), &namespace, &name);
                caller.may(&access).await?;
            }
            Err(error) => return Err(error.into()),
            Ok(pool) => break (pool, is_new),
        }
    };
    if pre_allocate_ip {
        rest.actions.fill_pool(&id).await?;
    }
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let pool = rest
        .store
        .read(|books| shown(books, &namespace, &name, &pool));
    Ok((status, Json(pool)))
}

/// Delete the limit of a pool
///
/// Right: `delete pools.galaxy.k8s.io` in its namespace. Its addresses stay with their
/// holders.
#[utoipa::path(
    delete, path = "/v2/pools/{namespace}/{name}", tag = "pools", operation_id = "deletePool",
    params(
        ("namespace" = String, Path, description = "The namespace of the limit", example = "kube-system"),
        ("name" = String, Path, description = "The name of the pool"),
    ),
    responses((status = 204, description = "It is gone"), Refusals),
)]
pub async fn delete(
    State(rest): State<Rest>,
    caller: Caller,
    names: Names,
    parameters: Parameters,
) -> Result<StatusCode, Refused> {
    let Path((namespace, name)) = names?;
    let access = Access::pool("delete", &namespace, &name);
    caller.may(&access).await?;
    parameters.read(|_| Ok(()))?;
    rest.actions
        .delete_pool(&existing(&namespace, &name)?)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn shown(books: &Books, namespace: &str, name: &str, pool: &galaxy::Pool) -> Pool {
    let part = (namespace != EVERYWHERE).then_some(namespace);
    let (used, spare) = usage(books, name, part);
    Pool {
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        size: Some(pool.size),
        pre_allocate_ip: pool.pre_allocate_ip,
        used,
        spare,
    }
}

/// How many addresses of a pool pods have, everywhere or in one namespace, and how
/// many wait for any pod.
fn usage(books: &Books, name: &str, namespace: Option<&str>) -> (u64, u64) {
    let key = HolderKey::lookup(&KeyParts {
        pool: Some(name),
        ..KeyParts::default()
    });
    let scope = namespace.map_or(Scope::Group, Scope::Namespace);
    let ledger = books.ledger();
    let used = ledger.group(&key).map_or(0, |group| group.held(scope));
    let spares = ledger.held_by(&key).filter(|record| !record.reserved);
    let figure = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    (figure(used), figure(spares.count()))
}

/// A pool that there may be: nobody has one whose name is impossible.
fn existing(namespace: &str, name: &str) -> Result<PoolId, Refused> {
    PoolId::new(namespace, name).map_err(|_| missing(name))
}

fn missing(name: &str) -> Refused {
    PoolError::Missing {
        name: name.to_owned(),
    }
    .into()
}
