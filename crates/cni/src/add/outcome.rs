//! What the runtime is answered to an ADD.

use floe_core::{
    cni::result::{Interface, Ip, Outcome, Route},
    node::nic::Nic,
};
use floe_net::netlink::Link;

use crate::{
    addresses::Addresses,
    pod::{self, Ready},
    request::Request,
};

/// What is answered: every interface, on the host and in the pod, every address, and
/// the routes of the main table that were made.
pub fn outcome(
    request: &Request<'_>,
    addresses: &Addresses,
    nics: &[Nic],
    veths: &[Option<Link>],
    ready: &[Ready],
) -> Outcome {
    let has_lists = request.conf.version.has_lists();
    let mut outcome = Outcome {
        dns: addresses.dns(request),
        ..Outcome::default()
    };
    for (nic, (veth, ready)) in nics.iter().zip(veths.iter().zip(ready)) {
        if let Some(veth) = veth {
            outcome.interfaces.push(Interface {
                name: veth.name.clone(),
                mac: veth.mac.map(|mac| mac.to_string()),
                mtu: Some(veth.mtu),
                ..Interface::default()
            });
        }
        let place = outcome.interfaces.len();
        outcome.interfaces.push(Interface {
            name: nic.name.clone(),
            mac: ready.mac.map(|mac| mac.to_string()),
            mtu: Some(ready.mtu),
            sandbox: Some(request.call.netns.clone()),
            ..Interface::default()
        });
        outcome.ips.extend(nic.addresses.iter().map(|info| Ip {
            address: info.ip,
            gateway: Some(info.gateway).filter(|ip| !ip.is_unspecified()),
            interface: Some(place),
        }));
        let routes = ready.routes.iter().filter(|it| {
            // Older results have room for the first address of a family only.
            has_lists || is_first(nic, nics, it.dst.addr().is_ipv4())
        });
        outcome.routes.extend(routes.map(|it| match it.gateway {
            Some(gateway) => Route::via(it.dst, gateway),
            None => Route::to(it.dst),
        }));
    }
    outcome
}

/// Whether an interface has the first address of a family.
fn is_first(nic: &Nic, nics: &[Nic], is_v4: bool) -> bool {
    let has = |it: &&Nic| pod::ips(it).iter().any(|ip| ip.is_ipv4() == is_v4);
    nics.iter()
        .find(has)
        .is_some_and(|first| first.name == nic.name)
}
