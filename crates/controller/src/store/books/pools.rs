//! How pools are entered in the books.

use floe_api::galaxy::Pool;
use floe_core::ipam::{key::PoolName, preallocate::Declared};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use tracing::warn;

use super::{Books, News, PoolKey};
use crate::store::{Seen, order::Stamp};

/// The namespace whose Pools count for everybody.
pub const EVERYWHERE: &str = "kube-system";

const UNREADABLE_POOL: &str = "UnreadablePool";

impl Books {
    /// Enters a pool.
    pub fn pool(&mut self, object: Seen<Pool>) {
        let key = pool_key(object.meta());
        if !self.pool_order.exists(&key, &Stamp::of(object.meta())) {
            return;
        }
        match object {
            Seen::Whole(mut pool) => {
                pool.metadata.managed_fields = None;
                let name = key.1.clone();
                self.pools.insert(key, pool);
                self.tell(News::Pool(name));
            }
            Seen::Part { error, .. } => {
                let (namespace, pool) = &key;
                warn!(
                    reason = UNREADABLE_POOL,
                    namespace, pool, error, "pool cannot be read and does not count"
                );
                if self.pools.remove(&key).is_some() {
                    self.tell(News::Pool(key.1));
                }
            }
        }
    }

    /// What all Pools of a name say together, in whichever namespaces they are.
    pub fn declared(&self, name: &PoolName) -> Vec<Declared> {
        let of_name = self.pools.iter();
        let of_name = of_name.filter(|((_, it), _)| it == name.as_str());
        let declared = of_name.map(|((namespace, _), pool)| Declared {
            namespace: (namespace != EVERYWHERE).then(|| namespace.clone()),
            size: usize::try_from(pool.limit()).unwrap_or(usize::MAX),
            ahead: pool.pre_allocate_ip,
        });
        declared.collect()
    }

    /// The watch says that a pool was deleted.
    pub fn pool_gone(&mut self, metadata: &ObjectMeta) {
        let key = pool_key(metadata);
        if self.pool_order.gone(&key, &Stamp::of(metadata)) {
            self.pools.remove(&key);
            self.tell(News::Pool(key.1));
        }
    }

    /// This process has deleted a pool in this state.
    pub fn pool_deleted(&mut self, metadata: &ObjectMeta) {
        let key = pool_key(metadata);
        if self.pool_order.deleted(&key, Stamp::of(metadata)) {
            self.pools.remove(&key);
            self.tell(News::Pool(key.1));
        }
    }

    /// A list of all pools is asked for.
    pub fn begin_pools(&mut self) {
        self.pool_order.begin_list();
    }

    /// The list of all pools is complete.
    pub fn end_pools(&mut self) {
        for key in self.pool_order.end_list() {
            self.pools.remove(&key);
            self.tell(News::Pool(key.1));
        }
    }
}

fn pool_key(metadata: &ObjectMeta) -> PoolKey {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (text(&metadata.namespace), text(&metadata.name))
}
