//! For tests: a cloud and a name server in memory, with faults.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use floe_core::nodepool::{
    cloud::{Capabilities, Class, Listed, Mark, Progress, Refusal, Taken},
    records::{Found, RecordSet},
};
use floe_providers::{
    floating::{FloatingIps, Reply},
    names::Dns,
};
use tokio::time::sleep;

/// A cloud; all clones are the same one.
#[derive(Clone)]
pub struct FakeCloud(Arc<Mutex<Cloud>>);

pub struct Cloud {
    pub capabilities: Capabilities,
    pub addresses: BTreeMap<IpAddr, Address>,
    /// The next addresses that are sold.
    pub shop: VecDeque<IpAddr>,
    /// Every call, in order.
    pub calls: Vec<String>,
    /// What happens to the next call whose text begins so.
    pub faults: VecDeque<(String, Fault)>,
    /// Orders are under way until somebody finishes them.
    pub slow: bool,
    orders: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Address {
    pub server: Option<String>,
    pub mark: Option<Mark>,
    pub order: Option<(String, Option<String>)>,
}

#[derive(Clone, Debug)]
pub enum Fault {
    /// It is refused.
    Refuse(Refusal),
    /// It is done, and nobody answers.
    Lose,
    /// It is not done, and nobody answers.
    Hang,
    /// It is done, and answered, after so long.
    Late(Duration),
    /// The client breaks.
    Panic,
}

impl Default for FakeCloud {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Cloud {
            capabilities: Capabilities {
                per_server: Some(1),
                steals: true,
                displaces: false,
                configured_by_node: false,
                v4: true,
                v6: true,
                buys: true,
                marks: true,
            },
            addresses: BTreeMap::new(),
            shop: VecDeque::new(),
            calls: Vec::new(),
            faults: VecDeque::new(),
            slow: false,
            orders: 0,
        })))
    }
}

impl FakeCloud {
    pub fn lock(&self) -> MutexGuard<'_, Cloud> {
        self.0.lock().unwrap()
    }

    /// Has an address, on a server or on none.
    pub fn has(&self, ip: &str, server: Option<&str>) {
        let address = Address {
            server: server.map(str::to_owned),
            ..Address::default()
        };
        self.lock().addresses.insert(ip.parse().unwrap(), address);
    }

    pub fn server_of(&self, ip: &str) -> Option<String> {
        let cloud = self.lock();
        cloud
            .addresses
            .get(&ip.parse::<IpAddr>().unwrap())?
            .server
            .clone()
    }

    pub fn fault(&self, call: &str, fault: Fault) {
        self.lock().faults.push_back((call.to_owned(), fault));
    }

    /// How many calls began so.
    pub fn count(&self, start: &str) -> usize {
        let cloud = self.lock();
        cloud
            .calls
            .iter()
            .filter(|it| it.starts_with(start))
            .count()
    }

    /// All orders under way are done.
    pub fn finish(&self) {
        for address in self.lock().addresses.values_mut() {
            if let Some((_, target)) = address.order.take() {
                address.server = target;
            }
        }
    }

    fn act<'a, T: Send + 'a>(
        &self,
        call: String,
        act: impl FnOnce(&mut Cloud) -> Result<T, Refusal> + Send + 'a,
    ) -> Reply<'a, T> {
        let cloud = self.clone();
        Box::pin(async move {
            let fault = cloud.next_fault(&call);
            match fault {
                None => act(&mut cloud.lock()),
                Some(Fault::Refuse(refusal)) => Err(refusal),
                Some(Fault::Hang) => std::future::pending().await,
                Some(Fault::Lose) => {
                    let _ = act(&mut cloud.lock());
                    Err(Refusal::new(Class::Unclear, "no answer"))
                }
                Some(Fault::Late(wait)) => {
                    sleep(wait).await;
                    act(&mut cloud.lock())
                }
                Some(Fault::Panic) => panic!("as the test wants it"),
            }
        })
    }

    fn next_fault(&self, call: &str) -> Option<Fault> {
        let mut cloud = self.lock();
        cloud.calls.push(call.to_owned());
        let mut faults = cloud.faults.iter();
        let position = faults.position(|(start, _)| call.starts_with(start))?;
        cloud.faults.remove(position).map(|(_, fault)| fault)
    }
}

impl Cloud {
    fn order(&mut self, ip: IpAddr, target: Option<String>) -> Result<Taken, Refusal> {
        if let Some(server) = &target {
            let others = self.addresses.iter();
            let others =
                others.filter(|(other, it)| **other != ip && it.server.as_ref() == Some(server));
            let most = self.capabilities.per_server.unwrap_or(usize::MAX);
            if others.count() >= most {
                return Err(Refusal::new(Class::ServerTaken, "it has one already"));
            }
        }
        if self.capabilities.displaces {
            let others = self.addresses.values_mut();
            for other in others.filter(|it| target.is_some() && it.server == target) {
                other.server = None;
            }
        }
        let slow = self.slow;
        self.orders += 1;
        let handle = self.orders.to_string();
        let address = self.known(ip)?;
        if slow {
            address.order = Some((handle.clone(), target));
            return Ok(Taken::Pending(handle));
        }
        address.server = target;
        Ok(Taken::Done)
    }

    fn known(&mut self, ip: IpAddr) -> Result<&mut Address, Refusal> {
        let unknown = || Refusal::new(Class::AddressUnknown, "no such address");
        self.addresses.get_mut(&ip).ok_or_else(unknown)
    }
}

impl FloatingIps for FakeCloud {
    fn capabilities(&self) -> Capabilities {
        self.lock().capabilities
    }

    fn list(&self) -> Reply<'_, Vec<Listed>> {
        self.act("list".into(), |cloud| {
            let all = cloud.addresses.iter().map(|(ip, it)| Listed {
                ip: *ip,
                server: it.server.clone(),
                busy: it.order.is_some(),
                mark: it.mark.clone(),
            });
            Ok(all.collect())
        })
    }

    fn assign<'a>(&'a self, ip: IpAddr, server: &'a str) -> Reply<'a, Taken> {
        let target = Some(server.to_owned());
        self.act(format!("assign {ip} {server}"), move |it| {
            it.order(ip, target)
        })
    }

    fn detach(&self, ip: IpAddr) -> Reply<'_, Taken> {
        self.act(format!("detach {ip}"), move |it| it.order(ip, None))
    }

    fn check<'a>(&'a self, ip: IpAddr, handle: &'a str) -> Reply<'a, Progress> {
        self.act(format!("check {ip} {handle}"), move |cloud| {
            let address = cloud.known(ip)?;
            let open = address.order.as_ref().is_some_and(|(own, _)| own == handle);
            Ok(if open {
                Progress::Pending
            } else {
                Progress::Done
            })
        })
    }

    fn buy<'a>(&'a self, region: &'a str, v6: bool, mark: &'a Mark) -> Reply<'a, IpAddr> {
        let mark = mark.clone();
        self.act(format!("buy {region} {v6}"), move |cloud| {
            let sold = || Refusal::new(Class::Quota, "no more");
            let ip = cloud.shop.pop_front().ok_or_else(sold)?;
            let address = Address {
                mark: Some(mark),
                ..Address::default()
            };
            cloud.addresses.insert(ip, address);
            Ok(ip)
        })
    }

    fn release<'a>(&'a self, ip: IpAddr, mark: &'a Mark) -> Reply<'a, ()> {
        let mark = mark.clone();
        self.act(format!("release {ip}"), move |cloud| {
            if cloud.known(ip)?.mark != Some(mark) {
                return Err(Refusal::new(Class::HeldElsewhere, "not yours"));
            }
            cloud.addresses.remove(&ip);
            Ok(())
        })
    }
}

/// A name server; all clones are the same one.
#[derive(Clone, Default)]
pub struct FakeDns(Arc<Mutex<Zones>>);

#[derive(Default)]
pub struct Zones {
    pub names: BTreeMap<(String, String), RecordSet>,
    /// What was asked for, in order.
    pub writes: Vec<BTreeSet<IpAddr>>,
    pub faults: VecDeque<Refusal>,
    /// How long writes take.
    pub pause: Duration,
}

impl FakeDns {
    pub fn lock(&self) -> MutexGuard<'_, Zones> {
        self.0.lock().unwrap()
    }

    /// What a name says.
    pub fn says(&self, zone: &str, name: &str) -> Vec<String> {
        let zones = self.lock();
        let set = zones.names.get(&(zone.to_owned(), name.to_owned()));
        let addresses = set.iter().flat_map(|it| &it.addresses);
        addresses.map(ToString::to_string).collect()
    }
}

impl Dns for FakeDns {
    fn read<'a>(&'a self, zone: &'a str, name: &'a str) -> Reply<'a, Found> {
        let found = self
            .lock()
            .names
            .get(&(zone.to_owned(), name.to_owned()))
            .cloned();
        let found = found.map(|set| Found {
            addresses: set.addresses,
            owner: Some(set.owner),
        });
        Box::pin(async { Ok(found.unwrap_or_default()) })
    }

    fn ensure<'a>(&'a self, wanted: &'a RecordSet) -> Reply<'a, ()> {
        let mut zones = self.lock();
        zones.writes.push(wanted.addresses.clone());
        let outcome = if let Some(refusal) = zones.faults.pop_front() {
            Err(refusal)
        } else {
            let key = (wanted.zone.clone(), wanted.name.clone());
            zones.names.insert(key, wanted.clone());
            Ok(())
        };
        let pause = zones.pause;
        Box::pin(async move {
            sleep(pause).await;
            outcome
        })
    }

    fn remove<'a>(&'a self, set: &'a RecordSet) -> Reply<'a, ()> {
        let mut zones = self.lock();
        let outcome = if let Some(refusal) = zones.faults.pop_front() {
            Err(refusal)
        } else {
            zones.names.remove(&(set.zone.clone(), set.name.clone()));
            Ok(())
        };
        Box::pin(async { outcome })
    }

    fn full_name(&self, zone: &str, name: &str) -> String {
        format!("{name}.{zone}")
    }
}

/// A refusal of the kind that passes by itself.
pub fn unavailable() -> Refusal {
    Refusal::new(Class::Unavailable, "out of order")
}

/// A refusal that says when to come back.
pub fn too_many(seconds: u64) -> Refusal {
    Refusal::new(Class::RateLimited, "too many calls").after(Some(Duration::from_secs(seconds)))
}
