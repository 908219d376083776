//! The lease object as a record of the core, and back.

use floe_core::lease::Record;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};

/// The annotation in which a leader tells followers where to forward the
/// scheduler's calls.
const EXTENDER: &str = "floe.dev/extender";

/// The same for calls of the management API.
const API: &str = "floe.dev/api";

/// Where a replica answers, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The scheduler.
    pub extender: Option<String>,
    /// People and tools.
    pub api: Option<String>,
}

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

/// Where the one who wrote the lease answers, if it told.
pub fn addresses(lease: &Lease) -> Addresses {
    let notes = lease.metadata.annotations.as_ref();
    let note = |name| notes.and_then(|notes| notes.get(name)).cloned();
    Addresses {
        extender: note(EXTENDER),
        api: note(API),
    }
}

/// A lease that does not exist yet.
pub fn to_new_lease(name: &str, record: &Record, own: &Addresses) -> Lease {
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    };
    into_lease(lease, record, own)
}

/// The lease that was read, with its resourceVersion and what others noted on
/// it, but this content and these addresses of the writer.
pub fn into_lease(mut lease: Lease, record: &Record, own: &Addresses) -> Lease {
    let notes = &mut lease.metadata.annotations;
    for (name, address) in [(EXTENDER, &own.extender), (API, &own.api)] {
        match (address, notes.as_mut()) {
            (Some(address), _) => {
                let notes = notes.get_or_insert_default();
                notes.insert(name.to_owned(), address.clone());
            }
            // That of the leader before us would send followers the wrong way.
            (None, Some(notes)) => {
                notes.remove(name);
            }
            (None, None) => {}
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
