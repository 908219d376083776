//! A pod object with only what is looked at; the rest is skipped while it is read.
//! Whatever is missing or null is as if it were empty, so that no strange pod can
//! end the watch of all.

use std::borrow::Cow;

use floe_core::{addr, ipam::names, vip::elect::Readiness};
use k8s_openapi::{
    api::core,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::Resource;
use serde::{Deserialize, Deserializer, de::IgnoredAny};

use super::Pod;

/// A pod object.
#[derive(Clone, Debug, Deserialize)]
pub struct PodObject {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Spec {
    #[serde(default, deserialize_with = "or_default")]
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Container {
    #[serde(default, deserialize_with = "or_default")]
    resources: Resources,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Resources {
    #[serde(default, deserialize_with = "or_default")]
    requests: Requests,
}

/// The amount means nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Requests {
    #[serde(default, rename = "tke.cloud.tencent.com/eni-ip")]
    address: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    phase: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    conditions: Vec<Condition>,
    #[serde(default, rename = "podIPs", deserialize_with = "or_default")]
    pod_ips: Vec<PodIp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Condition {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct PodIp {
    #[serde(default)]
    ip: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    annotations: Option<Annotations>,
    deletion_timestamp: Option<Time>,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "k8s.v1.cni.cncf.io/networks")]
    networks: Option<String>,
    #[serde(rename = "k8s.v1.cni.galaxy.io/args")]
    args: Option<String>,
    #[serde(rename = "kubernetes.io/config.hash")]
    static_uid: Option<String>,
}

/// The annotation with the networks that a pod joins.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// The annotation with the uid of a static pod, on the API server's image of it.
const STATIC_UID: &str = "kubernetes.io/config.hash";

impl From<PodObject> for Pod {
    fn from(object: PodObject) -> Self {
        let PodObject {
            metadata,
            spec,
            status,
        } = object;
        let mut annotations = metadata.annotations.unwrap_or_default();
        let mut containers = spec.containers.iter();
        let phase = status.phase.as_deref();
        let condition = |kind: &str| {
            let mut all = status.conditions.iter();
            all.find(|it| it.kind.as_deref() == Some(kind))
        };
        let ready = condition("Ready");
        let readiness = Readiness {
            ready: text(ready.map(|it| &it.status)),
            reason: text(ready.map(|it| &it.reason)),
            containers: text(condition("ContainersReady").map(|it| &it.status)),
        };
        let addresses = status.pod_ips.iter().filter_map(|it| it.ip.as_deref());
        Self {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            static_uid: annotations.remove(STATIC_UID),
            networks: annotations.remove(NETWORKS),
            args: annotations.remove(names::ARGS),
            wants_address: containers.any(|it| it.resources.requests.address.is_some()),
            finished: matches!(phase, Some("Failed" | "Succeeded")),
            ready: phase == Some("Running") && readiness.is_ready(),
            terminating: metadata.deletion_timestamp.is_some(),
            addresses: addresses
                .filter_map(|ip| ip.parse().ok())
                .map(addr::canonical)
                .collect(),
        }
    }
}

fn text(value: Option<&Option<String>>) -> &str {
    value.and_then(|it| it.as_deref()).unwrap_or_default()
}

fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let read = Metadata::deserialize(deserializer)?;
    let annotations = read.annotations.unwrap_or_default();
    let kept = [
        (NETWORKS, annotations.networks),
        (names::ARGS, annotations.args),
        (STATIC_UID, annotations.static_uid),
    ];
    let kept = kept
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Ok(ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        annotations: Some(kept.collect()),
        deletion_timestamp: read.deletion_timestamp,
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

impl Resource for PodObject {
    type DynamicType = ();
    type Scope = <core::v1::Pod as Resource>::Scope;

    fn kind(kind: &()) -> Cow<'_, str> {
        core::v1::Pod::kind(kind)
    }

    fn group(kind: &()) -> Cow<'_, str> {
        core::v1::Pod::group(kind)
    }

    fn version(kind: &()) -> Cow<'_, str> {
        core::v1::Pod::version(kind)
    }

    fn plural(kind: &()) -> Cow<'_, str> {
        core::v1::Pod::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
