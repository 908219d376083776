//! Objects that floe makes because annotations ask for their address.

use std::net::IpAddr;

use floe_api::floe::virtualip::{CLAIMED_BY, VirtualIP, VirtualIPSpec};
use floe_core::{addr::name, vip::VipId};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::leave::FINALIZER;

/// The value of the label.
const ANNOTATION: &str = "annotation";

/// The object of an address in a namespace.
pub fn id(namespace: &str, ip: IpAddr) -> VipId {
    VipId {
        namespace: namespace.to_owned(),
        name: name::name(ip),
    }
}

/// A new object for an address. It cannot go before its address is free.
pub fn object(id: &VipId, ip: IpAddr) -> VirtualIP {
    let label = (CLAIMED_BY.to_owned(), ANNOTATION.to_owned());
    VirtualIP {
        metadata: ObjectMeta {
            namespace: Some(id.namespace.clone()),
            name: Some(id.name.clone()),
            labels: Some([label].into()),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: VirtualIPSpec {
            addresses: vec![ip.to_string()],
            ..VirtualIPSpec::default()
        },
        status: None,
    }
}

/// The address whose annotations an object stands for; none for objects of people, be
/// they named like an address or not.
pub fn for_annotation(vip: &VirtualIP) -> Option<IpAddr> {
    let labels = vip.metadata.labels.as_ref()?;
    let is_ours = labels.get(CLAIMED_BY).is_some_and(|it| it == ANNOTATION);
    let is_free = is_ours && vip.spec.selector.is_none();
    let name = vip.metadata.name.as_deref().filter(|_| is_free)?;
    name::parse(name).ok()
}
