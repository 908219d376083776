//! Takes addresses for one pool, for whoever asks: the leader's own care for all
//! pools, and people who set one.

use floe_core::ipam::{
    attribute::Attribute,
    key::PoolName,
    ledger::Promise,
    policy::ReleasePolicy,
    preallocate::{Order, next, spare_key},
};
use jiff::SignedDuration;
use tracing::{debug, info};

use crate::{
    clock,
    records::{Holding, Records, WriteError},
    store::Store,
    turns::Turns,
};

/// How long an address is set aside while it is written.
const ASIDE: SignedDuration = SignedDuration::from_mins(1);

/// How often another address is tried in a row when others are faster.
const TRIES: usize = 8;

/// Takes addresses for pools.
#[derive(Clone)]
pub struct Filler {
    /// The books.
    pub store: Store,
    /// Writes of records.
    pub records: Records,
    /// One at a time for each pool, under an empty namespace that no pod has.
    pub turns: Turns,
}

/// What a pool has afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// What it asks for.
    Enough,
    /// Less, for no address is free.
    Short {
        /// How many it lacks.
        missing: usize,
    },
}

impl Filler {
    /// Takes addresses for a pool, one after the other, until it has what it asks
    /// for or there are none. Two at a time would take too many.
    pub async fn fill(&self, name: &PoolName) -> Result<Filled, WriteError> {
        let _turn = self.turns.wait("", spare_key(name).as_str()).await;
        let mut tries = TRIES;
        loop {
            // Running pods come first.
            self.store.until_it_serves().await;
            match self.take_next(name).await {
                Ok(None) => {}
                Ok(Some(Order::Take(ip))) => {
                    info!(pool = %name, %ip, "address taken ahead of pods");
                    tries = TRIES;
                }
                Ok(Some(Order::Enough)) => return Ok(Filled::Enough),
                Ok(Some(Order::Short { missing })) => return Ok(Filled::Short { missing }),
                Err(error) => {
                    tries -= 1;
                    if tries == 0 || !matches!(error, WriteError::Conflict { .. }) {
                        return Err(error);
                    }
                    let reason = error.reason();
                    debug!(reason, pool = %name, %error, "trying another address");
                }
            }
        }
    }

    /// Decides and sets the address aside in one step, so that neither another
    /// decision takes it nor the pool gets more than its size meanwhile. `None` when
    /// running pods have to be looked at first.
    async fn take_next(&self, name: &PoolName) -> Result<Option<Order>, WriteError> {
        let key = spare_key(name);
        let aside = Aside {
            store: &self.store,
            id: format!("pool/{name}"),
        };
        let order = self.store.change(|books| {
            if !books.serves() {
                return None;
            }
            let order = next(books.ledger(), name, &books.declared(name));
            if let Order::Take(ip) = order {
                let promise = Promise {
                    group: key.clone(),
                    namespace: String::new(),
                    app_prefix: key.clone(),
                    places: 1,
                    addresses: [ip].into(),
                    until: clock::now() + ASIDE,
                };
                books.promise(&aside.id, Some(promise));
            }
            Some(order)
        });
        if let Some(Order::Take(ip)) = order {
            let holding = Holding {
                key,
                place: Attribute::default(),
                policy: ReleasePolicy::Never,
                note: None,
            };
            self.records.take(ip, &holding).await?;
        }
        Ok(order)
    }
}

/// An address that is set aside, until this is dropped.
struct Aside<'a> {
    store: &'a Store,
    id: String,
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        self.store.change(|books| books.promise(&self.id, None));
    }
}
