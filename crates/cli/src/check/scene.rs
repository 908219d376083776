//! What is compared, as the API server has it.

use std::net::IpAddr;

use floe_api::{
    floe::{NodeNetwork, virtualip::VirtualIP},
    galaxy::{self, FloatingIP},
    labels,
};
use floe_core::{
    audit::{Content, Life, Marks, Missing, Node, Pod, Pool, StoredRecord, Vip, World},
    ipam::{args::Args, names},
    vip::VipId,
};
use k8s_openapi::api::core::v1;
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, ObjectMeta},
};

use crate::{
    cluster::{Access, Cluster},
    failure::Failure,
    fetch,
    subnet::settings,
};

/// The namespace whose pools count for all.
const EVERYBODY: &str = "kube-system";

/// Everything that is compared.
pub struct Scene {
    /// The text of the configuration, if there is one.
    pub configuration: Option<String>,
    /// All records.
    pub records: Vec<StoredRecord>,
    /// The pods that want an address.
    pub pods: Vec<Pod>,
    /// All pools.
    pub pools: Vec<Pool>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// All `VirtualIP` objects; none if the cluster does not have that kind.
    pub vips: Option<Vec<Vip>>,
    /// What agents miss on their nodes; none if the cluster does not have that kind, or the
    /// caller may not list it.
    pub missing: Option<Vec<Missing>>,
    /// Whether the caller may not list what agents report.
    pub may_not_see_nodes: bool,
}

impl Scene {
    /// Reads it all. Records come first: a pod that comes later has a record that is
    /// not among them, and one that goes later is still there to be looked for again.
    pub async fn read(cluster: &Cluster, config_map: &str) -> Result<Self, Failure> {
        let configuration = match settings::text(cluster, config_map).await {
            Ok(text) => Some(text),
            Err(Failure::NoSuch { .. } | Failure::BadConfiguration { .. }) => None,
            Err(failure) => return Err(failure),
        };
        let failed = |error: kube::Error, access| cluster.failure(&error, access);
        let records = fetch::all(&cluster.records(), None, "records").await;
        let records = records.map_err(|error| failed(error, Access::records("list")))?;
        let pools = fetch::all(&cluster.pools(None), None, "pools").await;
        let pools = pools.map_err(|error| failed(error, Access::pools("list", None)))?;
        let access = |resource| Access {
            verb: "list",
            resource,
            namespace: None,
        };
        let pods: Api<v1::Pod> = Api::all(cluster.client.clone());
        let pods = fetch::all(&pods, None, "pods").await;
        let pods = pods.map_err(|error| failed(error, access("pods")))?;
        let nodes: Api<v1::Node> = Api::all(cluster.client.clone());
        let nodes = fetch::all(&nodes, None, "nodes").await;
        let nodes = nodes.map_err(|error| failed(error, access("nodes")))?;
        let missing = missing(cluster).await?;
        Ok(Self {
            configuration,
            records: records.into_iter().map(record).collect(),
            pods: pods.into_iter().filter(wants_address).map(pod).collect(),
            pools: pools.into_iter().filter_map(pool).collect(),
            nodes: nodes.iter().map(node).collect(),
            vips: vips(cluster).await?,
            may_not_see_nodes: missing.is_err(),
            missing: missing.unwrap_or_default(),
        })
    }

    /// The same for the audit.
    pub fn world(&self) -> World<'_> {
        World {
            configuration: self.configuration.as_deref(),
            records: &self.records,
            pods: &self.pods,
            pools: &self.pools,
            nodes: &self.nodes,
            vips: self.vips.as_deref(),
            missing: self.missing.as_deref(),
            everywhere: EVERYBODY,
            node_label: labels::node_label,
        }
    }
}

/// All `VirtualIP` objects. One that cannot be read is there all the same.
async fn vips(cluster: &Cluster) -> Result<Option<Vec<Vip>>, Failure> {
    let kind = ApiResource::erase::<VirtualIP>(&());
    let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &kind);
    let objects = match fetch::all(&api, None, "shared addresses").await {
        Ok(objects) => objects,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => {
            let access = Access {
                verb: "list",
                resource: "virtualips.floe.dev",
                namespace: None,
            };
            return Err(cluster.failure(&error, access));
        }
    };
    let vips = objects.into_iter().map(|raw| {
        let (namespace, name) = (raw.namespace().unwrap_or_default(), raw.name_any());
        let status = raw.try_parse::<VirtualIP>().ok().and_then(|it| it.status);
        Vip {
            id: VipId { namespace, name },
            addresses: status.map(|it| it.addresses).unwrap_or_default(),
        }
    });
    Ok(Some(vips.collect()))
}

/// What agents report as missing; the inner error if the caller may not list that. A cluster
/// without agents has no such objects.
async fn missing(cluster: &Cluster) -> Result<Result<Option<Vec<Missing>>, Forbidden>, Failure> {
    let api: Api<NodeNetwork> = Api::all(cluster.client.clone());
    let objects = match fetch::all(&api, None, "networks of nodes").await {
        Ok(objects) => objects,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Ok(None)),
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(Err(Forbidden)),
        Err(error) => {
            let access = Access {
                verb: "list",
                resource: "nodenetworks.floe.dev",
                namespace: None,
            };
            return Err(cluster.failure(&error, access));
        }
    };
    let mut all = Vec::new();
    for object in objects {
        let node = object.name_any();
        for it in object.status.into_iter().flat_map(|it| it.missing) {
            let pod = it.pod.split_once('/');
            if let (Ok(ip), Some((namespace, name))) = (it.ip.parse(), pod) {
                all.push(Missing {
                    ip,
                    pod: (namespace.to_owned(), name.to_owned()),
                    node: node.clone(),
                });
            }
        }
    }
    Ok(Ok(Some(all)))
}

/// The caller may not list a kind.
struct Forbidden;

/// A record as the audit sees it.
pub fn record(raw: DynamicObject) -> StoredRecord {
    let name = raw.name_any();
    let content = raw.try_parse::<FloatingIP>().ok().map(content);
    StoredRecord { name, content }
}

fn content(object: FloatingIP) -> Content {
    let note = |metadata: &ObjectMeta, name: &str| {
        let notes = metadata.annotations.as_ref();
        notes.and_then(|notes| notes.get(name)).cloned()
    };
    Content {
        key: object.spec.holder(),
        policy: object.spec.release_policy(),
        updated: object.spec.updated(),
        reserved: object.is_reserved(),
        marks: Marks {
            outside: object.is_outside_configuration(),
            node: object.node_label().map(str::to_owned),
            node_note: note(&object.metadata, labels::NODE),
            state: note(&object.metadata, labels::STATE),
        },
        attribute: object.spec.attribute,
    }
}

/// Compat: only requests of regular containers count, and any amount is one.
fn wants_address(pod: &v1::Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut requests = containers
        .filter_map(|it| it.resources.as_ref())
        .filter_map(|it| it.requests.as_ref());
    requests.any(|requests| requests.contains_key(names::RESOURCE))
}

fn pod(object: v1::Pod) -> Pod {
    let status = object.status.unwrap_or_default();
    let shown = status.pod_ips.into_iter().flatten().map(|it| it.ip);
    let shown = shown.chain(status.pod_ip);
    let args = object.metadata.annotations.as_ref();
    let args = args
        .and_then(|all| all.get(names::ARGS))
        .map(String::as_str);
    let claimed = Args::parse(args).and_then(|args| args.claimed());
    Pod {
        namespace: object.metadata.namespace.unwrap_or_default(),
        name: object.metadata.name.unwrap_or_default(),
        uid: object.metadata.uid.unwrap_or_default(),
        node: object.spec.and_then(|spec| spec.node_name),
        life: life(status.phase.as_deref()),
        claimed: claimed
            .ok()
            .map(|infos| infos.iter().map(|info| info.ip.addr()).collect()),
        shown: shown.filter_map(|ip| ip.parse::<IpAddr>().ok()).collect(),
    }
}

/// How far a pod of that phase is.
pub fn life(phase: Option<&str>) -> Life {
    match phase {
        Some("Running") => Life::Running,
        Some("Succeeded" | "Failed") => Life::Finished,
        _ => Life::Pending,
    }
}

/// One that cannot be read does not count, for the controller neither.
fn pool(raw: DynamicObject) -> Option<Pool> {
    let (namespace, name) = (raw.namespace().unwrap_or_default(), raw.name_any());
    let object: galaxy::Pool = raw.try_parse().ok()?;
    Some(Pool {
        namespace,
        name,
        size: object.size,
        preallocate: object.pre_allocate_ip,
    })
}

fn node(object: &v1::Node) -> Node {
    Node {
        name: object.name_any(),
        address: settings::address(object),
    }
}
