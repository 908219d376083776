//! DigitalOcean: reserved IPs, of both families.
//!
//! The addresses of IPv4 are asked for under their name of today, or under the name they
//! had until 2022 where a server knows no other. An order is an action that goes on after
//! the answer; its number is the handle. On an address there is no room for a mark, but an
//! address is in a project, and projects have names: see [`projects`].

mod account;
pub mod api;
pub mod projects;
#[cfg(test)]
mod tests;
mod wire;

use std::{net::IpAddr, sync::Arc};

use floe_core::nodepool::cloud::{Capabilities, Class, Listed, Mark, Progress, Refusal, Taken};
use http::{Method, StatusCode, header::AUTHORIZATION};
use serde_json::json;

use crate::{
    cloud::query::{self, Environment},
    floating::{FloatingIps, Reply},
    http::{AGENT, Http, Request, Response},
};
use account::Account;
use api::Api;
use wire::{Action, Created, Kind};

/// What stands before the number of a droplet in `spec.providerID`.
const SCHEME: &str = "digitalocean://";

/// What an administrator has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Only the names that the product had before it was called "reserved IP".
    pub floating_ip_names: bool,
    /// Reserved IPv6 too, which costs one call more for each list.
    pub ipv6: bool,
    /// A project for what is bought, if it is not the account's default.
    pub project: Option<String>,
    /// Each address that is bought gets a project of its own, whose name is the mark.
    pub project_per_address: bool,
}

/// The client.
#[derive(Debug)]
pub struct DigitalOcean {
    account: Account,
    options: Options,
    marks: projects::Marks,
}

/// How the API is reached, if the environment has a token for it: `DIGITALOCEAN_API_URL`
/// and `DIGITALOCEAN_USER_AGENT` say where it is and who calls.
///
/// # Errors
/// When a setting makes no sense, in words for whoever wrote it.
pub fn http(environment: Environment<'_>) -> Result<Option<Http>, String> {
    let Some(token) = query::secret(environment, "DIGITALOCEAN_ACCESS_TOKEN")? else {
        return Ok(None);
    };
    let url = query::option(environment, "DIGITALOCEAN_API_URL");
    let agent = query::option(environment, "DIGITALOCEAN_USER_AGENT");
    let http = Http::new(
        url.as_deref().unwrap_or("https://api.digitalocean.com"),
        agent.as_deref().unwrap_or(AGENT),
    )?;
    let bearer = format!("Bearer {}", token.expose());
    http.with_secret(AUTHORIZATION, &bearer).map(Some)
}

/// How the fake is reached that speaks this API, if the environment says where it is.
///
/// # Errors
/// When a setting makes no sense, in words for whoever wrote it.
pub fn fake(environment: Environment<'_>) -> Result<Option<Http>, String> {
    let Some(url) = query::option(environment, "FLOE_FAKE_CLOUD_URL") else {
        return Ok(None);
    };
    let token = query::secret(environment, "FLOE_FAKE_CLOUD_TOKEN")?;
    let token = token.as_ref().map_or("fake", |it| it.expose());
    let http = Http::new(&url, AGENT)?;
    http.with_secret(AUTHORIZATION, &format!("Bearer {token}"))
        .map(Some)
}

/// The client that the environment has credentials for.
///
/// # Errors
/// When a setting makes no sense, in words for whoever wrote it.
pub fn from_environment(environment: Environment<'_>) -> Result<Option<DigitalOcean>, String> {
    let Some(http) = http(environment)? else {
        return Ok(None);
    };
    let options = Options {
        floating_ip_names: query::switch(environment, "DIGITALOCEAN_FLOATING_IP_NAMES")?,
        ipv6: query::switch(environment, "DIGITALOCEAN_RESERVED_IPV6")?,
        project: query::option(environment, "DIGITALOCEAN_PROJECT_ID"),
        project_per_address: query::switch(environment, "DIGITALOCEAN_PROJECT_PER_ADDRESS")?,
    };
    if options.project.is_some() && options.project_per_address {
        return Err(
            "DIGITALOCEAN_PROJECT_ID and DIGITALOCEAN_PROJECT_PER_ADDRESS: choose one of them"
                .to_owned(),
        );
    }
    Ok(Some(DigitalOcean::new(http, options)))
}

impl DigitalOcean {
    /// A client of the account that the credentials of `http` are for.
    pub fn new(http: Http, options: Options) -> Self {
        let account = Account::new(Api::new(http), options.floating_ip_names);
        Self {
            account,
            options,
            marks: projects::Marks::default(),
        }
    }

    async fn list_all(&self) -> Result<Vec<Listed>, Refusal> {
        let mut addresses = self.account.list(Kind::V4).await?;
        if self.options.ipv6 {
            addresses.extend(self.account.list(Kind::V6).await?);
        }
        let marks = if self.options.project_per_address {
            let projects = addresses.iter().filter_map(|it| it.project.as_deref());
            self.marks.of(self.account.api(), projects).await?
        } else {
            Arc::default()
        };
        let listed = addresses.into_iter().map(|address| Listed {
            ip: address.ip,
            server: address.droplet.map(|id| format!("{SCHEME}{id}")),
            busy: address.locked,
            mark: address.project.and_then(|id| marks.get(&id)?.clone()),
        });
        Ok(listed.collect())
    }

    async fn assign_to(&self, ip: IpAddr, server: &str) -> Result<Taken, Refusal> {
        let droplet = droplet(server)?;
        let order = json!({"type": "assign", "droplet_id": droplet});
        let answer = self.account.act(self.kind(ip)?, ip, &order).await?;
        if answer.status.is_success() {
            return taken(&answer);
        }
        let refusal = api::refusal(&answer, Class::AddressUnknown);
        if !is_puzzling(answer.status) {
            return Err(refusal);
        }
        self.why_not(ip, droplet, refusal).await
    }

    /// One status stands for many reasons here, so the state is read to find the one.
    async fn why_not(&self, ip: IpAddr, droplet: u64, refusal: Refusal) -> Result<Taken, Refusal> {
        let kind = self.kind(ip)?;
        let because = |class, words: String| {
            let words = format!("{words}: {}", refusal.message);
            Err(Refusal::new(class, words))
        };
        let address = self.account.get(kind, ip).await?;
        let Some(address) = address else {
            return because(Class::AddressUnknown, format!("the account has no {ip}"));
        };
        if address.locked {
            return because(Class::Busy, format!("something is under way for {ip}"));
        }
        if address.droplet == Some(droplet) {
            return Ok(Taken::Done);
        }
        if !self.account.has_droplet(droplet).await? {
            return because(Class::ServerUnknown, format!("there is no {droplet}"));
        }
        let all = self.account.list(kind).await?;
        let other = all
            .iter()
            .find(|other| other.droplet == Some(droplet) && other.ip != ip);
        match other {
            Some(other) => because(
                Class::ServerTaken,
                format!("droplet {droplet} has {} already", other.ip),
            ),
            None => Err(refusal),
        }
    }

    async fn detach_from(&self, ip: IpAddr) -> Result<Taken, Refusal> {
        let kind = self.kind(ip)?;
        let order = json!({"type": "unassign"});
        let answer = self.account.act(kind, ip, &order).await?;
        if answer.status.is_success() {
            return taken(&answer);
        }
        let refusal = api::refusal(&answer, Class::AddressUnknown);
        if !is_puzzling(answer.status) {
            return Err(refusal);
        }
        match self.account.get(kind, ip).await? {
            None => Err(Refusal::new(Class::AddressUnknown, refusal.message)),
            Some(address) if address.locked => Err(Refusal::new(Class::Busy, refusal.message)),
            Some(address) if address.droplet.is_none() => Ok(Taken::Done),
            Some(_) => Err(refusal),
        }
    }

    async fn progress(&self, ip: IpAddr, handle: &str) -> Result<Progress, Refusal> {
        if handle.parse::<u64>().is_err() {
            let words = format!("{handle:?} is the number of no action");
            return Ok(Progress::Failed(words));
        }
        let answer = self.account.action(self.kind(ip)?, ip, handle).await?;
        if answer.status == StatusCode::NOT_FOUND {
            // Whoever asks reads the list next, and that tells.
            return Ok(Progress::Failed("nobody knows of it any more".to_owned()));
        }
        let action: Action = api::good(&answer, Class::AddressUnknown)?.json()?;
        Ok(match action.action.status.as_str() {
            "completed" => Progress::Done,
            "in-progress" => Progress::Pending,
            other => Progress::Failed(format!("action {handle} is {other}")),
        })
    }

    async fn buy_in(&self, region: &str, v6: bool, mark: &Mark) -> Result<IpAddr, Refusal> {
        let kind = if v6 { Kind::V6 } else { Kind::V4 };
        self.allow(kind)?;
        if v6 && (self.options.project_per_address || self.options.project.is_some()) {
            let words = "reserved IPv6 cannot be bought into a project, so nothing would prove who bought it";
            return Err(Refusal::new(Class::Invalid, words));
        }
        if !self.options.project_per_address {
            let project = self.options.project.as_deref();
            return self.order(kind, region, project).await;
        }
        let api = self.account.api();
        let project = projects::ensure(api, mark).await?;
        let bought = self.order(kind, region, Some(&project)).await;
        if let Err(Refusal {
            class: Class::Quota | Class::Invalid,
            ..
        }) = bought
        {
            // It was refused for long, and the project would be left over. If it cannot be
            // removed, the next purchase of this mark finds it.
            let _ = projects::remove(api, &project).await;
        }
        bought
    }

    async fn order(
        &self,
        kind: Kind,
        region: &str,
        project: Option<&str>,
    ) -> Result<IpAddr, Refusal> {
        let mut order = match kind {
            Kind::V4 => json!({"region": region}),
            Kind::V6 => json!({"region_slug": region}),
        };
        if let Some(project) = project {
            order["project_id"] = project.into();
        }
        let answer = self.account.create(kind, &order).await?;
        if answer.status == StatusCode::UNPROCESSABLE_ENTITY {
            let refusal = api::refusal(&answer, Class::Invalid);
            let words = refusal.message.to_ascii_lowercase();
            let full = ["limit", "quota", "exceed"];
            return Err(if full.iter().any(|word| words.contains(word)) {
                Refusal::new(Class::Quota, refusal.message)
            } else {
                refusal
            });
        }
        let created: Created = api::good(&answer, Class::Invalid)?.json()?;
        Ok(created.address().ip)
    }

    async fn give_back(&self, ip: IpAddr, mark: &Mark) -> Result<(), Refusal> {
        let kind = self.kind(ip)?;
        let api = self.account.api();
        let unproven = || {
            let words = format!(
                "nothing on {ip} proves that it was bought as {}",
                mark.text()
            );
            Err(Refusal::new(Class::HeldElsewhere, words))
        };
        let address = self.account.get(kind, ip).await?;
        if !self.options.project_per_address {
            return if address.is_none() {
                Ok(())
            } else {
                unproven()
            };
        }
        let project = projects::find(api, mark).await?;
        if let Some(address) = address {
            if project.is_none() || address.project != project {
                return unproven();
            }
            self.account.delete(kind, ip).await?;
        }
        match project {
            Some(project) => projects::remove(api, &project).await,
            None => Ok(()),
        }
    }

    /// Of which kind an address is, if the account is asked for such at all.
    fn kind(&self, ip: IpAddr) -> Result<Kind, Refusal> {
        let kind = if ip.is_ipv6() { Kind::V6 } else { Kind::V4 };
        self.allow(kind)?;
        Ok(kind)
    }

    fn allow(&self, kind: Kind) -> Result<(), Refusal> {
        if kind == Kind::V6 && !self.options.ipv6 {
            let words = "reserved IPv6 is switched off; see DIGITALOCEAN_RESERVED_IPV6";
            return Err(Refusal::new(Class::Invalid, words));
        }
        Ok(())
    }
}

/// Statuses that stand for more than one reason.
fn is_puzzling(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY
    )
}

/// The number of a droplet.
fn droplet(server: &str) -> Result<u64, Refusal> {
    let number = server.strip_prefix(SCHEME).unwrap_or_default();
    number.parse().map_err(|_| {
        let words = format!("{server:?} is no droplet: {SCHEME}<number> would be one");
        Refusal::new(Class::Invalid, words)
    })
}

/// What became of an order that was taken.
fn taken(answer: &Response) -> Result<Taken, Refusal> {
    let Action { action } = answer.json()?;
    match action.status.as_str() {
        "completed" => Ok(Taken::Done),
        "errored" => {
            let words = format!("action {} failed at once", action.id);
            Err(Refusal::new(Class::Unavailable, words))
        }
        _ => Ok(Taken::Pending(action.id.to_string())),
    }
}

impl FloatingIps for DigitalOcean {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            per_server: Some(1),
            steals: true,
            displaces: false,
            configured_by_node: false,
            v4: true,
            v6: self.options.ipv6,
            buys: true,
            marks: self.options.project_per_address,
        }
    }

    fn list(&self) -> Reply<'_, Vec<Listed>> {
        Box::pin(self.list_all())
    }

    fn assign<'a>(&'a self, ip: IpAddr, server: &'a str) -> Reply<'a, Taken> {
        Box::pin(self.assign_to(ip, server))
    }

    fn detach(&self, ip: IpAddr) -> Reply<'_, Taken> {
        Box::pin(self.detach_from(ip))
    }

    fn check<'a>(&'a self, ip: IpAddr, handle: &'a str) -> Reply<'a, Progress> {
        Box::pin(self.progress(ip, handle))
    }

    fn buy<'a>(&'a self, region: &'a str, v6: bool, mark: &'a Mark) -> Reply<'a, IpAddr> {
        Box::pin(self.buy_in(region, v6, mark))
    }

    fn release<'a>(&'a self, ip: IpAddr, mark: &'a Mark) -> Reply<'a, ()> {
        Box::pin(self.give_back(ip, mark))
    }
}

/// A request with a body.
fn with_body(method: Method, path: String, body: &serde_json::Value) -> Request {
    Request::new(method, path).json(body)
}
