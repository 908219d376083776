//! Pools: their limits, and how many addresses they have.

use std::collections::{BTreeMap, BTreeSet};

use axum::{
    Json,
    extract::{Path, Request, State, rejection::PathRejection},
    http::StatusCode,
};
use floe_api::{
    galaxy,
    rest::v2::{Pool, PoolList, PoolSettings},
};
use floe_core::{
    catalogue::Catalogue,
    ipam::{
        key::{HolderKey, KeyParts},
        ledger::Scope,
    },
};

use super::{body, parameters::Parameters, problem::Refused};
use crate::{
    actions::pool::{PoolError, PoolId, Settings},
    rest::{
        Rest,
        access::{Access, Caller},
        openapi::Refusals,
        setting::MaySet,
    },
    store::{Books, EVERYWHERE},
};

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
    let spares = rest.directory.look(spares_of_all);
    let spare = |name: &str| spares.get(name).copied().unwrap_or(0);
    let mut items = rest.store.read(|books| {
        let pools = books.pools().iter();
        let mut items: Vec<Pool> = pools
            .map(|((namespace, name), pool)| {
                let used = used(books, name, part(namespace));
                with_limit(namespace, name, pool, (used, spare(name)))
            })
            .collect();
        let named: BTreeSet<&str> = items.iter().map(|pool| pool.name.as_str()).collect();
        let nameless = spares.keys().filter(|name| !named.contains(name.as_str()));
        let nameless: Vec<Pool> = nameless
            .map(|name| Pool {
                name: name.clone(),
                namespace: None,
                size: None,
                pre_allocate_ip: false,
                used: used(books, name, None),
                spare: spare(name),
            })
            .collect();
        items.extend(nameless);
        items
    });
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
    let rights = MaySet::of(&caller, &namespace, &name).await?;
    parameters.read(|_| Ok(()))?;
    let id = PoolId::new(&namespace, &name)?;
    let PoolSettings {
        size,
        pre_allocate_ip,
    } = body::read(request).await?;
    let settings = Settings::new(size, pre_allocate_ip)?;
    let (pool, is_new) = rights.set(&rest.actions, &id, settings).await?;
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
    let key = key(name);
    let spares = books.ledger().held_by(&key);
    let spare = figure(spares.filter(|record| !record.reserved).count());
    let used = used(books, name, part(namespace));
    with_limit(namespace, name, pool, (used, spare))
}

fn with_limit(namespace: &str, name: &str, pool: &galaxy::Pool, (used, spare): (u64, u64)) -> Pool {
    Pool {
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        size: Some(pool.size),
        pre_allocate_ip: pool.pre_allocate_ip,
        used,
        spare,
    }
}

/// How many addresses wait for any pod of a pool, of all pools that have addresses.
fn spares_of_all(catalogue: &Catalogue) -> BTreeMap<String, u64> {
    let mut spares: BTreeMap<String, u64> = BTreeMap::new();
    for holding in catalogue.holders() {
        let Some(pool) = holding.parts.pool else {
            continue;
        };
        // What names a pool and no workload is the pool's own.
        let spare = if holding.parts.app.is_empty() {
            holding.addresses
        } else {
            0
        };
        match spares.get_mut(pool) {
            Some(count) => *count += spare,
            None => drop(spares.insert(pool.to_owned(), spare)),
        }
    }
    spares
}

/// The namespace that a limit is for; none if it is for all.
fn part(namespace: &str) -> Option<&str> {
    (namespace != EVERYWHERE).then_some(namespace)
}

/// How many addresses of a pool pods have, everywhere or in one namespace.
fn used(books: &Books, name: &str, namespace: Option<&str>) -> u64 {
    let scope = namespace.map_or(Scope::Group, Scope::Namespace);
    let group = books.ledger().group(&key(name));
    figure(group.map_or(0, |group| group.held(scope)))
}

/// The key of what waits for any pod of a pool.
fn key(name: &str) -> HolderKey {
    HolderKey::lookup(&KeyParts {
        pool: Some(name),
        ..KeyParts::default()
    })
}

fn figure(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
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
