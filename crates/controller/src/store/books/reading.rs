//! What the object of a record says, also when it makes little sense.

use std::net::IpAddr;

use floe_api::{galaxy::FloatingIP, labels};
use floe_core::{
    addr::name,
    ipam::{key::HolderKey, ledger::Record, policy::ReleasePolicy},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tracing::warn;

use super::Books;

const MALFORMED_ATTRIBUTE: &str = "MalformedAttribute";
/// Why nobody knows what a record says.
pub const UNREADABLE_RECORD: &str = "UnreadableRecord";

impl Books {
    /// The address that an object is about; an object that is about none cannot
    /// hold one, and is only told of.
    pub(super) fn address(&mut self, metadata: &ObjectMeta) -> Option<IpAddr> {
        let name = metadata.name.as_deref().unwrap_or_default();
        match name::parse(name) {
            Ok(ip) => Some(ip),
            Err(error) => {
                self.strange_listed.insert(name.to_owned());
                if self
                    .strange
                    .insert(name.to_owned(), error.reason())
                    .is_none()
                {
                    warn!(
                        reason = error.reason(),
                        floatingip = name,
                        error = %error,
                        "FloatingIP is the record of no address",
                    );
                }
                None
            }
        }
    }

    pub(super) fn readable(&mut self, ip: IpAddr, object: &FloatingIP) -> Record {
        let place = object.spec.place();
        let name = name::name(ip);
        if !place.malformed {
            self.strange.remove(&name);
        } else if self.strange.insert(name, MALFORMED_ATTRIBUTE).is_none() {
            warn!(
                reason = MALFORMED_ATTRIBUTE,
                %ip,
                attribute = object.spec.attribute,
                "record does not say where its holder runs",
            );
        }
        let annotations = object.metadata.annotations.as_ref();
        Record {
            ip,
            key: object.spec.holder(),
            policy: object.spec.release_policy(),
            node: place.attribute.node_name,
            uid: place.attribute.uid,
            updated: object.spec.updated(),
            reserved: object.is_reserved(),
            workload_note: annotations
                .and_then(|all| all.get(labels::WORKLOAD))
                .cloned(),
        }
    }

    /// An address is held if its object exists, whatever the object says. Nobody
    /// knows by whom, so it is nobody's to hand out: as if it were reserved.
    pub(super) fn unreadable(&mut self, ip: IpAddr, metadata: &ObjectMeta, error: &str) -> Record {
        if self
            .strange
            .insert(name::name(ip), UNREADABLE_RECORD)
            .is_none()
        {
            warn!(
                reason = UNREADABLE_RECORD,
                %ip,
                error,
                "record cannot be read; its address is left alone",
            );
        }
        let created = metadata.creation_timestamp.as_ref();
        Record {
            ip,
            key: HolderKey::from(""),
            policy: ReleasePolicy::Never,
            node: String::new(),
            uid: String::new(),
            updated: created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            reserved: true,
            workload_note: None,
        }
    }
}
