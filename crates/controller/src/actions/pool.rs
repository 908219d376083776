//! Pools: reading, setting and deleting them, and filling one at once.

use std::{future::Future, time::Duration};

use floe_api::galaxy::Pool;
use floe_core::ipam::{
    key::{PoolName, PoolNameError},
    preallocate::spare_key,
};
use floe_shell::logs;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api,
    api::{DeleteParams, PostParams, Preconditions},
};
use tokio::time::timeout;
use tracing::info;

use super::Actions;
use crate::{
    cluster::is_name,
    pools::{Filled, Filler},
    records::WriteError,
    store::Seen,
};

/// How long a call of the API server may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which Pool object, with parts that such an object can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolId {
    /// The namespace.
    namespace: String,
    /// The name.
    name: PoolName,
}

/// What to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The limit.
    size: i64,
    /// Whether addresses are taken ahead of pods.
    ahead: bool,
}

/// How many addresses a pool has, after it was to be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filling {
    /// Its addresses, spares included.
    pub has: usize,
    /// Whether addresses lack.
    pub short: bool,
}

/// Why a pool is not read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The name cannot be part of a key.
    #[error(transparent)]
    Name(#[from] PoolNameError),
    /// No object can have the name or the namespace.
    #[error(
        "{text:?} is no name that an object can have: lower-case letters, digits, - and . only"
    )]
    NoObjectName {
        /// The name or namespace.
        text: String,
    },
    /// A limit below nothing.
    #[error("pool size {size} is negative")]
    NegativeSize {
        /// The size.
        size: i64,
    },
    /// There is none.
    #[error("pool {name}")]
    Missing {
        /// The name of the pool.
        name: String,
    },
    /// Its namespace is not there.
    #[error("there is no namespace {namespace}")]
    NoNamespace {
        /// The namespace.
        namespace: String,
    },
    /// Somebody else was faster.
    #[error("pool {name} was changed by somebody else meanwhile")]
    Conflict {
        /// The name of the pool.
        name: String,
    },
    /// The API server says no.
    #[error("failed to {verb} Pool: {why}")]
    Refused {
        /// What was to be done.
        verb: &'static str,
        /// What it says.
        why: String,
    },
    /// The API server finds the object wrong.
    #[error("failed to {verb} Pool: {why}")]
    Invalid {
        /// What was to be done.
        verb: &'static str,
        /// What it says.
        why: String,
    },
    /// A record is not written, so that the pool is not filled.
    #[error("the pool is not filled yet: {0}")]
    Record(#[from] WriteError),
}

impl PoolId {
    /// Checks the names.
    pub fn new(namespace: &str, name: &str) -> Result<Self, PoolError> {
        let pool = PoolName::new(name)?;
        for text in [namespace, name] {
            let at_ends = |text: &str| text.starts_with(['-', '.']) || text.ends_with(['-', '.']);
            if !is_name(text) || at_ends(text) {
                let text = text.to_owned();
                return Err(PoolError::NoObjectName { text });
            }
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: pool,
        })
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }
}

impl Settings {
    /// Checks what to set.
    pub fn new(size: i64, ahead: bool) -> Result<Self, PoolError> {
        if size < 0 {
            return Err(PoolError::NegativeSize { size });
        }
        Ok(Self { size, ahead })
    }
}

impl PoolError {
    /// The stable reason for answers and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Name(error) => error.reason(),
            Self::NoObjectName { .. } => "InvalidPoolName",
            Self::NegativeSize { .. } => "InvalidPoolSize",
            Self::Missing { .. } => "PoolNotFound",
            Self::NoNamespace { .. } => "NamespaceNotFound",
            Self::Conflict { .. } => "PoolConflict",
            Self::Refused { .. } => "PoolWriteRefused",
            Self::Invalid { .. } => "PoolInvalid",
            Self::Record(error) => error.reason(),
        }
    }

    /// Whether the caller has asked for something that can never be.
    pub fn is_callers_fault(&self) -> bool {
        match self {
            Self::Name(_)
            | Self::NoObjectName { .. }
            | Self::NegativeSize { .. }
            | Self::NoNamespace { .. }
            | Self::Invalid { .. } => true,
            Self::Missing { .. }
            | Self::Conflict { .. }
            | Self::Refused { .. }
            | Self::Record(_) => false,
        }
    }
}

impl Actions {
    /// The pool as the API server has it now.
    pub async fn pool(&self, id: &PoolId) -> Result<Option<Pool>, PoolError> {
        within("get", id, self.pools(id).get_opt(id.name())).await
    }

    /// Creates a pool if there was none `before`, otherwise changes that one: a
    /// conflict when it is another one by now. The books have it at once.
    pub async fn set_pool(
        &self,
        id: &PoolId,
        before: Option<Pool>,
        settings: Settings,
    ) -> Result<Pool, PoolError> {
        let (api, parameters) = (self.pools(id), PostParams::default());
        let Settings { size, ahead } = settings;
        let written = match before {
            Some(pool) if (pool.size, pool.pre_allocate_ip) == (size, ahead) => pool,
            Some(mut pool) => {
                (pool.size, pool.pre_allocate_ip) = (size, ahead);
                within("update", id, api.replace(id.name(), &parameters, &pool)).await?
            }
            None => {
                let pool = Pool {
                    metadata: ObjectMeta {
                        name: Some(id.name().to_owned()),
                        namespace: Some(id.namespace.clone()),
                        ..ObjectMeta::default()
                    },
                    size,
                    pre_allocate_ip: ahead,
                };
                within("create", id, api.create(&parameters, &pool)).await?
            }
        };
        let (namespace, pool) = (id.namespace(), id.name());
        info!(namespace, pool, size, ahead, "pool was set by hand");
        let seen = Seen::Whole(written.clone());
        self.store.change(|books| books.pool(seen));
        Ok(written)
    }

    /// Deletes a pool. Its addresses stay with their holders.
    pub async fn delete_pool(&self, id: &PoolId) -> Result<(), PoolError> {
        let missing = || PoolError::Missing {
            name: id.name().to_owned(),
        };
        let api = self.pools(id);
        let before = within("delete", id, api.get_opt(id.name())).await?;
        let mut metadata = before.ok_or_else(missing)?.metadata;
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let deleted = within("delete", id, api.delete(id.name(), &parameters)).await?;
        // With finalizers it is still there, and counts.
        let waits = deleted
            .left()
            .and_then(|pool| pool.metadata.finalizers)
            .is_some_and(|all| !all.is_empty());
        if !waits {
            metadata.namespace = Some(id.namespace.clone());
            self.store.change(|books| books.pool_deleted(&metadata));
        }
        let (namespace, pool) = (id.namespace(), id.name());
        info!(namespace, pool, "pool was deleted by hand");
        Ok(())
    }

    /// Takes what a pool lacks now, as far as there are free addresses, and says
    /// how many it has then. What is left to do the leader does in the background.
    ///
    /// Compat: without any free address it is short, also when it lacks none.
    pub async fn fill_pool(&self, id: &PoolId) -> Result<Filling, PoolError> {
        let none_free = self.store.read(|books| {
            let ledger = books.ledger();
            let mut entries = ledger.topology().config().enumerate();
            entries.all(|(entry, _)| ledger.free_count(entry) == 0)
        });
        let short = if none_free {
            true
        } else {
            let filler = Filler {
                store: self.store.clone(),
                records: self.records.clone(),
                turns: self.turns.clone(),
            };
            matches!(filler.fill(&id.name).await?, Filled::Short { .. })
        };
        let has = self
            .store
            .read(|books| books.ledger().under(&spare_key(&id.name)).count());
        Ok(Filling { has, short })
    }

    fn pools(&self, id: &PoolId) -> Api<Pool> {
        Api::namespaced(self.client.clone(), id.namespace())
    }
}

async fn within<T>(
    verb: &'static str,
    id: &PoolId,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, PoolError> {
    let error = match timeout(PATIENCE, call).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => error,
        Err(_) => {
            let why = format!("no answer within {PATIENCE:?}");
            return Err(PoolError::Refused { verb, why });
        }
    };
    let kube::Error::Api(status) = &error else {
        let why = logs::with_causes(&error);
        return Err(PoolError::Refused { verb, why });
    };
    let (name, why) = (id.name().to_owned(), status.message.clone());
    Err(match (status.code, verb) {
        // What was to be changed is gone.
        (409, _) | (404, "update") => PoolError::Conflict { name },
        (404, "delete") => PoolError::Missing { name },
        // There is nothing that the pool could be in.
        (404, "create") => PoolError::NoNamespace {
            namespace: id.namespace.clone(),
        },
        (422, _) => PoolError::Invalid { verb, why },
        _ => PoolError::Refused { verb, why },
    })
}

#[cfg(test)]
mod tests;
