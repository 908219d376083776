//! Which pools list an address that another one keeps.

use std::{collections::BTreeMap, sync::Arc};

use floe_api::flipop::{address, pool::FloatingIPPool};
use floe_core::nodepool::rivals::{self, Claim, Rival};
use floe_providers::registry::Registry;
use tokio::sync::watch;

use super::{check, objects::Id};

/// The pools that are not to be followed, and why.
pub type Rivals = BTreeMap<Id, Rival<Id>>;

/// Decides anew, and tells it if it is not as before.
pub fn settle(
    pools: &BTreeMap<Id, Arc<FloatingIPPool>>,
    registry: &Registry,
    told: &watch::Sender<Rivals>,
) {
    let can_be = |pool: &FloatingIPPool| check::pool(&pool.spec, registry).is_ok();
    let claims = pools.iter();
    let claims = claims.filter(|(_, pool)| is_there(pool) && can_be(pool));
    let claims = claims.map(|(id, pool)| (id.clone(), claim(pool)));
    let rivals = rivals::rivals(&claims.collect());
    told.send_if_modified(|known| {
        let changed = *known != rivals;
        *known = rivals;
        changed
    });
}

/// A pool that is going, and has nothing to give back, keeps nothing; and neither does one
/// that cannot be followed anyway.
pub fn is_there(pool: &FloatingIPPool) -> bool {
    !pool.is_deleting() || pool.is_held()
}

/// What a pool lists.
pub fn claim(pool: &FloatingIPPool) -> Claim {
    let parsed = |text: &String| address::parse(text);
    let status = pool.status.iter();
    let created = pool.metadata.creation_timestamp.as_ref();
    Claim {
        provider: pool.spec.provider.clone(),
        ips: pool.spec.ips.iter().filter_map(parsed).collect(),
        held: status
            .flat_map(|it| it.ips.keys())
            .filter_map(parsed)
            .collect(),
        created: created.map(|it| it.0),
    }
}
