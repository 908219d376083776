//! Elastic IPs of AWS.
//!
//! An address is put on the first network interface of an instance, where AWS translates
//! it; the node need not know. AWS lets a second address push the first off the instance
//! without a word. So what the instance has is looked up before, and the order is refused
//! if it has one.
//!
//! AWS answers when it is done; nothing is ever under way. A list may lag some seconds
//! behind a change.

mod servers;
#[cfg(test)]
mod tests;
mod wire;

use std::{net::IpAddr, sync::Arc};

use floe_core::nodepool::cloud::{Capabilities, Class, Listed, Mark, Progress, Refusal, Taken};
use serde::de::DeserializeOwned;

use super::query::Environment;
use crate::{
    aws_request::{self, Coded, Service, form},
    floating::{FloatingIps, Reply},
};
use servers::{Instance, Servers};
use wire::{Address, Addresses, Allocated, Associated, Instances, Returned};

/// The version of EC2's API.
const VERSION: &str = "2016-11-15";

/// How many instances are asked for at once; EC2 takes 200 values in a filter.
const AT_ONCE: usize = 100;

/// The Elastic IPs of an account in one region.
#[derive(Clone, Debug)]
pub struct ElasticIps {
    ec2: Service,
    servers: Arc<Servers>,
}

/// The client that the environment has credentials for. See [`aws_request`].
///
/// # Errors
/// When what is set cannot be used, in words for whoever set it.
pub fn from_environment(environment: Environment<'_>) -> Result<Option<ElasticIps>, String> {
    Ok(aws_request::ec2(environment)?.map(ElasticIps::new))
}

impl ElasticIps {
    /// A client of EC2.
    pub fn new(ec2: Service) -> Self {
        Self {
            ec2,
            servers: Arc::default(),
        }
    }

    /// All addresses. AWS has no pages of them.
    async fn all(&self) -> Result<Vec<Address>, Refusal> {
        let all: Addresses = self.ask("DescribeAddresses", &[]).await?;
        Ok(all.set.items)
    }

    async fn find(&self, ip: IpAddr) -> Result<Address, Refusal> {
        let all = self.all().await?;
        of(&all, ip).cloned()
    }

    async fn listed(&self) -> Result<Vec<Listed>, Refusal> {
        let all = self.all().await?;
        self.learn(&all).await?;
        let listed = all.iter().filter_map(|address| {
            Some(Listed {
                ip: address.ip()?,
                server: self.servers.of(address),
                busy: false,
                mark: address.mark(),
            })
        });
        Ok(listed.collect())
    }

    /// Nodes say in which zone their instance is, and lists of addresses do not; an instance
    /// never leaves its zone, so each is asked for once.
    async fn learn(&self, all: &[Address]) -> Result<(), Refusal> {
        self.servers.forget_all_but(all);
        let unknown = self.servers.unknown(all);
        for some in unknown.chunks(AT_ONCE) {
            let names: Vec<String> = (1..=some.len())
                .map(|number| format!("Filter.1.Value.{number}"))
                .collect();
            let values = some.iter().map(String::as_str);
            let mut pairs = vec![("Filter.1.Name", "instance-id")];
            pairs.extend(names.iter().map(String::as_str).zip(values));
            let found: Instances = self.ask("DescribeInstances", &pairs).await?;
            for instance in found.all() {
                self.servers.learn(instance);
            }
        }
        Ok(())
    }

    async fn put_on(&self, ip: IpAddr, server: &str) -> Result<Taken, Refusal> {
        let instance = Instance::named(server).ok_or_else(|| {
            let words = format!("{server:?} is no instance of EC2");
            Refusal::new(Class::Invalid, words)
        })?;
        let _turn = self.servers.turn(instance.id()).ok_or_else(|| {
            let words = format!("another address is just going to {}", instance.id());
            Refusal::new(Class::Busy, words)
        })?;
        let all = self.all().await?;
        let address = of(&all, ip)?;
        if address.instance_id == instance.id() {
            self.servers.remember(instance.id(), server);
            return Ok(Taken::Done);
        }
        let pairs = [("InstanceId.1", instance.id())];
        let found: Instances = self.ask("DescribeInstances", &pairs).await?;
        let target = found
            .all()
            .find(|found| found.id == instance.id() && !found.is_gone());
        let target = target.ok_or_else(|| {
            let words = format!("there is no instance {}", instance.id());
            Refusal::new(Class::ServerUnknown, words)
        })?;
        let place = target.place();
        self.servers.remember(&target.id, server);
        self.servers.remember(&place.interface, server);
        if place.has(address) {
            return Ok(Taken::Done);
        }
        if let Some(other) = all.iter().find(|other| place.has(other)) {
            let words = format!("{} has {} already", target.id, other.public_ip);
            return Err(Refusal::new(Class::ServerTaken, words));
        }
        let whom = if place.alone {
            ("InstanceId", target.id.as_str())
        } else {
            ("NetworkInterfaceId", place.interface.as_str())
        };
        let pairs = [
            ("AllocationId", address.allocation_id.as_str()),
            whom,
            ("AllowReassociation", "true"),
        ];
        let _: Associated = self.tell("AssociateAddress", &pairs).await?;
        Ok(Taken::Done)
    }

    async fn take_off(&self, ip: IpAddr) -> Result<Taken, Refusal> {
        let address = self.find(ip).await?;
        self.take(&address).await?;
        Ok(Taken::Done)
    }

    /// Ends the association that was seen, and not one that came after it.
    async fn take(&self, address: &Address) -> Result<(), Refusal> {
        if address.association_id.is_empty() {
            return Ok(());
        }
        let pairs = [("AssociationId", address.association_id.as_str())];
        let _: Returned = self.tell("DisassociateAddress", &pairs).await?;
        Ok(())
    }

    async fn purchase(&self, region: &str, v6: bool, mark: &Mark) -> Result<IpAddr, Refusal> {
        if v6 {
            let words = "AWS has no Elastic IPs of IPv6";
            return Err(Refusal::new(Class::Invalid, words));
        }
        let border = self.border_group(region)?;
        // The same purchase, made before by an order whose answer was lost.
        let all = self.all().await?;
        let before = all.iter().find(|one| one.mark().as_ref() == Some(mark));
        if let Some(ip) = before.and_then(Address::ip) {
            return Ok(ip);
        }
        let tags = wire::tags(mark);
        let mut pairs = vec![
            ("Domain", "vpc"),
            ("TagSpecification.1.ResourceType", "elastic-ip"),
        ];
        if let Some(border) = border {
            pairs.push(("NetworkBorderGroup", border));
        }
        for (name, value) in &tags {
            pairs.push((name, value));
        }
        let bought: Allocated = self.tell("AllocateAddress", &pairs).await?;
        bought.public_ip.parse().map_err(|_| {
            let words = format!("bought {:?}, which is no address", bought.public_ip);
            Refusal::new(Class::Unclear, words)
        })
    }

    /// What a pool's region adds to that of the client: nothing, or a group of zones outside
    /// of it, as `us-west-2-lax-1`.
    fn border_group<'a>(&self, region: &'a str) -> Result<Option<&'a str>, Refusal> {
        let own = self.ec2.region();
        if region.is_empty() || region == own {
            return Ok(None);
        }
        let rest = region.strip_prefix(own);
        if rest.is_some_and(|rest| rest.starts_with('-')) {
            return Ok(Some(region));
        }
        let words = format!("the region is {own}, and {region:?} is not in it");
        Err(Refusal::new(Class::Invalid, words))
    }

    async fn give_back(&self, ip: IpAddr, mark: &Mark) -> Result<(), Refusal> {
        let all = self.all().await?;
        let Ok(address) = of(&all, ip) else {
            return Ok(());
        };
        if address.mark().as_ref() != Some(mark) {
            let words = format!("{ip} does not bear the mark of this purchase");
            return Err(Refusal::new(Class::HeldElsewhere, words));
        }
        // AWS gives back only what is on no server.
        self.take(address).await?;
        let pairs = [("AllocationId", address.allocation_id.as_str())];
        let released: Result<Returned, Coded> = self.tell("ReleaseAddress", &pairs).await;
        match released {
            Ok(_) => Ok(()),
            Err(coded) if coded.refusal.class == Class::AddressUnknown => Ok(()),
            Err(coded) => Err(coded.refusal),
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        action: &str,
        pairs: &[(&str, &str)],
    ) -> Result<T, Coded> {
        let answer = self.ec2.ask(form(&with_action(action, pairs))).await;
        answer.map_err(Coded::of_a_question)
    }

    async fn tell<T: DeserializeOwned>(
        &self,
        action: &str,
        pairs: &[(&str, &str)],
    ) -> Result<T, Coded> {
        self.ec2.ask(form(&with_action(action, pairs))).await
    }
}

fn with_action<'a>(action: &'a str, pairs: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut all = vec![("Action", action), ("Version", VERSION)];
    all.extend_from_slice(pairs);
    all
}

fn of(all: &[Address], ip: IpAddr) -> Result<&Address, Refusal> {
    all.iter()
        .find(|address| address.ip() == Some(ip))
        .ok_or_else(|| {
            let words = format!("the account has no Elastic IP {ip}");
            Refusal::new(Class::AddressUnknown, words)
        })
}

impl FloatingIps for ElasticIps {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            per_server: Some(1),
            steals: true,
            // AWS would; this client looks first.
            displaces: false,
            configured_by_node: false,
            v4: true,
            v6: false,
            buys: true,
            marks: true,
        }
    }

    fn list(&self) -> Reply<'_, Vec<Listed>> {
        Box::pin(self.listed())
    }

    fn assign<'a>(&'a self, ip: IpAddr, server: &'a str) -> Reply<'a, Taken> {
        Box::pin(self.put_on(ip, server))
    }

    fn detach(&self, ip: IpAddr) -> Reply<'_, Taken> {
        Box::pin(self.take_off(ip))
    }

    fn check<'a>(&'a self, _: IpAddr, handle: &'a str) -> Reply<'a, Progress> {
        let words = format!("AWS has no orders under way, and none called {handle:?}");
        Box::pin(async move { Ok(Progress::Failed(words)) })
    }

    fn buy<'a>(&'a self, region: &'a str, v6: bool, mark: &'a Mark) -> Reply<'a, IpAddr> {
        Box::pin(self.purchase(region, v6, mark))
    }

    fn release<'a>(&'a self, ip: IpAddr, mark: &'a Mark) -> Reply<'a, ()> {
        Box::pin(self.give_back(ip, mark))
    }
}
