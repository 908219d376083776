//! Whether an object may name nodes that have its addresses themselves. Only a pool without a
//! cloud names nodes; whoever may merely write a `VirtualIP` must not give an address to a
//! node of his choice.

use floe_api::{
    flipop::{address, pool::FloatingIPPool},
    floe::virtualip::VirtualIP,
};
use floe_shell::Seen;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Resource as _};

use super::server::{Failure, Server, ask};
use crate::nodepools::l2;

/// Why something is not granted: the stable reason, and words for people.
pub type Why = (&'static str, String);

/// What is said of nodes for which no pool vouches.
pub fn refusal() -> Why {
    let words = "spec.nodes: only a FloatingIPPool with provider l2 that lists the addresses may \
                 name nodes";
    ("NodesNotAllowed", words.to_owned())
}

impl Server {
    /// Whether a pool in the namespace of an object has made it for an address that the pool
    /// lists, as the API server says now.
    pub async fn is_of_pool(&self, vip: &VirtualIP) -> Result<bool, Failure> {
        let namespace = vip.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Seen<FloatingIPPool>> = Api::namespaced(self.client(), namespace);
        let owners = vip.metadata.owner_references.iter().flatten();
        for owner in owners.filter(|it| is_pool(it)) {
            if let Some(Seen::Whole(pool)) = ask(api.get_opt(&owner.name)).await?
                && vouches(&pool, owner, vip)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_pool(owner: &OwnerReference) -> bool {
    let group = FloatingIPPool::group(&());
    let is_its = owner.api_version.split('/').next() == Some(&*group);
    is_its && owner.kind == FloatingIPPool::kind(&())
}

fn vouches(pool: &FloatingIPPool, owner: &OwnerReference, vip: &VirtualIP) -> bool {
    let listed = |text: &String| {
        let ip = address::parse(text);
        let mut ips = pool.spec.ips.iter().filter_map(|it| address::parse(it));
        ip.is_some_and(|ip| ips.any(|it| it == ip))
    };
    pool.metadata.uid.as_ref() == Some(&owner.uid)
        && pool.spec.provider == l2::NAME
        && vip.spec.addresses.iter().all(listed)
        && vip.spec.ranges.is_empty()
}
