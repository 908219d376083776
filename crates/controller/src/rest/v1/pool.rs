//! Pools. Those of galaxy are in the namespace that counts for everybody.

use axum::{
    Json,
    body::Bytes,
    extract::{
        Path, State,
        rejection::{BytesRejection, PathRejection},
    },
    http::StatusCode,
    response::{IntoResponse, Response},
};
use floe_api::rest::v1::{Answer, Pool, PoolAnswer, PoolSet};

use super::refusal::{Refusal, parse};
use crate::{
    actions::pool::{Filling, PoolError, PoolId, Settings},
    rest::{
        Rest,
        access::{Access, Caller},
        setting::{MaySet, SetError},
    },
    store::EVERYWHERE,
};

/// The name of a pool, as it is in the path.
type Name = Result<Path<String>, PathRejection>;

/// What is said when addresses lack.
const NOT_ENOUGH: &str = "No enough IPs";

/// `GET /v1/pool/{name}`
pub async fn get(
    State(rest): State<Rest>,
    caller: Caller,
    name: Name,
) -> Result<Json<PoolAnswer>, Refusal> {
    let Path(name) = name?;
    caller.may(&Access::pool("get", EVERYWHERE, &name)).await?;
    let pool = rest.actions.pool(&existing(&name)?).await?;
    let pool = pool.ok_or_else(|| missing(&name))?;
    Ok(Json(PoolAnswer {
        code: StatusCode::OK.as_u16(),
        message: String::new(),
        pool: Pool {
            name,
            size: pool.size,
            pre_allocate_ip: pool.pre_allocate_ip,
        },
    }))
}

/// `DELETE /v1/pool/{name}`
pub async fn delete(
    State(rest): State<Rest>,
    caller: Caller,
    name: Name,
) -> Result<Json<Answer>, Refusal> {
    let Path(name) = name?;
    let access = Access::pool("delete", EVERYWHERE, &name);
    caller.may(&access).await?;
    rest.actions.delete_pool(&existing(&name)?).await?;
    Ok(Json(fine()))
}

/// `POST /v1/pool`
pub async fn set(
    State(rest): State<Rest>,
    caller: Caller,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let wanted = parse::<Pool>(body);
    // Who may not set it is not told what is wrong with the body either. Without a name
    // he must have the right for all pools.
    let name = wanted.as_ref().map_or("", |pool| pool.name.as_str());
    let rights = MaySet::of(&caller, EVERYWHERE, name).await?;
    let Pool {
        name,
        size,
        pre_allocate_ip,
    } = wanted?;
    let id = PoolId::new(EVERYWHERE, &name)?;
    let settings = Settings::new(size, pre_allocate_ip)?;
    rights.set(&rest.actions, &id, settings).await?;
    if !pre_allocate_ip {
        return Ok(Json(fine()).into_response());
    }
    let Filling { has, short } = rest.actions.fill_pool(&id).await?;
    let (status, message) = if short {
        (StatusCode::ACCEPTED, NOT_ENOUGH)
    } else {
        (StatusCode::OK, "")
    };
    let answer = PoolSet {
        code: status.as_u16(),
        message: message.into(),
        real_pool_size: i64::try_from(has).unwrap_or(i64::MAX),
    };
    Ok((status, Json(answer)).into_response())
}

impl From<PoolError> for Refusal {
    fn from(error: PoolError) -> Self {
        if let PoolError::Missing { name } = &error {
            missing(name)
        } else if error.is_callers_fault() {
            Self::bad_request(error.reason(), error)
        } else {
            Self::server_error(error.reason(), error)
        }
    }
}

impl From<SetError> for Refusal {
    fn from(error: SetError) -> Self {
        match error {
            SetError::Denied(denied) => denied.into(),
            SetError::Pool(error) => error.into(),
        }
    }
}

/// A pool that there may be: nobody has one whose name is impossible.
fn existing(name: &str) -> Result<PoolId, Refusal> {
    PoolId::new(EVERYWHERE, name).map_err(|_| missing(name))
}

fn missing(name: &str) -> Refusal {
    Refusal::not_found("PoolNotFound", format_args!("pool {name}"))
}

fn fine() -> Answer {
    Answer {
        code: StatusCode::OK.as_u16(),
        message: String::new(),
    }
}
