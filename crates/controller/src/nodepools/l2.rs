//! The provider without a cloud: an address of a pool is a `VirtualIP` whose holder is a node,
//! and the agents keep it there (decision 0007).
//!
//! An order is a name: that of the node which shall have the address. Who has it, the agents
//! settle among each other, so nothing here can make two nodes answer.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use floe_api::{
    flipop::pool::FloatingIPPool,
    floe::virtualip::{ACCEPTED, VirtualIP},
};
use floe_core::nodepool::{
    census::{bare, bare_node},
    cloud::{Capabilities, Class, Listed, Mark, Progress, Refusal, Taken},
    pool::Server,
    rivals,
};
use floe_providers::floating::{FloatingIps, Reply};
use jiff::Timestamp;
use kube::Client;
use tracing::{info, warn};

use self::{
    desk::{Desk, is_of, nodes_of},
    order::Order,
};
use super::{objects::Id, rivalry};

mod desk;
mod order;

/// The name of the provider in specifications.
pub const NAME: &str = "l2";

/// How many nodes an object can name.
const MOST: usize = 64;

/// The provider.
pub struct L2 {
    desk: Desk,
    /// The nodes that pools may choose, by the text of their server.
    nodes: Mutex<BTreeMap<Server, Node>>,
}

struct Node {
    name: String,
    /// One that is gone is still known by its name for a while: it may hold an address.
    is_there: bool,
}

/// A pool with an address.
struct Owner {
    id: Id,
    pool: FloatingIPPool,
}

impl L2 {
    /// By this client of the API server.
    pub fn new(client: Client) -> Self {
        Self {
            desk: Desk::new(client),
            nodes: Mutex::default(),
        }
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<Server, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node_of(&self, server: &str) -> Option<String> {
        let known = self.nodes().get(server).map(|it| it.name.clone());
        known.or_else(|| bare_node(server).map(str::to_owned))
    }

    fn server_of(&self, node: &str) -> Server {
        let nodes = self.nodes();
        let known = nodes.iter().find(|(_, it)| it.name == node);
        known.map_or_else(|| bare(node), |(server, _)| server.clone())
    }

    /// The node that shall have an address, and those that may be named next: whoever has it
    /// asks them for promises when the API server is away, so that none of them has to wait
    /// for minutes once it is named.
    fn named(&self, node: &str) -> Vec<String> {
        let nodes = self.nodes();
        let others = nodes.values().filter(|it| it.is_there && it.name != node);
        let mut others: Vec<&String> = others.map(|it| &it.name).collect();
        others.sort();
        others.dedup();
        let first = [node.to_owned()].into_iter();
        first
            .chain(others.into_iter().cloned())
            .take(MOST)
            .collect()
    }

    async fn owners(&self) -> Result<BTreeMap<IpAddr, Owner>, Refusal> {
        Ok(owners(&self.pools().await?))
    }

    /// The pools of this provider.
    async fn pools(&self) -> Result<BTreeMap<Id, FloatingIPPool>, Refusal> {
        let pools = self.desk.pools().await?.into_iter();
        let pools = pools.filter(|it| it.spec.provider == NAME && rivalry::is_there(it));
        Ok(pools.map(|pool| (id_of(&pool), pool)).collect())
    }

    async fn all(&self) -> Result<Vec<Listed>, Refusal> {
        let pools = self.pools().await?;
        let owners = owners(&pools);
        let objects = self.desk.objects().await?;
        let silent = self.desk.silent().await?;
        let mut servers: BTreeMap<IpAddr, Option<Server>> = BTreeMap::new();
        for object in &objects {
            // Anybody can label an object; only what was made here is ended here.
            let Some(ip) = desk::address_of(object) else {
                continue;
            };
            match owners.get(&ip) {
                Some(owner) if is_of(object, &owner.pool) => {
                    // Who does not renew its lease serves nothing, whatever its node does.
                    let holder = desk::holder_of(object).filter(|it| !silent.contains(*it));
                    servers.insert(ip, holder.map(|node| self.server_of(node)));
                    self.refresh(object).await;
                }
                // A pool that is refused for another address keeps what it has, as it would at
                // a cloud.
                _ if pools.values().any(|pool| is_listed(object, ip, pool)) => {}
                _ => self.drop_object(object).await,
            }
        }
        let listed = owners.keys().map(|ip| Listed {
            ip: *ip,
            server: servers.remove(ip).flatten(),
            busy: false,
            mark: None,
        });
        Ok(listed.collect())
    }

    /// No pool lists its address any more: it ends, when its holder has let go.
    async fn drop_object(&self, object: &VirtualIP) {
        if object.metadata.deletion_timestamp.is_some() {
            return;
        }
        let name = object.metadata.name.as_deref().unwrap_or_default();
        match self.desk.delete(object).await {
            Ok(()) => info!(name, "no pool has the address of a VirtualIP any more"),
            Err(refusal) => {
                let reason = refusal.class.reason();
                warn!(reason, name, error = %refusal, "a VirtualIP of a pool is left over");
            }
        }
    }

    /// Lets an object know which nodes may be named next.
    async fn refresh(&self, object: &VirtualIP) {
        let Some(first) = nodes_of(object).first() else {
            return;
        };
        let named = self.named(first);
        if nodes_of(object) == named || object.metadata.deletion_timestamp.is_some() {
            return;
        }
        if let Err(refusal) = self.desk.name(object, &named).await {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            let reason = refusal.class.reason();
            warn!(reason, name, error = %refusal, "a VirtualIP does not know all nodes yet");
        }
    }

    async fn put_on(&self, ip: IpAddr, server: &str) -> Result<Taken, Refusal> {
        let Some(node) = self.node_of(server) else {
            let words = format!("no node has the server {server}");
            return Err(Refusal::new(Class::ServerUnknown, words));
        };
        let owners = self.owners().await?;
        let Some(owner) = owners.get(&ip) else {
            let words = format!("no pool of provider {NAME} lists {ip}");
            return Err(Refusal::new(Class::AddressUnknown, words));
        };
        let named = self.named(&node);
        match self.desk.object(&owner.id.namespace, ip).await? {
            None => self.desk.create(&owner.pool, ip, &named).await?,
            Some(object) => {
                desk::may_change(&object, &owner.pool)?;
                let is_named = nodes_of(&object).first() == Some(&node);
                if desk::holder_of(&object) == Some(&node) {
                    let silent = self.desk.silent().await?;
                    if silent.contains(&node) {
                        let words = format!("the agent of node {node} is silent");
                        return Err(Refusal::new(Class::Unavailable, words));
                    }
                    if is_named {
                        return Ok(Taken::Done);
                    }
                }
                self.desk.name(&object, &named).await?;
            }
        }
        Ok(Taken::Pending(Order::to(&node, Timestamp::now()).text()))
    }

    async fn take_off(&self, ip: IpAddr) -> Result<Taken, Refusal> {
        let owners = self.owners().await?;
        let Some(owner) = owners.get(&ip) else {
            return Ok(Taken::Done);
        };
        let Some(object) = self.desk.object(&owner.id.namespace, ip).await? else {
            return Ok(Taken::Done);
        };
        desk::may_change(&object, &owner.pool)?;
        if nodes_of(&object).is_empty() && desk::holder_of(&object).is_none() {
            return Ok(Taken::Done);
        }
        self.desk.name(&object, &[]).await?;
        Ok(Taken::Pending(Order::away(Timestamp::now()).text()))
    }

    async fn progress(&self, ip: IpAddr, handle: &str) -> Result<Progress, Refusal> {
        let Some(order) = Order::parse(handle) else {
            let words = format!("{handle:?} is no order");
            return Err(Refusal::new(Class::Invalid, words));
        };
        let owners = self.owners().await?;
        let unknown = || Refusal::new(Class::AddressUnknown, format!("{ip} has no VirtualIP"));
        let owner = owners.get(&ip).ok_or_else(unknown)?;
        let object = self.desk.object(&owner.id.namespace, ip).await?;
        let object = object.ok_or_else(unknown)?;
        let told = object.condition(ACCEPTED);
        let refused = told.filter(|it| it.status == "False");
        Ok(order.progress(
            nodes_of(&object),
            desk::holder_of(&object),
            refused.map(|it| it.message.as_str()),
            Timestamp::now(),
        ))
    }
}

impl FloatingIps for L2 {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            per_server: None,
            steals: true,
            displaces: false,
            configured_by_node: false,
            v4: true,
            v6: true,
            buys: false,
            marks: false,
        }
    }

    fn introduce(&self, server: &str, node: &str) {
        let mut nodes = self.nodes();
        // A node may have got its server later.
        nodes.retain(|known, it| it.name != node || known == server);
        let it = Node {
            name: node.to_owned(),
            is_there: true,
        };
        nodes.insert(server.to_owned(), it);
    }

    fn dismiss(&self, server: &str) {
        if let Some(it) = self.nodes().get_mut(server) {
            it.is_there = false;
        }
    }

    fn knows_bare_nodes(&self) -> bool {
        true
    }

    fn list(&self) -> Reply<'_, Vec<Listed>> {
        Box::pin(self.all())
    }

    fn assign<'a>(&'a self, ip: IpAddr, server: &'a str) -> Reply<'a, Taken> {
        Box::pin(self.put_on(ip, server))
    }

    fn detach(&self, ip: IpAddr) -> Reply<'_, Taken> {
        Box::pin(self.take_off(ip))
    }

    fn check<'a>(&'a self, ip: IpAddr, handle: &'a str) -> Reply<'a, Progress> {
        Box::pin(self.progress(ip, handle))
    }

    fn buy<'a>(&'a self, _: &'a str, _: bool, _: &'a Mark) -> Reply<'a, IpAddr> {
        let words = "addresses without a cloud cannot be bought: list them in ips";
        Box::pin(async move { Err(Refusal::new(Class::Invalid, words)) })
    }

    fn release<'a>(&'a self, _: IpAddr, _: &'a Mark) -> Reply<'a, ()> {
        let words = "addresses without a cloud are not bought, and not given back";
        Box::pin(async move { Err(Refusal::new(Class::Invalid, words)) })
    }
}

/// All addresses of pools, each with its pool. Those of pools that are not followed, because
/// another one has an address of theirs, are not among them.
fn owners(pools: &BTreeMap<Id, FloatingIPPool>) -> BTreeMap<IpAddr, Owner> {
    let claims = pools.iter();
    let claims = claims.map(|(id, pool)| (id.clone(), rivalry::claim(pool)));
    let claims: BTreeMap<_, _> = claims.collect();
    let refused = rivals::rivals(&claims);
    let mut owners = BTreeMap::new();
    for (id, pool) in pools {
        let Some(claim) = claims.get(id).filter(|_| !refused.contains_key(id)) else {
            continue;
        };
        for &ip in &claim.ips {
            let owner = Owner {
                id: id.clone(),
                pool: pool.clone(),
            };
            owners.insert(ip, owner);
        }
    }
    owners
}

/// Whether an object was made for an address that this very pool lists.
fn is_listed(object: &VirtualIP, ip: IpAddr, pool: &FloatingIPPool) -> bool {
    is_of(object, pool) && rivalry::claim(pool).ips.contains(&ip)
}

fn id_of(pool: &FloatingIPPool) -> Id {
    Id {
        namespace: pool.metadata.namespace.clone().unwrap_or_default(),
        name: pool.metadata.name.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
