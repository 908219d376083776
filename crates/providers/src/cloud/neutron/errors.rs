//! What the kinds of Neutron's errors mean.

use floe_core::nodepool::cloud::{Class, Refusal};

use super::wire::Refused;
use crate::http::Response;

/// Reads an answer that is no success.
pub fn read(answer: &Response) -> Refusal {
    let (kind, message) = match serde_json::from_slice::<Refused>(&answer.body) {
        Ok(Refused::Neutron { error }) => (error.kind, error.message),
        Ok(Refused::Text { error }) => (String::new(), error),
        Ok(Refused::Keystone { error }) => (String::new(), error.message),
        Err(_) => (String::new(), "no answer of Neutron".to_owned()),
    };
    let by_status = answer.refusal(&message);
    match class_of(&kind) {
        Some(class) => {
            Refusal::new(class, format!("{message} ({kind})")).after(by_status.retry_after)
        }
        // Whatever is not there, it is not known to be the address.
        None if by_status.class == Class::AddressUnknown => Refusal {
            class: Class::Invalid,
            ..by_status
        },
        None => by_status,
    }
}

/// The class of a kind; what is not here has that of its status.
fn class_of(kind: &str) -> Option<Class> {
    Some(match kind {
        "FloatingIPNotFound" => Class::AddressUnknown,
        // The port was there a moment ago, so its server is being taken down.
        "PortNotFound" => Class::ServerUnknown,
        "FloatingIPPortAlreadyAssociated" => Class::ServerTaken,
        "IpAddressAlreadyAllocated" => Class::HeldElsewhere,
        "OverQuota"
        | "QuotaExceeded"
        | "IpAddressGenerationFailure"
        | "ExternalIpAddressExhausted" => Class::Quota,
        // No way leads from that network to the port, or the network is not what it should
        // be: somebody has to change something.
        "ExternalGatewayForFloatingIPNotFound"
        | "NetworkNotFound"
        | "ExternalNetworkNotFound"
        | "SubnetNotFound"
        | "RouterNotFound"
        | "BadRequest"
        | "HTTPBadRequest"
        | "InvalidInput" => Class::Invalid,
        "PolicyNotAuthorized" | "NotAuthorized" | "AdminRequired" => Class::Unauthorized,
        _ => return None,
    })
}
