//! Floating IPs of Hetzner Cloud.
//!
//! A token belongs to one project, and its addresses are the account. Orders are taken and
//! done later: the handle of one that is under way is the id of Hetzner's action. The node
//! has to configure the address itself.
//!
//! An address of IPv6 is a network of 64 bits here, which goes to a server as a whole; it is
//! known by its first address, `2001:db8::1` for `2001:db8::/64`.

mod errors;
#[cfg(test)]
mod tests;
mod wire;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use floe_core::nodepool::cloud::{Capabilities, Class, Listed, Mark, Progress, Refusal, Taken};
use http::{Method, header::AUTHORIZATION};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::query::{self, Environment, with_query};
use crate::{
    floating::{FloatingIps, Reply},
    http::{Http, Request, Response, Secret},
};
use errors::Coded;
use wire::{Action, FloatingIp, One, Ordered, Page, Status};

/// Where the API is, unless somebody says otherwise.
pub const ENDPOINT: &str = "https://api.hetzner.cloud/v1";

/// The most that a page can have.
const PER_PAGE: &str = "50";

/// The floating IPs of a project.
#[derive(Clone, Debug)]
pub struct Hetzner {
    http: Http,
    /// The API knows addresses by ids and cannot search for an address. An id belongs to
    /// the same address for ever.
    ids: Arc<Mutex<BTreeMap<IpAddr, u64>>>,
}

/// The client that the environment has credentials for: `HCLOUD_TOKEN` or
/// `HCLOUD_TOKEN_FILE`, and `HCLOUD_ENDPOINT`.
///
/// # Errors
/// When what is set cannot be used, in words for whoever set it.
pub fn from_environment(environment: Environment<'_>) -> Result<Option<Hetzner>, String> {
    let Some(token) = query::secret(environment, "HCLOUD_TOKEN")? else {
        return Ok(None);
    };
    let endpoint = query::option(environment, "HCLOUD_ENDPOINT");
    Hetzner::new(endpoint.as_deref().unwrap_or(ENDPOINT), &token).map(Some)
}

impl Hetzner {
    /// A client of the API at `endpoint`, which ends with its version.
    ///
    /// # Errors
    /// When the address or the token cannot be used.
    pub fn new(endpoint: &str, token: &Secret) -> Result<Self, String> {
        let http = Http::new(endpoint, concat!("floe/", env!("CARGO_PKG_VERSION")))?
            .with_secret(AUTHORIZATION, &format!("Bearer {}", token.expose()))?;
        Ok(Self {
            http,
            ids: Arc::default(),
        })
    }

    async fn all(&self) -> Result<Vec<FloatingIp>, Refusal> {
        let mut all: Vec<FloatingIp> = Vec::new();
        let mut page = 1;
        loop {
            let number = page.to_string();
            let pairs = [("page", number.as_str()), ("per_page", PER_PAGE)];
            let path = with_query("/floating_ips", &pairs);
            let answer: Page = self.get(&path).await.map_err(no_list)?;
            all.extend(answer.floating_ips);
            match answer.meta.pagination.next_page {
                Some(next) if next > page => page = next,
                Some(_) | None => break,
            }
        }
        let ids = all.iter().filter_map(|one| Some((one.address()?, one.id)));
        *self.ids() = ids.collect();
        Ok(all)
    }

    /// What there is of an address now.
    async fn find(&self, ip: IpAddr) -> Result<FloatingIp, Refusal> {
        let known = self.ids().get(&ip).copied();
        if let Some(id) = known {
            match self.get::<One>(&format!("/floating_ips/{id}")).await {
                Ok(one) => return Ok(one.floating_ip),
                // It may have been given back, and bought again under another id.
                Err(refusal) if refusal.class == Class::AddressUnknown => {}
                Err(refusal) => return Err(refusal),
            }
        }
        let all = self.all().await?;
        let of_address = |one: &&FloatingIp| one.address() == Some(ip);
        if let Some(one) = all.iter().find(of_address) {
            return Ok(one.clone());
        }
        let words = match all.iter().find(|one| one.contains(ip)) {
            Some(one) => format!(
                "{ip} is part of {}, which is known by its first address only",
                one.ip
            ),
            None => format!("the project has no floating IP {ip}"),
        };
        Err(Refusal::new(Class::AddressUnknown, words))
    }

    async fn put_on(&self, ip: IpAddr, server: &str) -> Result<Taken, Refusal> {
        let target = wire::server_id(server).ok_or_else(|| {
            Refusal::new(
                Class::Invalid,
                format!("{server:?} is no server of Hetzner Cloud"),
            )
        })?;
        let found = self.find(ip).await?;
        if found.server == Some(target) {
            return Ok(Taken::Done);
        }
        let body = json!({ "server": target });
        let coded = match self.order(&found, "assign", &body).await? {
            Ok(taken) => return Ok(taken),
            Err(coded) => coded,
        };
        match coded.code.as_str() {
            "floating_ip_assigned" if self.find(ip).await?.server == Some(target) => {
                Ok(Taken::Done)
            }
            // It does not say what it has not found, and much depends on that.
            "not_found" | "invalid_input" if self.is_gone(target).await? => Err(Refusal::new(
                Class::ServerUnknown,
                format!("the project has no server {target}"),
            )),
            _ => Err(coded.refusal),
        }
    }

    async fn take_off(&self, ip: IpAddr) -> Result<Taken, Refusal> {
        let found = self.find(ip).await?;
        if found.server.is_none() {
            return Ok(Taken::Done);
        }
        let ordered = self.order(&found, "unassign", &json!({})).await?;
        ordered.map_err(|coded| coded.refusal)
    }

    async fn progress(&self, handle: &str) -> Result<Progress, Refusal> {
        let unknown = || Progress::Failed(format!("there is no action {handle}"));
        let Ok(id) = handle.parse::<u64>() else {
            return Ok(unknown());
        };
        let path = format!("/floating_ips/actions/{id}");
        match self.get::<Ordered>(&path).await {
            Ok(Ordered { action }) => Ok(match action.status {
                Status::Running => Progress::Pending,
                Status::Success => Progress::Done,
                Status::Error => Progress::Failed(errors::failed(&action).message),
            }),
            Err(refusal) if refusal.class == Class::AddressUnknown => Ok(unknown()),
            Err(refusal) => Err(refusal),
        }
    }

    async fn purchase(&self, region: &str, v6: bool, mark: &Mark) -> Result<IpAddr, Refusal> {
        let name = wire::name(mark);
        let body = json!({
            "type": if v6 { "ipv6" } else { "ipv4" },
            "home_location": region,
            "name": name,
            "description": "bought by floe",
            "labels": wire::labels(mark),
        });
        let request = Request::new(Method::POST, "/floating_ips").json(&body);
        let answer = self.http.send(request).await?;
        let bought = if answer.status.is_success() {
            answer.json::<One>()?.floating_ip
        } else {
            let Coded { code, refusal } = errors::read(&answer, true);
            let before = if code == "uniqueness_error" {
                self.named(&name).await?
            } else {
                None
            };
            // The same purchase, made before by an order whose answer was lost.
            before
                .filter(|one| one.mark().as_ref() == Some(mark))
                .ok_or(refusal)?
        };
        let ip = bought.address().ok_or_else(|| {
            let words = format!("bought {:?}, which is no address", bought.ip);
            Refusal::new(Class::Unclear, words)
        })?;
        self.ids().insert(ip, bought.id);
        Ok(ip)
    }

    async fn give_back(&self, ip: IpAddr, mark: &Mark) -> Result<(), Refusal> {
        let found = match self.find(ip).await {
            Ok(found) => found,
            Err(refusal) if refusal.class == Class::AddressUnknown => return Ok(()),
            Err(refusal) => return Err(refusal),
        };
        if found.mark().as_ref() != Some(mark) {
            let words = format!("{ip} does not bear the mark of this purchase");
            return Err(Refusal::new(Class::HeldElsewhere, words));
        }
        if found.server.is_some() {
            // Hetzner deletes only what is on no server.
            let ordered = self.order(&found, "unassign", &json!({})).await?;
            match ordered.map_err(|coded| coded.refusal)? {
                Taken::Done => {}
                Taken::Pending(_) => {
                    let words = format!("{ip} is being taken from its server first");
                    return Err(Refusal::new(Class::Busy, words));
                }
            }
        }
        let path = format!("/floating_ips/{}", found.id);
        let answer = self.http.send(Request::new(Method::DELETE, path)).await?;
        if answer.status.is_success() {
            self.ids().remove(&ip);
            return Ok(());
        }
        let Coded { refusal, .. } = errors::read(&answer, true);
        if refusal.class == Class::AddressUnknown {
            return Ok(());
        }
        Err(refusal)
    }

    async fn named(&self, name: &str) -> Result<Option<FloatingIp>, Refusal> {
        let page: Page = self
            .get(&with_query("/floating_ips", &[("name", name)]))
            .await?;
        Ok(page.floating_ips.into_iter().next())
    }

    /// Whether the project has no such server.
    async fn is_gone(&self, server: u64) -> Result<bool, Refusal> {
        let path = format!("/servers/{server}");
        match self.get::<serde_json::Value>(&path).await {
            Ok(_) => Ok(false),
            Err(refusal) if refusal.class == Class::AddressUnknown => Ok(true),
            Err(refusal) => Err(refusal),
        }
    }

    /// Orders something of a floating IP. The outer refusal says that there is no answer,
    /// the inner one is the API's.
    async fn order(
        &self,
        of: &FloatingIp,
        what: &str,
        body: &serde_json::Value,
    ) -> Result<Result<Taken, Coded>, Refusal> {
        let path = format!("/floating_ips/{}/actions/{what}", of.id);
        let request = Request::new(Method::POST, path).json(body);
        let answer = self.http.send(request).await?;
        if !answer.status.is_success() {
            return Ok(Err(errors::read(&answer, true)));
        }
        taken(&answer.json::<Ordered>()?.action).map(Ok)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Refusal> {
        let answer: Response = self.http.send(Request::new(Method::GET, path)).await?;
        if !answer.status.is_success() {
            return Err(errors::read(&answer, false).refusal);
        }
        answer.json()
    }

    /// Nobody panics with the lock; if it happens, ids stay true.
    fn ids(&self) -> MutexGuard<'_, BTreeMap<IpAddr, u64>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A list that is not there says nothing of any address.
fn no_list(mut refusal: Refusal) -> Refusal {
    if refusal.class == Class::AddressUnknown {
        refusal.class = Class::Invalid;
    }
    refusal
}

fn taken(action: &Action) -> Result<Taken, Refusal> {
    match action.status {
        Status::Running => Ok(Taken::Pending(action.id.to_string())),
        Status::Success => Ok(Taken::Done),
        Status::Error => Err(errors::failed(action)),
    }
}

impl FloatingIps for Hetzner {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            per_server: None,
            steals: true,
            displaces: false,
            configured_by_node: true,
            v4: true,
            v6: true,
            buys: true,
            marks: true,
        }
    }

    fn list(&self) -> Reply<'_, Vec<Listed>> {
        Box::pin(async {
            let all = self.all().await?;
            Ok(all.iter().filter_map(FloatingIp::listed).collect())
        })
    }

    fn assign<'a>(&'a self, ip: IpAddr, server: &'a str) -> Reply<'a, Taken> {
        Box::pin(self.put_on(ip, server))
    }

    fn detach(&self, ip: IpAddr) -> Reply<'_, Taken> {
        Box::pin(self.take_off(ip))
    }

    fn check<'a>(&'a self, _: IpAddr, handle: &'a str) -> Reply<'a, Progress> {
        Box::pin(self.progress(handle))
    }

    fn buy<'a>(&'a self, region: &'a str, v6: bool, mark: &'a Mark) -> Reply<'a, IpAddr> {
        Box::pin(self.purchase(region, v6, mark))
    }

    fn release<'a>(&'a self, ip: IpAddr, mark: &'a Mark) -> Reply<'a, ()> {
        Box::pin(self.give_back(ip, mark))
    }
}
