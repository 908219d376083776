//! The `VirtualIP` objects of pools, at the API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use floe_api::{
    flipop::pool::FloatingIPPool,
    floe::{
        tenure::{self, LEASE_LABEL, LEASES},
        virtualip::{POOL, VirtualIP, VirtualIPSpec},
    },
};
use floe_core::{
    addr::name,
    nodepool::cloud::{Class, Refusal},
};
use k8s_openapi::{
    api::coordination::v1::Lease,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api, Client, Resource as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;
use tokio::time::Instant;

use super::super::server::{Failure, ask};

/// How long an agent may be silent. A new process of it needs some seconds. Nothing but a move
/// depends on it, and that is fenced.
const SILENT: Duration = Duration::from_secs(20);

/// The way to the API server. Objects are read there and not from a cache: a pool asks once a
/// minute, and when it moves an address.
pub struct Desk {
    client: Client,
    /// The versions of agents' leases, each with when it was first seen. What a lease says of
    /// the time is said by another clock.
    leases: Mutex<BTreeMap<String, (String, Instant)>>,
}

impl Desk {
    /// By this client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            leases: Mutex::default(),
        }
    }

    /// All pools of all providers.
    pub async fn pools(&self) -> Result<Vec<FloatingIPPool>, Refusal> {
        let api: Api<FloatingIPPool> = Api::all(self.client.clone());
        let listed = ask(api.list(&ListParams::default())).await;
        Ok(listed.map_err(|it| refusal(&it))?.items)
    }

    /// All objects of pools.
    pub async fn objects(&self) -> Result<Vec<VirtualIP>, Refusal> {
        let api: Api<VirtualIP> = Api::all(self.client.clone());
        let listed = ask(api.list(&ListParams::default().labels(POOL))).await;
        Ok(listed.map_err(|it| refusal(&it))?.items)
    }

    /// The object of an address, if there is one.
    pub async fn object(&self, namespace: &str, ip: IpAddr) -> Result<Option<VirtualIP>, Refusal> {
        match ask(self.api(namespace).get(&object_name(ip))).await {
            Ok(object) => Ok(Some(object)),
            Err(Failure::Gone) => Ok(None),
            Err(failure) => Err(refusal(&failure)),
        }
    }

    /// Makes the object of an address. It goes with its pool.
    pub async fn create(
        &self,
        pool: &FloatingIPPool,
        ip: IpAddr,
        nodes: &[String],
    ) -> Result<(), Refusal> {
        let namespace = pool.metadata.namespace.clone().unwrap_or_default();
        let owner = OwnerReference {
            api_version: FloatingIPPool::api_version(&()).into_owned(),
            kind: FloatingIPPool::kind(&()).into_owned(),
            name: pool.metadata.name.clone().unwrap_or_default(),
            uid: pool.metadata.uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        };
        let label = (POOL.to_owned(), owner.name.clone());
        let object = VirtualIP {
            metadata: ObjectMeta {
                name: Some(object_name(ip)),
                namespace: Some(namespace.clone()),
                labels: Some([label].into()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: VirtualIPSpec {
                addresses: vec![ip.to_string()],
                nodes: nodes.to_vec(),
                ..VirtualIPSpec::default()
            },
            status: None,
        };
        let made = ask(self.api(&namespace).create(&PostParams::default(), &object)).await;
        made.map(drop).map_err(|it| refusal(&it))
    }

    /// Makes an object name these nodes. Only which object it is matters: of two who write,
    /// the last word counts, and whoever wrote the other one finds out by its list.
    pub async fn name(&self, object: &VirtualIP, nodes: &[String]) -> Result<(), Refusal> {
        let named = (!nodes.is_empty()).then_some(nodes);
        let patch = json!({
            "metadata": { "uid": object.metadata.uid },
            "spec": { "nodes": named },
        });
        let (namespace, name) = place(object);
        let params = PatchParams::default();
        let written = ask(self
            .api(namespace)
            .patch(name, &params, &Patch::Merge(patch)))
        .await;
        written.map(drop).map_err(|it| refusal(&it))
    }

    /// Asks for the end of an object.
    pub async fn delete(&self, object: &VirtualIP) -> Result<(), Refusal> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: object.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let (namespace, name) = place(object);
        match ask(self.api(namespace).delete(name, &params)).await {
            Ok(_) | Err(Failure::Gone) => Ok(()),
            Err(failure) => Err(refusal(&failure)),
        }
    }

    /// The nodes whose agents have not renewed their leases for a while, as far as it was
    /// looked at them. Of one that holds nothing that means nothing.
    pub async fn silent(&self) -> Result<BTreeSet<String>, Refusal> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let listed = ask(api.list(&ListParams::default().labels(LEASE_LABEL))).await;
        let leases = listed.map_err(|it| refusal(&it))?.items.into_iter();
        let versions = leases.filter_map(|it| {
            let node = tenure::node_of(&it)?.to_owned();
            Some((node, it.metadata.resource_version?))
        });
        let mut known = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(silent(&mut known, versions.collect(), Instant::now()))
    }

    fn api(&self, namespace: &str) -> Api<VirtualIP> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// The nodes whose leases are seen as they are for too long. What was known of leases becomes
/// what is seen now.
fn silent(
    known: &mut BTreeMap<String, (String, Instant)>,
    seen: BTreeMap<String, String>,
    now: Instant,
) -> BTreeSet<String> {
    let mut silent = BTreeSet::new();
    let last = std::mem::take(known);
    for (node, version) in seen {
        let since = match last.get(&node) {
            Some((same, since)) if *same == version => *since,
            _ => now,
        };
        if now.duration_since(since) > SILENT {
            silent.insert(node.clone());
        }
        known.insert(node, (version, since));
    }
    silent
}

/// The nodes that an object names.
pub fn nodes_of(object: &VirtualIP) -> &[String] {
    &object.spec.nodes
}

/// The node that has the address of an object.
pub fn holder_of(object: &VirtualIP) -> Option<&str> {
    let holder = object.status.as_ref()?.holder.as_ref()?;
    Some(&holder.node)
}

/// The address of an object that a pool has made.
pub fn address_of(object: &VirtualIP) -> Option<IpAddr> {
    let [address] = object.spec.addresses.as_slice() else {
        return None;
    };
    let ip = address.parse().ok()?;
    let is_its = object.metadata.name.as_deref() == Some(&object_name(ip));
    let kind = FloatingIPPool::kind(&());
    let mut owners = object.metadata.owner_references.iter().flatten();
    let is_made = is_its && owners.any(|it| it.kind == kind);
    is_made.then_some(ip)
}

/// Whether an object was made for this very pool.
pub fn is_of(object: &VirtualIP, pool: &FloatingIPPool) -> bool {
    let mut owners = object.metadata.owner_references.iter().flatten();
    owners.any(|it| Some(&it.uid) == pool.metadata.uid.as_ref())
}

/// Whether a pool may change an object that has the name of its own.
pub fn may_change(object: &VirtualIP, pool: &FloatingIPPool) -> Result<(), Refusal> {
    let (namespace, name) = place(object);
    if object.metadata.deletion_timestamp.is_some() {
        let words = format!("VirtualIP {namespace}/{name} is still being deleted");
        return Err(Refusal::new(Class::Busy, words));
    }
    if !is_of(object, pool) {
        let words = format!("VirtualIP {namespace}/{name} is not of this pool");
        return Err(Refusal::new(Class::HeldElsewhere, words));
    }
    Ok(())
}

/// Not the plain name of the address: that is for objects which stand for annotations.
fn object_name(ip: IpAddr) -> String {
    format!("l2-{}", name::name(ip))
}

fn place(object: &VirtualIP) -> (&str, &str) {
    let meta = &object.metadata;
    (
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

fn refusal(failure: &Failure) -> Refusal {
    let class = match failure {
        Failure::Conflict => Class::Busy,
        Failure::Gone => Class::AddressUnknown,
        Failure::Forbidden(_) => Class::Unauthorized,
        Failure::Failed(_) => Class::Unavailable,
        Failure::Silent => Class::Unclear,
    };
    Refusal::new(class, failure.to_string())
}
