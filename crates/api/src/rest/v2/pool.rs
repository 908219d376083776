//! Pools, and workloads that hold addresses.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// All pools: those with a limit, and those that only holders name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolList {
    /// The pools by name and namespace.
    pub items: Vec<Pool>,
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Pool)]
pub struct Pool {
    /// Its name, that of the annotation on pods.
    pub name: String,
    /// The namespace of the limit: `kube-system` for all, another one for its own
    /// pods; none when nobody has set a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// Whether addresses are taken ahead of pods.
    #[serde(rename = "preAllocateIP")]
    pub pre_allocate_ip: bool,
    /// How many addresses its pods have, of those that the limit counts.
    pub used: u64,
    /// How many more wait for any pod of it, of whatever namespace.
    pub spare: u64,
}

/// What to set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolSettings {
    /// The limit.
    #[schema(minimum = 0)]
    pub size: i64,
    /// Whether addresses are taken ahead of pods.
    #[serde(default, rename = "preAllocateIP")]
    pub pre_allocate_ip: bool,
}

/// Which holders, and which page of them. What is given must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HolderQuery {
    /// A text that pool, kind, namespace or workload have in them.
    pub q: Option<String>,
    /// The pool.
    pub pool: Option<String>,
    /// The kind of the workload.
    pub app_type: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The workload.
    pub app: Option<String>,
    /// The number of the page, from 0 on.
    #[param(default = 0, minimum = 0)]
    pub page: Option<u32>,
    /// How many a page has.
    #[param(default = 50, minimum = 1, maximum = 1000)]
    pub size: Option<u32>,
}

/// Workloads and pools that hold addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HolderList {
    /// One page of them, by pool, namespace, kind and workload.
    pub items: Vec<HolderSummary>,
    /// How many all pages have.
    pub total: u64,
    /// The number of this page, from 0 on.
    pub page: u32,
    /// How many a page has.
    pub size: u32,
}

/// What one workload holds; without one, the spares of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HolderSummary {
    /// Who it is; its pod is empty.
    pub holder: super::Holder,
    /// How many addresses it has.
    pub addresses: u64,
    /// How many of these pods are bound with.
    pub bound: u64,
}
