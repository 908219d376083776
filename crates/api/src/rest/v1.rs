//! galaxy's bodies. Names, order of members and what is left out are galaxy's.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::galaxy::null_is_zero;

/// What is answered when there is nothing else to say, and every refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = v1::Answer)]
pub struct Answer {
    /// The status of HTTP again.
    pub code: u16,
    /// Empty if all went well.
    pub message: String,
}

/// One page of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = v1::IpPage)]
pub struct IpPage {
    /// Whether nothing comes after it.
    pub last: bool,
    /// How many addresses all pages have.
    pub total_elements: u64,
    /// How many pages there are.
    pub total_pages: u64,
    /// Whether nothing comes before it.
    pub first: bool,
    /// How many addresses it has.
    pub number_of_elements: u64,
    /// How many it could have.
    pub size: u64,
    /// Its number, from 0 on.
    pub number: u64,
    /// The addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Ip>,
}

/// One address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[schema(as = v1::Ip)]
pub struct Ip {
    /// The address.
    #[serde(deserialize_with = "null_is_zero")]
    pub ip: String,
    /// The namespace of its holder.
    #[serde(
        deserialize_with = "null_is_zero",
        skip_serializing_if = "String::is_empty"
    )]
    pub namespace: String,
    /// The workload of its holder.
    #[serde(
        deserialize_with = "null_is_zero",
        skip_serializing_if = "String::is_empty"
    )]
    pub app_name: String,
    /// The pod that holds it.
    #[serde(
        deserialize_with = "null_is_zero",
        skip_serializing_if = "String::is_empty"
    )]
    pub pod_name: String,
    /// The pool that it is in.
    #[serde(
        deserialize_with = "null_is_zero",
        skip_serializing_if = "String::is_empty"
    )]
    pub pool_name: String,
    /// When it is released: 0 with its pod, 1 with its workload, 2 never.
    #[serde(deserialize_with = "null_is_zero")]
    pub policy: i64,
    /// Deprecated, in requests only: what `appType` means if it is empty, `deployment` or
    /// `statefulset`.
    #[serde(
        deserialize_with = "null_is_zero",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_deployment: bool,
    /// The kind of the workload.
    #[serde(
        deserialize_with = "null_is_zero",
        skip_serializing_if = "String::is_empty"
    )]
    pub app_type: String,
    /// When it last changed hands.
    #[serde(deserialize_with = "null_is_zero")]
    pub update_time: String,
    /// How its pod is: a phase, `Deleted` or `Unknown`.
    #[serde(
        deserialize_with = "null_is_zero",
        skip_serializing_if = "String::is_empty"
    )]
    pub status: String,
    /// Whether it can be released.
    #[serde(
        deserialize_with = "null_is_zero",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub releasable: bool,
}

/// Addresses to release, each with the holder that it is expected to have. Members
/// of a list may be sent back as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = v1::Release)]
pub struct Release {
    /// The addresses.
    #[serde(default, deserialize_with = "null_is_zero")]
    pub ips: Vec<Ip>,
}

/// What became of addresses that were to be released.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = v1::Released)]
pub struct Released {
    /// The status of HTTP again.
    pub code: u16,
    /// How many were released, if not all.
    pub message: String,
    /// Addresses that were not released.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreleased: Vec<String>,
    /// Why, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = v1::Pool)]
pub struct Pool {
    /// Its name, that of the annotation on pods.
    #[serde(deserialize_with = "null_is_zero")]
    pub name: String,
    /// How many addresses it may have.
    #[serde(deserialize_with = "null_is_zero")]
    pub size: i64,
    /// Whether addresses are taken ahead of pods.
    #[serde(rename = "preAllocateIP", deserialize_with = "null_is_zero")]
    pub pre_allocate_ip: bool,
}

/// A pool that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = v1::PoolAnswer)]
pub struct PoolAnswer {
    /// The status of HTTP again.
    pub code: u16,
    /// Empty.
    pub message: String,
    /// The pool.
    pub pool: Pool,
}

/// What became of a pool that was set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = v1::PoolSet)]
pub struct PoolSet {
    /// The status of HTTP again.
    pub code: u16,
    /// Empty, unless addresses lack.
    pub message: String,
    /// How many addresses it has by now; only told if addresses are taken ahead.
    pub real_pool_size: i64,
}
