//! What people change: addresses that are released, reserved, and free again.

use std::{error::Error, fmt::Display, net::IpAddr};

use axum::{
    Json,
    extract::{Request, State},
};
use floe_api::rest::v2::{
    Outcome, Release, ReleaseAnswer, Reservation, ReservedAnswer, Unreservation,
};
use floe_core::{addr::IpSet, ipam::reservation};
use floe_shell::logs;

use super::{
    body,
    parameters::Parameters,
    problem::Refused,
    query::{address, within},
};
use crate::{
    actions::{
        release::{Freed, ReleaseError, Wish},
        reserve::{ReserveError, Reserved, UnreserveError, Unreserved},
    },
    rest::{
        Rest,
        access::{Access, Caller},
        openapi::Refusals,
    },
};

/// How many addresses one call may release.
const MOST_RELEASED: usize = 1000;

/// How many addresses one call may reserve, or the other way.
const MOST_RESERVED: u128 = 256;

/// Release addresses that nobody runs with
///
/// Right: `delete floatingips.galaxy.k8s.io`. Each address has its own result; an
/// address of a running pod, a reserved one, or one of another key is left alone.
#[utoipa::path(
    post, path = "/v2/ips/release", tag = "ips", operation_id = "releaseIps",
    request_body = Release,
    responses((status = 200, description = "One result for each", body = ReleaseAnswer), Refusals),
)]
pub async fn release(
    State(rest): State<Rest>,
    caller: Caller,
    parameters: Parameters,
    request: Request,
) -> Result<Json<ReleaseAnswer>, Refused> {
    caller.may(&Access::ips("delete")).await?;
    parameters.read(|_| Ok(()))?;
    let Release { ips, dry_run } = body::read(request).await?;
    if ips.len() > MOST_RELEASED {
        let why = format!("at most {MOST_RELEASED} addresses at once");
        return Err(Refused::parameter("ips", why));
    }
    // Nothing is released unless everything can be read.
    let mut wishes = Vec::with_capacity(ips.len());
    for (index, wanted) in ips.into_iter().enumerate() {
        wishes.push(Wish {
            ip: address(&format!("ips[{index}].ip"), &wanted.ip)?,
            key: wanted.key.map(Into::into),
        });
    }
    let results = rest.actions.release(&wishes, dry_run).await;
    let ips = wishes.iter().map(|wish| wish.ip);
    let results = told(ips, results, Freed::reason, ReleaseError::reason);
    Ok(Json(ReleaseAnswer { results, dry_run }))
}

/// Reserve free addresses, so that no pod gets them
///
/// Right: `create floatingips.galaxy.k8s.io`.
#[utoipa::path(
    post, path = "/v2/ips/reserve", tag = "ips", operation_id = "reserveIps",
    request_body = Reservation,
    responses((status = 200, description = "One result for each", body = ReservedAnswer), Refusals),
)]
pub async fn reserve(
    State(rest): State<Rest>,
    caller: Caller,
    parameters: Parameters,
    request: Request,
) -> Result<Json<ReservedAnswer>, Refused> {
    caller.may(&Access::ips("create")).await?;
    parameters.read(|_| Ok(()))?;
    let Reservation {
        ips,
        purpose,
        dry_run,
    } = body::read(request).await?;
    let ips = addresses(&ips)?;
    let key = reservation::key(purpose.as_deref())
        .map_err(|error| Refused::invalid(error.reason(), "purpose", &error))?;
    let results = rest.actions.reserve(&ips, &key, dry_run).await;
    let results = told(ips, results, Reserved::reason, ReserveError::reason);
    Ok(Json(ReservedAnswer { results, dry_run }))
}

/// Take reservations back
///
/// Right: `delete floatingips.galaxy.k8s.io`. What a pod has is left alone.
#[utoipa::path(
    post, path = "/v2/ips/unreserve", tag = "ips", operation_id = "unreserveIps",
    request_body = Unreservation,
    responses((status = 200, description = "One result for each", body = ReservedAnswer), Refusals),
)]
pub async fn unreserve(
    State(rest): State<Rest>,
    caller: Caller,
    parameters: Parameters,
    request: Request,
) -> Result<Json<ReservedAnswer>, Refused> {
    caller.may(&Access::ips("delete")).await?;
    parameters.read(|_| Ok(()))?;
    let Unreservation { ips, dry_run } = body::read(request).await?;
    let ips = addresses(&ips)?;
    let results = rest.actions.unreserve(&ips, dry_run).await;
    let results = told(ips, results, Unreserved::reason, UnreserveError::reason);
    Ok(Json(ReservedAnswer { results, dry_run }))
}

/// All addresses of a list of texts, each once and in their order.
fn addresses(texts: &[String]) -> Result<Vec<IpAddr>, Refused> {
    let too_many = || {
        let why = format!("at most {MOST_RESERVED} addresses at once");
        Refused::parameter("ips", why)
    };
    // Before they are read: a body can have so many that this alone would take long.
    if u128::try_from(texts.len()).is_ok_and(|count| count > MOST_RESERVED) {
        return Err(too_many());
    }
    let mut all = IpSet::new();
    for (index, text) in texts.iter().enumerate() {
        let set = within(text).map_err(|why| Refused::parameter(format!("ips[{index}]"), why))?;
        all = all.union(&set);
    }
    if all.len() > MOST_RESERVED {
        return Err(too_many());
    }
    let ips = (0..all.len()).filter_map(|n| all.nth(n));
    Ok(ips.collect())
}

/// What became of each address, with its stable reason and in words.
fn told<T: Copy + Display, E: Error>(
    ips: impl IntoIterator<Item = IpAddr>,
    results: Vec<Result<T, E>>,
    done: fn(T) -> &'static str,
    refused: fn(&E) -> &'static str,
) -> Vec<Outcome> {
    let told = ips.into_iter().zip(results).map(|(ip, result)| {
        let (reason, message) = match &result {
            Ok(it) => (done(*it), it.to_string()),
            Err(error) => (refused(error), logs::with_causes(error)),
        };
        Outcome {
            ip: ip.to_string(),
            done: result.is_ok(),
            reason: reason.to_owned(),
            message,
        }
    });
    told.collect()
}
