//! Setting a pool, for both APIs: the right first, and only then a look at the pool.

use floe_api::galaxy::Pool;

use super::access::{Access, Caller, Denied};
use crate::actions::{
    Actions,
    pool::{PoolError, PoolId, Settings},
};

/// How often a pool is set again when somebody else was faster.
const TRIES: usize = 5;

/// What a caller may do who wants to set a pool.
pub struct MaySet {
    create: Result<(), Denied>,
    update: Result<(), Denied>,
}

/// Why a pool is not set.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The caller may not.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// It does not work.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl MaySet {
    /// Asks for both rights. Who has none of them is refused in the same words whether
    /// there is such a pool or not: he must not learn that.
    pub async fn of(caller: &Caller, namespace: &str, name: &str) -> Result<Self, Denied> {
        let create = Access::pool("create", namespace, name);
        let update = Access::pool("update", namespace, name);
        let both = Self {
            create: caller.may(&create).await,
            update: caller.may(&update).await,
        };
        match (&both.create, &both.update) {
            (Err(_), Err(undecided @ Denied::Undecided(_))) => Err(undecided.clone()),
            (Err(denied), Err(_)) => Err(denied.clone()),
            (Ok(()), _) | (_, Ok(())) => Ok(both),
        }
    }

    /// Sets a pool, and says whether it is new.
    pub async fn set(
        &self,
        actions: &Actions,
        id: &PoolId,
        settings: Settings,
    ) -> Result<(Pool, bool), SetError> {
        let mut tries = TRIES;
        loop {
            let before = actions.pool(id).await?;
            let is_new = before.is_none();
            let right = if is_new { &self.create } else { &self.update };
            right.clone()?;
            tries -= 1;
            match actions.set_pool(id, before, settings).await {
                Err(PoolError::Conflict { .. }) if tries > 0 => {}
                Err(error) => return Err(error.into()),
                Ok(pool) => return Ok((pool, is_new)),
            }
        }
    }
}
