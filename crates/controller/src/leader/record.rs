//! The lease object as a record of the core, and back.

use floe_core::lease::Record;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};

/// The annotation in which a leader tells followers where to forward the
/// scheduler's calls.
const EXTENDER: &str = "floe.dev/extender";

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

/// Where the one who wrote the lease answers the scheduler, if it told.
pub fn extender(lease: &Lease) -> Option<String> {
    lease.metadata.annotations.as_ref()?.get(EXTENDER).cloned()
}

/// A lease that does not exist yet.
pub fn to_new_lease(name: &str, record: &Record, extender: Option<&str>) -> Lease {
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    };
    into_lease(lease, record, extender)
}

/// The lease that was read, with its resourceVersion and what others noted on
/// it, but this content and this address of the writer's extender.
pub fn into_lease(mut lease: Lease, record: &Record, extender: Option<&str>) -> Lease {
    let notes = &mut lease.metadata.annotations;
    match extender {
        Some(address) => {
            let notes = notes.get_or_insert_default();
            notes.insert(EXTENDER.to_owned(), address.to_owned());
        }
        // That of the leader before us would send followers the wrong way.
        None => {
            if let Some(notes) = notes {
                notes.remove(EXTENDER);
            }
        }
    }
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
