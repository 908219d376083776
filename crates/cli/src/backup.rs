//! A backup of records and pools: a `List` that `kubectl apply` takes as well.
//!
//! It has what was stored and nothing that the server sets by itself. Records come
//! before pools, for a pool may take addresses ahead of pods, and those that the
//! backup has are not to be among them.

use std::collections::BTreeSet;

use floe_api::{
    galaxy::{API_VERSION, FloatingIP, Pool},
    labels,
};
use floe_core::{
    addr::name,
    json::{Names, decode, from_value},
};
use kube::{
    ResourceExt as _,
    api::{DynamicObject, ObjectMeta, TypeMeta},
};
use serde_json::{Value, json};

/// kubectl's memory of the last `apply`, which says nothing about the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Why a text is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It is neither JSON nor YAML.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// It is something else than a list.
    #[error("it is no List of FloatingIPs and Pools, or not all of it")]
    NoList,
    /// An object is not for floe.
    #[error("item {number} is a {kind:?}, and no FloatingIP or Pool of {API_VERSION}")]
    Kind {
        /// Its place, from 1.
        number: usize,
        /// Its kind.
        kind: String,
    },
    /// An object cannot be read.
    #[error("item {number}, {name:?}: {told}")]
    Item {
        /// Its place, from 1.
        number: usize,
        /// Its name.
        name: String,
        /// What is wrong.
        told: String,
    },
}

/// A list of these objects, always in the same order.
pub fn list(records: Vec<DynamicObject>, pools: Vec<DynamicObject>) -> Value {
    let mut records: Vec<_> = records
        .into_iter()
        .map(|it| strip(it, "FloatingIP"))
        .collect();
    let mut pools: Vec<_> = pools.into_iter().map(|it| strip(it, "Pool")).collect();
    records.sort_by_cached_key(|it| (name::parse(&it.name_any()).ok(), it.name_any()));
    pools.sort_by_cached_key(|it| (it.namespace(), it.name_any()));
    records.append(&mut pools);
    json!({ "apiVersion": "v1", "kind": "List", "items": records })
}

/// The objects of a backup: all of them, or an error before anything is changed.
///
/// What an object says is for the server to judge, which has accepted it once: a record
/// that nobody understands still keeps its address from others.
pub fn read(text: &str) -> Result<Vec<DynamicObject>, BackupError> {
    let unreadable = |told: String| BackupError::Unreadable(told);
    let value: Value = if text.trim_start().starts_with('{') {
        decode(text.as_bytes(), Names::Exact).map_err(|error| unreadable(error.to_string()))?
    } else {
        // A large cluster has a large backup; what aliases may become is limited still.
        let options = serde_saphyr::options! { budget: None };
        let read = serde_saphyr::from_str_with_options(text, options);
        read.map_err(|error| unreadable(error.to_string()))?
    };
    // The kind comes after the items, so a file that was cut off has none.
    let Some(items) = value["items"]
        .as_array()
        .filter(|_| value["kind"] == "List")
    else {
        return Err(BackupError::NoList);
    };
    let mut seen = BTreeSet::new();
    let mut objects = Vec::with_capacity(items.len());
    for (number, item) in (1..).zip(items) {
        let kind = item["kind"].as_str().unwrap_or_default();
        if item["apiVersion"] != API_VERSION || !matches!(kind, "FloatingIP" | "Pool") {
            let kind = kind.to_owned();
            return Err(BackupError::Kind { number, kind });
        }
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        let wrong = |told: String| BackupError::Item {
            number,
            name: name.to_owned(),
            told,
        };
        let object: DynamicObject = from_value(item.clone()).map_err(|it| wrong(it.to_string()))?;
        if name.is_empty() {
            return Err(wrong("it has no name".into()));
        }
        if !is_record(&object) && object.namespace().is_none() {
            return Err(wrong("a Pool needs a namespace".into()));
        }
        if !seen.insert((kind, object.namespace(), name)) {
            return Err(wrong("it is there twice".into()));
        }
        objects.push(strip(object, kind));
    }
    // See above; somebody may have put them in another order.
    objects.sort_by_key(|object| !is_record(object));
    Ok(objects)
}

/// Whether it is a record, and no pool.
pub fn is_record(object: &DynamicObject) -> bool {
    object
        .types
        .as_ref()
        .is_some_and(|it| it.kind == "FloatingIP")
}

/// Whether it is what its kind says: a record of an address, or a limit.
pub fn is_understood(object: &DynamicObject) -> bool {
    if is_record(object) {
        let record = object.clone().try_parse::<FloatingIP>();
        return record.is_ok() && name::parse(&object.name_any()).is_ok();
    }
    object.clone().try_parse::<Pool>().is_ok()
}

/// Whether two objects say the same about who holds what.
pub fn says_the_same(one: &DynamicObject, other: &DynamicObject) -> bool {
    if one.data == other.data && is_reserved(one) == is_reserved(other) {
        return true;
    }
    if !is_record(one) {
        let pool = |object: &DynamicObject| object.clone().try_parse::<Pool>().ok();
        let pools = pool(one).zip(pool(other));
        return pools.is_some_and(|(one, other)| {
            (one.size, one.pre_allocate_ip) == (other.size, other.pre_allocate_ip)
        });
    }
    let record = |object: &DynamicObject| {
        let object: FloatingIP = object.clone().try_parse().ok()?;
        let (place, reserved) = (object.spec.place(), object.is_reserved());
        Some((object.spec.key, place, object.spec.policy, reserved))
    };
    record(one).is_some_and(|it| Some(it) == record(other))
}

fn is_reserved(object: &DynamicObject) -> bool {
    object.labels().contains_key(labels::RESERVED)
}

/// The object without what the server sets by itself.
fn strip(object: DynamicObject, kind: &str) -> DynamicObject {
    let mut annotations = object.metadata.annotations;
    if let Some(all) = &mut annotations {
        all.remove(LAST_APPLIED);
    }
    DynamicObject {
        types: Some(TypeMeta {
            api_version: API_VERSION.into(),
            kind: kind.into(),
        }),
        metadata: ObjectMeta {
            name: object.metadata.name,
            namespace: object.metadata.namespace,
            labels: object.metadata.labels.filter(|all| !all.is_empty()),
            annotations: annotations.filter(|all| !all.is_empty()),
            ..ObjectMeta::default()
        },
        data: object.data,
    }
}

#[cfg(test)]
mod tests;
