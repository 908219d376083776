//! The lease object as a record of the core, and back.

use floe_core::lease::Record;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};

/// Reads a lease. Missing fields are empty, as the Go client reads them.
pub fn from_lease(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let number = |value: Option<i32>| value.and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        duration_seconds: number(spec.lease_duration_seconds),
        acquired: spec.acquire_time.map(|MicroTime(time)| time),
        renewed: spec.renew_time.map(|MicroTime(time)| time),
        transitions: number(spec.lease_transitions),
    }
}

/// A lease that does not exist yet.
pub fn to_new_lease(name: &str, record: &Record) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(to_spec(record)),
    }
}

/// The lease that was read, with its resourceVersion, but this content.
pub fn into_lease(lease: Lease, record: &Record) -> Lease {
    Lease {
        spec: Some(to_spec(record)),
        ..lease
    }
}

fn to_spec(record: &Record) -> LeaseSpec {
    let number = |value: u32| Some(i32::try_from(value).unwrap_or(i32::MAX));
    LeaseSpec {
        holder_identity: Some(record.holder.clone()),
        lease_duration_seconds: number(record.duration_seconds),
        acquire_time: record.acquired.map(MicroTime),
        renew_time: record.renewed.map(MicroTime),
        lease_transitions: number(record.transitions),
        ..LeaseSpec::default()
    }
}
