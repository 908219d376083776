//! galaxy's API: paths, bodies and messages as its clients know them.
//!
//! - [`ip`]: the list of addresses, and their release.
//! - [`pool`]: what may be read and set of pools.
//! - [`swagger`]: what galaxy's API says about itself.
//! - [`refusal`]: what is answered when something is wrong.
//!
//! Compat: what is different from galaxy. A reserved address is not released. An
//! empty `appType` means `StatefulSet` also when addresses are released, as
//! documented. An explicit `sort=ip` sorts addresses as numbers. Names and sizes of
//! pools are checked.

use axum::{
    Router, middleware,
    routing::{get, post},
};

use super::Rest;

mod ip;
mod pool;
mod refusal;
mod swagger;

pub use self::swagger::Scheme;

/// The routes. What the API says about itself is open to everybody; `--swagger` has no
/// effect on it, as for galaxy.
pub fn router() -> Router<Rest> {
    let ips = || get(ip::list).post(ip::release);
    let pool = || get(pool::get).delete(pool::delete);
    let routes = Router::new()
        .route("/v1/ip", ips())
        .route("/v1/pool", post(pool::set))
        .route("/v1/pool/{name}", pool())
        // Compat: galaxy's router does not look at a slash at the end.
        .route("/v1/ip/", ips())
        .route("/v1/pool/", post(pool::set))
        .route("/v1/pool/{name}/", pool())
        .route_layer(middleware::from_fn(refusal::speaks_json))
        // After the layer: a wrong method is told first.
        .method_not_allowed_fallback(refusal::wrong_method);
    routes.merge(swagger::router())
}

#[cfg(test)]
mod tests;
