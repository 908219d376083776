//! Where the addresses of a pod come from: `ipinfos` in `CNI_ARGS` or in the
//! configuration, or an IPAM plugin.

use std::{net::IpAddr, time::Duration};

use floe_core::{
    cni::{
        error::{CniError, Code},
        result::{Dns, Outcome, Route},
    },
    ipam::args::IpInfo,
    json::{self, Names},
    node::nic::{Nic, NicRoute},
};

use crate::{exec::Plugin, fail::fail, request::Request};

/// How long an IPAM plugin may take.
const LIMIT: Duration = Duration::from_mins(1);

/// The addresses of a pod.
#[derive(Debug, Default, PartialEq)]
pub struct Addresses {
    /// The addresses. A gateway that is not specified (`0.0.0.0`, `::`) is none.
    pub infos: Vec<IpInfo>,
    /// What an IPAM plugin wants beside.
    pub ipam: Option<Ipam>,
}

/// What an IPAM plugin wants beside the addresses.
#[derive(Debug, Default, PartialEq)]
pub struct Ipam {
    routes: Vec<Route>,
    dns: Dns,
}

impl Addresses {
    /// Finds the addresses for an ADD.
    pub fn gather(request: &Request<'_>) -> Result<Self, CniError> {
        if let Some(told) = Self::told(request)? {
            return Ok(told);
        }
        if request.conf.ipam.is_none() {
            return Err(CniError::no_address());
        }
        let answer = tell(request, "ADD")?;
        let read = json::decode(&answer, Names::Go).map_err(|error| {
            let message = format!("cannot read the answer of the IPAM plugin: {error}");
            CniError::of(Code::Delegate, message)
        });
        let found = read
            .and_then(|json| Outcome::from_json(&json))
            .and_then(Self::of_ipam);
        if found.is_err() {
            // What it has given out nobody would return. Its own error counts less.
            let _ = tell(request, "DEL");
        }
        found
    }

    /// The addresses for a CHECK: as for the ADD, but from what it had answered.
    pub fn recall(request: &Request<'_>) -> Result<Self, CniError> {
        if let Some(told) = Self::told(request)? {
            return Ok(told);
        }
        let Some(previous) = request.conf.previous.clone() else {
            let message = "CHECK needs ipinfos in CNI_ARGS or prevResult";
            return Err(fail(Code::InvalidConfiguration, "NoAddress", message));
        };
        let mut recalled = Self::of_ipam(previous)?;
        if request.conf.ipam.is_none() {
            recalled.ipam = None;
        }
        Ok(recalled)
    }

    /// Gives back what an IPAM plugin has given, after an ADD that failed; its error.
    pub fn undo(&self, request: &Request<'_>) -> Option<CniError> {
        self.ipam.as_ref()?;
        forward(request, "DEL").err()
    }

    /// The DNS settings to answer: those of the configuration, else of the IPAM plugin.
    pub fn dns(&self, request: &Request<'_>) -> Dns {
        match &self.ipam {
            Some(ipam) if request.conf.dns == Dns::default() => ipam.dns.clone(),
            _ => request.conf.dns.clone(),
        }
    }

    /// Brings the routes of planned interfaces in line with what the source of the
    /// addresses wants.
    pub fn shape(&self, nics: &mut [Nic]) {
        let Some(ipam) = &self.ipam else {
            return;
        };
        for nic in nics.iter_mut() {
            nic.routes.clear();
        }
        for route in &ipam.routes {
            let is_v4 = route.dst.addr().is_ipv4();
            let of_family = |nic: &&mut Nic| own(nic, is_v4).is_some();
            let Some(nic) = nics.iter_mut().find(of_family) else {
                continue;
            };
            let usual = own(nic, is_v4).map(|it| it.gateway);
            let gateway = route.gw.or(usual).filter(|ip| !ip.is_unspecified());
            let dst = route.dst;
            nic.routes.push(NicRoute { dst, gateway });
        }
    }

    /// The addresses that the caller tells. `CNI_ARGS` goes first: the agent puts what
    /// it has checked there.
    fn told(request: &Request<'_>) -> Result<Option<Self>, CniError> {
        let infos = match request.call.args.addresses()? {
            Some(infos) => Some(infos),
            None => request.conf.addresses()?,
        };
        Ok(infos.map(|infos| Self { infos, ipam: None }))
    }

    fn of_ipam(outcome: Outcome) -> Result<Self, CniError> {
        let infos = outcome.ips.iter().map(|ip| IpInfo {
            ip: ip.address,
            vlan: 0,
            gateway: ip.gateway.unwrap_or(match ip.address.addr() {
                IpAddr::V4(_) => IpAddr::from([0; 4]),
                IpAddr::V6(_) => IpAddr::from([0; 16]),
            }),
        });
        let infos: Vec<_> = infos.collect();
        if infos.is_empty() {
            let message = "the IPAM plugin has given no address";
            return Err(fail(Code::Delegate, "NoAddress", message));
        }
        Ok(Self {
            infos,
            ipam: Some(Ipam {
                routes: outcome.routes,
                dns: outcome.dns,
            }),
        })
    }
}

/// Tells the IPAM plugin of the configuration, if there is one: DEL, CHECK, STATUS, GC.
pub fn forward(request: &Request<'_>, command: &str) -> Result<(), CniError> {
    if request.conf.ipam.is_none() {
        return Ok(());
    }
    tell(request, command).map(drop)
}

/// The address of an interface that is of a family.
fn own(nic: &Nic, is_v4: bool) -> Option<&IpInfo> {
    nic.addresses
        .iter()
        .find(|it| it.ip.addr().is_ipv4() == is_v4)
}

fn tell(request: &Request<'_>, command: &str) -> Result<Vec<u8>, CniError> {
    let plugin = Plugin {
        name: request.conf.ipam.as_deref().unwrap_or_default(),
        path: &request.call.path,
        env: &[("CNI_COMMAND", command)],
        stdin: request.stdin,
        limit: LIMIT,
    };
    plugin.call()
}

#[cfg(test)]
mod tests;
