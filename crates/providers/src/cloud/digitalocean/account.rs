//! The calls about addresses of an account, whatever they are called there.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU8, Ordering},
};

use floe_core::nodepool::cloud::{Class, Refusal};
use http::{Method, StatusCode};
use serde_json::Value;

use super::{
    api::{self, Api},
    wire::{Address, Kind, One, ReservedIp, ReservedIpv6},
    with_body,
};
use crate::http::{Request, Response};

/// What addresses of IPv4 are called by the server.
const UNKNOWN: u8 = 0;
const RESERVED: u8 = 1;
const FLOATING: u8 = 2;

/// An account.
#[derive(Debug)]
pub struct Account {
    api: Api,
    names: AtomicU8,
}

impl Account {
    /// An account on a server of which it is known that it has the old names, or of which
    /// that is found out.
    pub fn new(api: Api, old_names: bool) -> Self {
        let names = if old_names { FLOATING } else { UNKNOWN };
        Self {
            api,
            names: AtomicU8::new(names),
        }
    }

    /// How the server is spoken to.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// All addresses of a kind.
    pub async fn list(&self, kind: Kind) -> Result<Vec<Address>, Refusal> {
        let missing = || {
            let words = "the server has no such list";
            Refusal::new(Class::Unavailable, words)
        };
        match kind {
            Kind::V6 => {
                let found = self
                    .api
                    .pages("/v2/reserved_ipv6", "reserved_ipv6s")
                    .await?;
                let found: Vec<ReservedIpv6> = found.ok_or_else(missing)?;
                Ok(found.into_iter().map(Address::from).collect())
            }
            Kind::V4 => {
                let found = self.list_v4().await?.ok_or_else(missing)?;
                found.into_iter().map(Address::try_from).collect()
            }
        }
    }

    async fn list_v4(&self) -> Result<Option<Vec<ReservedIp>>, Refusal> {
        let names = self.names.load(Ordering::Relaxed);
        if names != FLOATING {
            let found = self.api.pages("/v2/reserved_ips", "reserved_ips").await?;
            if found.is_some() || names == RESERVED {
                self.names.store(RESERVED, Ordering::Relaxed);
                return Ok(found);
            }
        }
        let found = self.api.pages("/v2/floating_ips", "floating_ips").await?;
        if found.is_some() {
            self.names.store(FLOATING, Ordering::Relaxed);
        }
        Ok(found)
    }

    /// An address, if the account has it.
    pub async fn get(&self, kind: Kind, ip: IpAddr) -> Result<Option<Address>, Refusal> {
        let request = |base: &str| Request::new(Method::GET, format!("{base}/{ip}"));
        let answer = self.send(kind, request).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let one: One = api::good(&answer, Class::AddressUnknown)?.json()?;
        one.address().map(Some)
    }

    /// Orders something for an address.
    pub async fn act(&self, kind: Kind, ip: IpAddr, order: &Value) -> Result<Response, Refusal> {
        let request = |base: &str| with_body(Method::POST, format!("{base}/{ip}/actions"), order);
        self.send(kind, request).await
    }

    /// How an order is going.
    pub async fn action(&self, kind: Kind, ip: IpAddr, id: &str) -> Result<Response, Refusal> {
        match kind {
            Kind::V4 => {
                let request =
                    |base: &str| Request::new(Method::GET, format!("{base}/{ip}/actions/{id}"));
                self.send(kind, request).await
            }
            // These have no place of their own.
            Kind::V6 => self.api.get(format!("/v2/actions/{id}")).await,
        }
    }

    /// Buys an address.
    pub async fn create(&self, kind: Kind, order: &Value) -> Result<Response, Refusal> {
        let request = |base: &str| with_body(Method::POST, base.to_owned(), order);
        self.send(kind, request).await
    }

    /// Gives an address back. Where there is none, it is done.
    pub async fn delete(&self, kind: Kind, ip: IpAddr) -> Result<(), Refusal> {
        let request = |base: &str| Request::new(Method::DELETE, format!("{base}/{ip}"));
        let answer = self.send(kind, request).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        let Err(refusal) = api::good(&answer, Class::AddressUnknown) else {
            return Ok(());
        };
        if answer.status == StatusCode::UNPROCESSABLE_ENTITY {
            // So it says while an action is under way.
            let locked = self.get(kind, ip).await?.is_some_and(|found| found.locked);
            if locked {
                return Err(Refusal::new(Class::Busy, refusal.message));
            }
        }
        Err(refusal)
    }

    /// Whether there is such a droplet.
    pub async fn has_droplet(&self, id: u64) -> Result<bool, Refusal> {
        let answer = self.api.get(format!("/v2/droplets/{id}")).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        api::good(&answer, Class::ServerUnknown).map(|_| true)
    }

    /// Sends a request to where addresses of that kind are.
    async fn send(
        &self,
        kind: Kind,
        request: impl Fn(&str) -> Request + Send + Sync,
    ) -> Result<Response, Refusal> {
        if kind == Kind::V6 {
            return self.api.send(request("/v2/reserved_ipv6")).await;
        }
        if self.names.load(Ordering::Relaxed) != FLOATING {
            let answer = self.api.send(request("/v2/reserved_ips")).await?;
            let known = self.names.load(Ordering::Relaxed) == RESERVED;
            if known || answer.status != StatusCode::NOT_FOUND {
                return Ok(answer);
            }
            // Either there is no such address, or there are no such names: the list tells.
            self.list_v4().await?;
            if self.names.load(Ordering::Relaxed) != FLOATING {
                return Ok(answer);
            }
        }
        self.api.send(request("/v2/floating_ips")).await
    }
}
