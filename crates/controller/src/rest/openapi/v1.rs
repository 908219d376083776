//! galaxy's API as it is described. The functions are the places of the
//! descriptions and are never called.

#![expect(dead_code, reason = "only what is written above them counts")]

use floe_api::rest::v1::{Answer, IpPage, Pool, PoolAnswer, PoolSet, Release, Released};
use utoipa::IntoParams;

use super::GalaxyRefusals;

/// Which addresses, in which order, and which page of them.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct IpParameters {
    /// A text that keys have in them; then all other filters are not looked at.
    keyword: Option<String>,
    /// The pool.
    pool_name: Option<String>,
    /// The workload.
    app_name: Option<String>,
    /// The pod.
    pod_name: Option<String>,
    /// The namespace.
    namespace: Option<String>,
    /// The kind of the workload.
    #[param(default = "statefulset")]
    app_type: Option<String>,
    /// Deprecated. Without `appType`: whether the workload is a Deployment.
    #[param(default = "false")]
    is_deployment: Option<String>,
    /// The number of the page, from 0 on.
    #[param(default = "0")]
    page: Option<String>,
    /// How many a page has.
    #[param(default = "10")]
    size: Option<String>,
    /// What to sort by: `ip`, `namespace`, `podname` or `policy`, then `asc` or `desc`.
    /// Without it addresses are sorted as texts.
    #[param(example = "ip asc")]
    sort: Option<String>,
}

/// List addresses
///
/// Right: `list floatingips.galaxy.k8s.io`.
#[utoipa::path(
    get, path = "/v1/ip", tag = "v1", operation_id = "v1ListIps", params(IpParameters),
    responses((status = 200, description = "One page", body = IpPage), GalaxyRefusals),
)]
pub fn list_ip() {}

/// Release addresses
///
/// Right: `delete floatingips.galaxy.k8s.io`.
#[utoipa::path(
    post, path = "/v1/ip", tag = "v1", operation_id = "v1ReleaseIps", request_body = Release,
    responses(
        (status = 200, description = "All are free", body = Released),
        (status = 202, description = "Some are not released", body = Released),
        GalaxyRefusals,
    ),
)]
pub fn release_ip() {}

/// Show a pool
///
/// Right: `get pools.galaxy.k8s.io` in `kube-system`.
#[utoipa::path(
    get, path = "/v1/pool/{name}", tag = "v1", operation_id = "v1GetPool",
    params(("name" = String, Path, description = "The name of the pool")),
    responses((status = 200, description = "The pool", body = PoolAnswer), GalaxyRefusals),
)]
pub fn get_pool() {}

/// Create a pool, or change it
///
/// Right: `create pools.galaxy.k8s.io` in `kube-system`, or `update`. If addresses are
/// taken ahead, the answer also has `realPoolSize`, as that of 202.
#[utoipa::path(
    post, path = "/v1/pool", tag = "v1", operation_id = "v1SetPool", request_body = Pool,
    responses(
        (status = 200, description = "The pool is set", body = Answer),
        (status = 202, description = "It is set, and addresses lack", body = PoolSet),
        GalaxyRefusals,
    ),
)]
pub fn set_pool() {}

/// Delete a pool
///
/// Right: `delete pools.galaxy.k8s.io` in `kube-system`. Its addresses stay with their
/// holders.
#[utoipa::path(
    delete, path = "/v1/pool/{name}", tag = "v1", operation_id = "v1DeletePool",
    params(("name" = String, Path, description = "The name of the pool")),
    responses((status = 200, description = "It is gone", body = Answer), GalaxyRefusals),
)]
pub fn delete_pool() {}
