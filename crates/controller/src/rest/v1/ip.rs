//! The list of addresses, and their release.

use axum::{
    Json,
    body::Bytes,
    extract::{Query, State, rejection::BytesRejection, rejection::QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use floe_api::rest::v1::{self, IpPage, Release, Released};
use floe_core::{
    addr,
    catalogue::{Item, Page},
    ipam::{
        key::{HolderKey, KeyParts, KindPrefix},
        policy::ReleasePolicy,
        releasable::{Judgement, Presence, partly_released},
        state,
    },
};
use jiff::Timestamp;

use self::query::Asked;
use super::refusal::{Refusal, parse};
use crate::{
    actions::release::Wish,
    rest::{
        Rest,
        access::{Access, Caller},
    },
};

mod query;

/// What galaxy prints for a record that has no time, and for a free address.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// The reason, for figures, of all that galaxy's rules do not let go.
const NOT_RELEASABLE: &str = "NotReleasable";

/// `GET /v1/ip`
pub async fn list(
    State(rest): State<Rest>,
    caller: Caller,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<IpPage>, Refusal> {
    caller.may(&Access::ips("list")).await?;
    let Query(parameters) =
        query.map_err(|it| Refusal::bad_request("InvalidParameter", it.body_text()))?;
    let asked =
        Asked::of(&parameters).map_err(|why| Refusal::bad_request("InvalidParameter", why))?;
    let page = rest.directory.page(&asked.query());
    Ok(Json(answer(&rest, &asked, &page)))
}

/// `POST /v1/ip`
pub async fn release(
    State(rest): State<Rest>,
    caller: Caller,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    caller.may(&Access::ips("delete")).await?;
    let Release { ips } = parse(body)?;
    // Nothing is released unless everything can be read.
    let mut addresses = Vec::with_capacity(ips.len());
    for v1::Ip { ip, .. } in &ips {
        let address = addr::parse(ip);
        let invalid = || {
            let why = format!("{ip:?} is not a valid ip");
            Refusal::bad_request("InvalidParameter", why)
        };
        addresses.push(address.ok_or_else(invalid)?);
    }
    let mut reasons: Vec<Option<String>> = Vec::with_capacity(ips.len());
    let mut wishes = Vec::new();
    for (ip, address) in ips.iter().zip(&addresses) {
        let kind = query::kind(&ip.app_type, ip.is_deployment);
        let holder = KeyParts {
            pool: Some(ip.pool_name.as_str()).filter(|pool| !pool.is_empty()),
            kind: kind.as_str(),
            namespace: &ip.namespace,
            app: &ip.app_name,
            pod: &ip.pod_name,
        };
        // No holder that galaxy can name has a shared one.
        let shared = rest.actions.shared(*address);
        let (refusal, counted) = match &shared {
            Some(error) => (Some(error.galaxy_text()), error.reason()),
            None => (judge(&rest, false, &holder).refusal(), NOT_RELEASABLE),
        };
        if refusal.is_none() {
            wishes.push(Wish {
                ip: *address,
                key: Some(HolderKey::lookup(&holder)),
            });
        } else {
            rest.actions.metrics.api_refused(counted);
        }
        reasons.push(refusal);
    }
    let mut results = rest.actions.release(&wishes, false).await.into_iter();
    let mut answer = Released {
        code: StatusCode::OK.as_u16(),
        ..Released::default()
    };
    for (ip, refusal) in addresses.iter().zip(reasons) {
        let reason = refusal.or_else(|| {
            let result = results.next()?;
            result.err().map(|error| error.galaxy_text())
        });
        if let Some(reason) = reason {
            answer.unreleased.push(ip.to_string());
            answer.reasons.push(reason);
        }
    }
    let failed = answer.unreleased.len();
    if failed == 0 {
        return Ok(Json(answer).into_response());
    }
    answer.code = StatusCode::ACCEPTED.as_u16();
    answer.message = partly_released(addresses.len() - failed, failed);
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

fn answer(rest: &Rest, asked: &Asked, page: &Page) -> IpPage {
    let content: Vec<v1::Ip> = page.items.iter().map(|item| shown(rest, item)).collect();
    let (size, total) = (asked.size(), page.total);
    // Compat: a page beyond the end starts at the end.
    let start = asked.offset().min(total);
    let count = u64::try_from(content.len()).unwrap_or(u64::MAX);
    IpPage {
        last: start.saturating_add(count) >= total,
        total_elements: total,
        total_pages: total.div_ceil(size),
        first: start == 0,
        number_of_elements: count,
        size,
        number: start / size,
        content,
    }
}

fn shown(rest: &Rest, item: &Item) -> v1::Ip {
    let row = match item {
        Item::Held(row) => row,
        Item::Free(ip) => {
            return v1::Ip {
                ip: ip.to_string(),
                policy: ReleasePolicy::default().number(),
                update_time: NO_TIME.into(),
                ..v1::Ip::default()
            };
        }
    };
    let holder = row.key.parts().unwrap_or_default();
    let reserved = row.state == state::State::Reserved;
    let judged = judge(rest, reserved, &holder);
    v1::Ip {
        ip: row.ip.to_string(),
        namespace: holder.namespace.into(),
        app_name: holder.app.into(),
        pod_name: holder.pod.into(),
        pool_name: holder.pool.unwrap_or_default().into(),
        // Compat: galaxy has answered it once, and does not any more.
        is_deployment: false,
        policy: row.policy.number(),
        app_type: KindPrefix::from_key(holder.kind).app_type().into(),
        update_time: time(row.updated),
        status: judged.status().into(),
        releasable: judged.is_releasable(),
    }
}

/// Judges by what the cache says, as galaxy does; before anything is released the
/// API server is asked.
fn judge(rest: &Rest, reserved: bool, holder: &KeyParts<'_>) -> Judgement<'static> {
    Judgement::of(reserved, holder, |namespace, pod| {
        if !rest.store.warmth().borrow().pods {
            return Presence::Unknown;
        }
        let pod = rest.cluster.pod(namespace, pod);
        pod.map_or(Presence::Missing, |pod| Presence::Found {
            phase: pod.phase_text,
        })
    })
}

fn time(updated: Timestamp) -> String {
    if updated == Timestamp::UNIX_EPOCH {
        NO_TIME.into()
    } else {
        updated.to_string()
    }
}
