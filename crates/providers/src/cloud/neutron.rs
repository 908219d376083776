//! Floating IPs of `OpenStack`, by its network service Neutron.
//!
//! The account is a project. A floating IP leads to an address of a port, and a port belongs
//! to a server; a pool's region is the network outside that addresses are bought from. All
//! orders are done when they are answered. Who bought an address stands in its description,
//! which is written together with it.

mod api;
mod errors;
pub mod keystone;
mod ports;
pub mod settings;
#[cfg(test)]
mod tests;
mod wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use floe_core::nodepool::cloud::{Capabilities, Class, Listed, Mark, Progress, Refusal, Taken};
use http::Method;
use serde_json::{Value, json};

use super::query::Environment;
use crate::{
    floating::{FloatingIps, Reply},
    http::Request,
};
use api::Api;
use ports::Target;
use settings::{Entry, Settings};
use wire::{FloatingIp, Network, One, Port, Router, is_machine};

/// How many ids fit into one query.
const IDS_AT_ONCE: usize = 50;

/// The floating IPs of a project.
#[derive(Clone, Debug)]
pub struct Neutron {
    api: Api,
    /// Nobody may tell us who we are, so we have to say whose things are.
    says_project: bool,
    provider: String,
    /// Servers by their ids, in the form of `spec.providerID` in which they were asked for.
    /// There are several forms, and the same server has to look the same in lists.
    servers: Arc<Mutex<BTreeMap<String, String>>>,
}

/// The client that the environment has credentials for: the variables `OS_*` that all
/// tools of `OpenStack` read.
///
/// # Errors
/// When what is set cannot be used, in words for whoever set it.
pub fn from_environment(environment: Environment<'_>) -> Result<Option<Neutron>, String> {
    match Settings::read(environment)? {
        Some(settings) => Neutron::new(settings).map(Some),
        None => Ok(None),
    }
}

impl Neutron {
    /// A client; nobody is asked yet.
    ///
    /// # Errors
    /// When an address cannot be used.
    pub fn new(settings: Settings) -> Result<Self, String> {
        Ok(Self {
            says_project: matches!(settings.entry, Entry::Open { .. }),
            api: Api::new(settings.entry)?,
            provider: settings.provider,
            servers: Arc::default(),
        })
    }

    async fn all(&self) -> Result<Vec<Listed>, Refusal> {
        let mut all: Vec<FloatingIp> = self.api.pages("/v2.0/floatingips", &[]).await?;
        self.add_details(&mut all).await?;
        Ok(all
            .iter()
            .map(|one| Listed {
                ip: one.address,
                server: self.holder(one),
                busy: false,
                mark: one.mark(),
            })
            .collect())
    }

    /// Whose ports addresses are on, where Neutron does not tell in the list.
    async fn add_details(&self, all: &mut [FloatingIp]) -> Result<(), Refusal> {
        let unknown: Vec<String> = all
            .iter()
            .filter(|one| one.port_details.is_none())
            .filter_map(|one| one.port_id.clone())
            .collect();
        let mut ports = BTreeMap::new();
        for some in unknown.chunks(IDS_AT_ONCE) {
            let pairs: Vec<_> = some.iter().map(|id| ("id", id.as_str())).collect();
            let found: Vec<Port> = self.api.pages("/v2.0/ports", &pairs).await?;
            ports.extend(found.into_iter().map(|port| (port.id.clone(), port)));
        }
        for one in all.iter_mut().filter(|one| one.port_details.is_none()) {
            let port = one.port_id.as_ref().and_then(|id| ports.get(id));
            one.port_details = port.map(|port| wire::PortDetails {
                device_id: port.device_id.clone(),
                device_owner: port.device_owner.clone(),
            });
        }
        Ok(())
    }

    /// Who has an address. What is on a port of something else than a server is held too.
    fn holder(&self, one: &FloatingIp) -> Option<String> {
        let port = one.port_id.as_ref()?;
        let server = one
            .port_details
            .as_ref()
            .filter(|details| is_machine(&details.device_id, &details.device_owner));
        Some(match server {
            Some(details) => match self.servers().get(&details.device_id) {
                Some(form) => form.clone(),
                None => format!("{}{}", self.provider, details.device_id),
            },
            None => format!("{}port/{port}", self.provider),
        })
    }

    async fn find(&self, ip: IpAddr) -> Result<FloatingIp, Refusal> {
        let text = ip.to_string();
        let pairs = [("floating_ip_address", text.as_str())];
        let mut found: Vec<FloatingIp> = self.api.pages("/v2.0/floatingips", &pairs).await?;
        found.retain(|one| one.address == ip);
        match found.as_slice() {
            [] => {
                let words = format!("the project has no floating IP {ip}");
                Err(Refusal::new(Class::AddressUnknown, words))
            }
            [one] => Ok(one.clone()),
            _ => {
                let words = format!("the project has {ip} on several networks");
                Err(Refusal::new(Class::Invalid, words))
            }
        }
    }

    async fn put_on(&self, ip: IpAddr, server: &str) -> Result<Taken, Refusal> {
        let id = server_id(server).ok_or_else(|| {
            let words = format!("{server:?} is no server of OpenStack");
            Refusal::new(Class::Invalid, words)
        })?;
        let floating = self.find(ip).await?;
        let target = self.target(id, &floating).await?;
        self.servers().insert(id.to_owned(), server.to_owned());
        let there = floating.port_id.as_ref() == Some(&target.port)
            && floating.fixed_ip_address == Some(IpAddr::V4(target.address));
        if there {
            return Ok(Taken::Done);
        }
        let body = json!({ "floatingip": {
            "port_id": target.port,
            "fixed_ip_address": target.address,
        }});
        self.update(&floating, &body).await
    }

    /// The address of a server that a floating IP is to lead to.
    async fn target(&self, server: &str, floating: &FloatingIp) -> Result<Target, Refusal> {
        let ports: Vec<Port> = self
            .api
            .pages("/v2.0/ports", &[("device_id", server)])
            .await?;
        let targets = ports::targets(server, &ports)?;
        // Where it is already, it was put by somebody who knew.
        let there = |target: &&Target| {
            floating.port_id.as_ref() == Some(&target.port)
                && floating.fixed_ip_address == Some(IpAddr::V4(target.address))
        };
        if let Some(target) = targets.iter().find(there) {
            return Ok(target.clone());
        }
        // Neutron itself refuses the only one if no way leads there.
        if let [only] = targets.as_slice() {
            return Ok(only.clone());
        }
        let routed = self.routed(&floating.floating_network_id).await?;
        ports::choose(server, &targets, &routed, &floating.floating_network_id)
    }

    /// The subnets that a router connects with a network outside.
    async fn routed(&self, network: &str) -> Result<BTreeSet<String>, Refusal> {
        let routers: Vec<Router> = self.api.pages("/v2.0/routers", &[]).await?;
        let leads_out = |router: &Router| {
            let gateway = router.external_gateway_info.as_ref();
            gateway.is_some_and(|gateway| gateway.network_id == network)
        };
        let mut subnets = BTreeSet::new();
        for router in routers.iter().filter(|router| leads_out(router)) {
            let pairs = [("device_id", router.id.as_str())];
            let ports: Vec<Port> = self.api.pages("/v2.0/ports", &pairs).await?;
            let inside = ports
                .iter()
                .filter(|port| port.device_owner != "network:router_gateway");
            let of_port = inside.flat_map(|port| &port.fixed_ips);
            subnets.extend(of_port.map(|fixed| fixed.subnet_id.clone()));
        }
        Ok(subnets)
    }

    async fn take_off(&self, ip: IpAddr) -> Result<Taken, Refusal> {
        let floating = self.find(ip).await?;
        if floating.port_id.is_none() {
            return Ok(Taken::Done);
        }
        let body = json!({ "floatingip": { "port_id": null } });
        self.update(&floating, &body).await
    }

    async fn update(&self, floating: &FloatingIp, body: &Value) -> Result<Taken, Refusal> {
        let path = format!("/v2.0/floatingips/{}", floating.id);
        let answer = self
            .api
            .send(Request::new(Method::PUT, path).json(body))
            .await?;
        answer.json::<One>()?;
        Ok(Taken::Done)
    }

    async fn purchase(&self, region: &str, v6: bool, mark: &Mark) -> Result<IpAddr, Refusal> {
        if v6 {
            let words = "floating IPs of OpenStack are of IPv4 only";
            return Err(Refusal::new(Class::Invalid, words));
        }
        let text = mark.text();
        // The same purchase may have been made by an order whose answer was lost.
        let pairs = [("description", text.as_str())];
        let before: Vec<FloatingIp> = self.api.pages("/v2.0/floatingips", &pairs).await?;
        let same = |one: &&FloatingIp| one.mark().as_ref() == Some(mark);
        if let Some(one) = before.iter().find(same) {
            return Ok(one.address);
        }
        let network = self.network(region).await?;
        let mut wanted = json!({ "floating_network_id": network, "description": text });
        if self.says_project {
            wanted["tenant_id"] = json!(self.api.project().await?);
        }
        let request =
            Request::new(Method::POST, "/v2.0/floatingips").json(&json!({ "floatingip": wanted }));
        let bought: One = self.api.send(request).await?.json()?;
        Ok(bought.floatingip.address)
    }

    /// The network outside that a region names, by its name or its id.
    async fn network(&self, region: &str) -> Result<String, Refusal> {
        let pairs = [("router:external", "True")];
        let networks: Vec<Network> = self.api.ask("/v2.0/networks", &pairs).await?;
        let named: Vec<&Network> = networks
            .iter()
            .filter(|network| network.id == region || network.name == region)
            .collect();
        let words = match named.as_slice() {
            [one] => return Ok(one.id.clone()),
            [] => {
                let all: Vec<&str> = networks.iter().map(|one| one.name.as_str()).collect();
                format!(
                    "there is no external network {region:?}; there are: {}",
                    all.join(", ")
                )
            }
            _ => format!("several external networks are called {region:?}: give the id"),
        };
        Err(Refusal::new(Class::Invalid, words))
    }

    async fn give_back(&self, ip: IpAddr, mark: &Mark) -> Result<(), Refusal> {
        let floating = match self.find(ip).await {
            Ok(floating) => floating,
            Err(refusal) if refusal.class == Class::AddressUnknown => return Ok(()),
            Err(refusal) => return Err(refusal),
        };
        if floating.mark().as_ref() != Some(mark) {
            let words = format!("{ip} does not bear the mark of this purchase");
            return Err(Refusal::new(Class::HeldElsewhere, words));
        }
        let path = format!("/v2.0/floatingips/{}", floating.id);
        match self.api.send(Request::new(Method::DELETE, path)).await {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.class == Class::AddressUnknown => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// Nobody panics with the lock; if it happens, the forms stay true.
    fn servers(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FloatingIp {
    /// Who bought it, if that stands on it.
    fn mark(&self) -> Option<Mark> {
        Mark::parse(self.description.as_deref()?)
    }
}

/// The id of a server from a node's `spec.providerID`: `openstack:///<id>`,
/// `openstack://<region>/<id>` or `openstack:///<region>/<id>`.
fn server_id(server: &str) -> Option<&str> {
    let rest = server.strip_prefix("openstack://")?;
    let (_, id) = rest.rsplit_once('/')?;
    (!id.is_empty()).then_some(id)
}

impl FloatingIps for Neutron {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            per_server: Some(1),
            steals: true,
            displaces: false,
            configured_by_node: false,
            v4: true,
            v6: false,
            buys: true,
            marks: true,
        }
    }

    fn introduce(&self, server: &str, _node: &str) {
        let Some(id) = server_id(server) else {
            return;
        };
        let mut servers = self.servers();
        if servers.get(id).is_none_or(|known| known != server) {
            servers.insert(id.to_owned(), server.to_owned());
        }
    }

    fn list(&self) -> Reply<'_, Vec<Listed>> {
        Box::pin(self.all())
    }

    fn assign<'a>(&'a self, ip: IpAddr, server: &'a str) -> Reply<'a, Taken> {
        Box::pin(self.put_on(ip, server))
    }

    fn detach(&self, ip: IpAddr) -> Reply<'_, Taken> {
        Box::pin(self.take_off(ip))
    }

    fn check<'a>(&'a self, _: IpAddr, _: &'a str) -> Reply<'a, Progress> {
        // Nothing is ever under way here.
        Box::pin(async { Ok(Progress::Done) })
    }

    fn buy<'a>(&'a self, region: &'a str, v6: bool, mark: &'a Mark) -> Reply<'a, IpAddr> {
        Box::pin(self.purchase(region, v6, mark))
    }

    fn release<'a>(&'a self, ip: IpAddr, mark: &'a Mark) -> Reply<'a, ()> {
        Box::pin(self.give_back(ip, mark))
    }
}
