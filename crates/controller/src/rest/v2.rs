//! floe's own API, for people and tools.
//!
//! - [`ips`]: addresses; [`changes`]: releasing and reserving them.
//! - [`subnets`], [`pools`], [`holders`]: the same summed up.
//! - [`vips`]: addresses that several pods share.
//! - [`explain`]: why an address is where it is, and why a pod has none.
//! - [`watch`]: changes as they happen.
//! - [`parameters`], [`body`], [`query`]: what a call says; [`view`], [`problem`]: what
//!   it is answered.
//!
//! Handlers ask for the caller's rights first, and read what he sent then.

use axum::{
    Router,
    routing::{get, post},
};

use super::{Rest, page};

mod body;
pub mod changes;
pub mod explain;
pub mod holders;
pub mod ips;
mod parameters;
pub mod pools;
mod problem;
mod query;
pub mod subnets;
mod view;
pub mod vips;
pub mod watch;

/// The routes, those of the documentation included.
pub fn router() -> Router<Rest> {
    Router::new()
        .route("/v2/ips", get(ips::list))
        .route("/v2/ips/{ip}", get(ips::get))
        .route("/v2/ips/release", post(changes::release))
        .route("/v2/ips/reserve", post(changes::reserve))
        .route("/v2/ips/unreserve", post(changes::unreserve))
        .route("/v2/subnets", get(subnets::list))
        .route("/v2/pools", get(pools::list))
        .route(
            "/v2/pools/{namespace}/{name}",
            get(pools::get).put(pools::set).delete(pools::delete),
        )
        .route("/v2/holders", get(holders::list))
        .route("/v2/vips", get(vips::list))
        .route("/v2/vips/{namespace}/{name}", get(vips::get))
        .route("/v2/explain", get(explain::explain))
        .route("/v2/watch", get(watch::watch))
        .merge(page::router())
        .method_not_allowed_fallback(problem::wrong_method)
}

#[cfg(test)]
mod tests;
