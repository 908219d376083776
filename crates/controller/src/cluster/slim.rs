//! Objects of the API server with only those fields that floe looks at.
//!
//! A pod has ten kilobytes and a node more, of which floe needs a few hundred
//! bytes. The rest, managed fields above all, is skipped while it is read.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use floe_core::{
    ipam::{names, owner::OwnerRef},
    rollout::strategy::{Amount, Strategy},
    schedule::caller,
};
use k8s_openapi::{
    api::core,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference, Time},
        util::intstr::IntOrString,
    },
};
use kube::Resource;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

/// A pod.
pub type PodObject = Slim<core::v1::Pod, PodSpec, PodStatus>;

/// A node.
pub type NodeObject = Slim<core::v1::Node, NodeSpec, NodeStatus>;

/// The definition of a custom resource.
pub type DefinitionObject = Slim<CustomResourceDefinition, DefinitionSpec, Nothing>;

/// An object of kind `K` with parts of its spec and of its status.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound = "S: Deserialize<'de> + Default, T: Deserialize<'de> + Default")]
pub struct Slim<K, S, T> {
    /// Name, uid, version, times, owners, labels and the annotations that matter.
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: S,
    /// What is.
    #[serde(default, deserialize_with = "or_default")]
    pub status: T,
    #[serde(skip, default)]
    kind: PhantomData<fn() -> K>,
}

/// No field of a part is looked at.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Nothing {}

/// The wishes of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// The node that it is bound to.
    #[serde(default)]
    pub node_name: Option<String>,
    /// Its regular containers.
    #[serde(default, deserialize_with = "or_default")]
    pub containers: Vec<Container>,
    /// What keeps the scheduler from looking at it, as it is written.
    #[serde(default, deserialize_with = "or_default")]
    pub scheduling_gates: Vec<Value>,
    /// Its affinity, as it is written.
    #[serde(default)]
    pub affinity: Option<Value>,
    /// The labels that its node has to have.
    #[serde(default, deserialize_with = "or_default")]
    pub node_selector: BTreeMap<String, String>,
    /// Its tolerations, as they are written.
    #[serde(default, deserialize_with = "or_default")]
    pub tolerations: Vec<Value>,
}

/// A regular container.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Container {
    /// What it needs.
    #[serde(default, deserialize_with = "or_default")]
    pub resources: Resources,
}

/// What a container needs.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Resources {
    /// The amounts that are set aside for it.
    #[serde(default, deserialize_with = "or_default")]
    pub requests: Requests,
}

/// Whether requests have the resource of floating IPs. The amount means nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Requests {
    #[serde(default, rename = "tke.cloud.tencent.com/eni-ip")]
    address: Option<IgnoredAny>,
}

impl Requests {
    /// Whether the resource is among them.
    pub fn want_address(self) -> bool {
        self.address.is_some()
    }
}

/// How a pod is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// How far it is in its life.
    #[serde(default)]
    pub phase: Option<String>,
    /// Its first address.
    #[serde(default, rename = "podIP")]
    pub pod_ip: Option<String>,
    /// Its addresses.
    #[serde(default, rename = "podIPs", deserialize_with = "or_default")]
    pub pod_ips: Vec<PodIp>,
    /// What its kubelet reports.
    #[serde(default, deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

/// An address of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PodIp {
    /// Its text.
    #[serde(default)]
    pub ip: Option<String>,
}

/// What is wanted of a node.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct NodeSpec {
    /// Its taints.
    #[serde(default, deserialize_with = "or_default")]
    pub taints: Vec<NodeTaint>,
    /// Whether it is cordoned.
    #[serde(default, deserialize_with = "or_default")]
    pub unschedulable: bool,
    /// The networks that its pods get addresses from.
    #[serde(default, rename = "podCIDRs", deserialize_with = "or_default")]
    pub pod_cidrs: Vec<String>,
}

/// A taint of a node.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeTaint {
    /// Its key.
    pub key: String,
    /// Its value.
    #[serde(default, deserialize_with = "or_default")]
    pub value: String,
    /// Its effect.
    pub effect: String,
}

/// How much of the resource of floating IPs a node offers, in the words of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Offered {
    /// The amount; `None` if it does not offer the resource.
    #[serde(default, rename = "tke.cloud.tencent.com/eni-ip")]
    pub addresses: Option<String>,
}

/// How a node is.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct NodeStatus {
    /// What it has.
    #[serde(default, deserialize_with = "or_default")]
    pub capacity: Offered,
    /// What of it is for pods.
    #[serde(default, deserialize_with = "or_default")]
    pub allocatable: Offered,
    /// Its addresses and names.
    #[serde(default, deserialize_with = "or_default")]
    pub addresses: Vec<NodeAddress>,
    /// What its kubelet reports, and what others make of its silence.
    #[serde(default, deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

/// An address or a name of a node.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeAddress {
    /// Which of them.
    #[serde(rename = "type")]
    pub sort: String,
    /// Its text.
    pub address: String,
}

/// A condition.
#[derive(Clone, Debug, Deserialize)]
pub struct Condition {
    /// Which one.
    #[serde(rename = "type")]
    pub sort: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why.
    #[serde(default, deserialize_with = "or_default")]
    pub reason: String,
    /// The same in more words.
    #[serde(default, deserialize_with = "or_default")]
    pub message: String,
    /// Since when.
    #[serde(default, rename = "lastTransitionTime")]
    pub since: Option<Time>,
}

/// The wishes of a built-in workload.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaledSpec {
    /// How many pods.
    #[serde(default)]
    pub replicas: Option<u32>,
    /// How they are numbered; `StatefulSets` only.
    #[serde(default, deserialize_with = "or_default")]
    pub ordinals: Ordinals,
    /// Whether updates are stopped for now; Deployments only.
    #[serde(default, deserialize_with = "or_default")]
    pub paused: bool,
    /// How pods are replaced; Deployments only.
    #[serde(default, deserialize_with = "or_default")]
    pub strategy: StrategySpec,
    /// For how long a pod has to be ready until it counts.
    #[serde(default, deserialize_with = "or_default")]
    pub min_ready_seconds: u32,
    /// Which pods are its own.
    #[serde(default, deserialize_with = "or_default")]
    pub selector: LabelSelector,
}

/// How the pods of a Deployment are replaced.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StrategySpec {
    /// `RollingUpdate` or `Recreate`; nothing means the first.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub sort: String,
    /// How many at a time.
    #[serde(default, deserialize_with = "or_default")]
    pub rolling_update: RollingUpdate,
}

/// How many pods are replaced at a time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// How many may be missing.
    #[serde(default)]
    pub max_unavailable: Option<IntOrString>,
    /// How many there may be beside the replicas.
    #[serde(default)]
    pub max_surge: Option<IntOrString>,
}

impl StrategySpec {
    /// As decisions see it. What makes no sense is left out: the API server accepts none
    /// of it.
    pub fn strategy(&self) -> Strategy {
        if self.sort == "Recreate" {
            return Strategy::Recreate;
        }
        let amount = |value: &Option<IntOrString>| match value {
            Some(IntOrString::Int(pods)) => u32::try_from(*pods).ok().map(Amount::Pods),
            Some(IntOrString::String(text)) => text.parse().ok(),
            None => None,
        };
        let RollingUpdate {
            max_unavailable,
            max_surge,
        } = &self.rolling_update;
        Strategy::rolling(amount(max_unavailable), amount(max_surge))
    }
}

/// The wishes of the definition of a custom resource.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DefinitionSpec {
    /// Its versions.
    #[serde(default, deserialize_with = "or_default")]
    pub versions: Vec<DefinedVersion>,
}

/// A version of a custom resource.
#[derive(Clone, Debug, Deserialize)]
pub struct DefinedVersion {
    /// Its name.
    pub name: String,
    /// What there is below its objects.
    #[serde(default, deserialize_with = "or_default")]
    pub subresources: Subresources,
}

/// What there is below objects of a custom resource.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Subresources {
    /// How they are scaled.
    #[serde(default)]
    pub scale: Option<ScaleSubresource>,
}

/// How objects of a custom resource are scaled.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleSubresource {
    /// Where the wanted replicas are.
    #[serde(default)]
    pub spec_replicas_path: String,
}

/// How pods are numbered.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Ordinals {
    /// The number of the first one.
    #[serde(default)]
    pub start: u32,
}

/// Annotation of a `ReplicaSet` with the revision of its Deployment.
pub const REVISION: &str = "deployment.kubernetes.io/revision";

/// Annotation with the addresses that pods share, by the name that Calico gave it.
pub const CALICO_SHARED: &str = "cni.projectcalico.org/floatingIPs";

/// The same by floe's own name.
pub const FLOE_SHARED: &str = "floe.dev/floating-ips";

/// Owner references as decisions see them.
pub fn owners(metadata: &ObjectMeta) -> Vec<OwnerRef> {
    let references = metadata.owner_references.iter().flatten();
    references
        .map(|it| OwnerRef {
            api_version: it.api_version.clone(),
            kind: it.kind.clone(),
            name: it.name.clone(),
            controller: it.controller.unwrap_or(false),
        })
        .collect()
}

impl<K: Resource, S, T> Resource for Slim<K, S, T> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &K::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &K::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &K::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &K::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    owner_references: Option<Vec<OwnerReference>>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<Annotations>,
}

/// The annotations that matter. Others may have hundreds of kilobytes, and are skipped while
/// they are read.
struct Annotations(BTreeMap<String, String>);

/// Those of pods and workloads; [`caller::ANNOTATIONS`] are those of nodes.
const ANNOTATIONS: [&str; 8] = [
    names::RELEASE_POLICY,
    names::POOL,
    names::ARGS,
    names::FAMILIES,
    REVISION,
    CALICO_SHARED,
    FLOE_SHARED,
    names::ROLLOUT,
];

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(KeepKnown)
    }
}

struct KeepKnown;

impl<'de> Visitor<'de> for KeepKnown {
    type Value = Annotations;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("annotations")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Annotations, A::Error> {
        let mut kept = BTreeMap::new();
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            if !ANNOTATIONS.contains(&&*name) && !caller::ANNOTATIONS.contains(&&*name) {
                members.next_value::<IgnoredAny>()?;
            } else if let Some(value) = members.next_value::<Option<String>>()? {
                kept.insert(name.into_owned(), value);
            }
        }
        Ok(Annotations(kept))
    }
}

fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let read = Metadata::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        owner_references: read.owner_references,
        labels: read.labels,
        annotations: read.annotations.map(|kept| kept.0),
        ..ObjectMeta::default()
    })
}

/// Reads `null` as if the member were absent, as Go does.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
