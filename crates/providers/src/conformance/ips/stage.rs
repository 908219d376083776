//! The short words in which the checks of a cloud are written.

use std::{
    net::IpAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use floe_core::nodepool::cloud::{Capabilities, Class, Listed, Mark, Progress, Refusal, Taken};
use tokio::time::{Instant, sleep};

use super::Scene;
use crate::{
    conformance::{
        LOOK, PATIENCE,
        report::{Checked, Miss, cannot, demand},
    },
    floating::FloatingIps,
};

/// A scene, and what was bought on it.
pub struct Stage<'a> {
    /// The cloud.
    pub scene: &'a dyn Scene,
    bought: Mutex<Vec<(IpAddr, Mark)>>,
    purchases: AtomicU64,
}

impl<'a> Stage<'a> {
    /// A stage on which nothing was bought yet.
    pub fn new(scene: &'a dyn Scene) -> Self {
        Self {
            scene,
            bought: Mutex::default(),
            purchases: AtomicU64::new(0),
        }
    }

    /// The client.
    pub fn ips(&self) -> &dyn FloatingIps {
        self.scene.ips()
    }

    /// What it can do.
    pub fn capabilities(&self) -> Capabilities {
        self.ips().capabilities()
    }

    /// All addresses of one family that the scene has at least two of.
    pub fn family(&self) -> Vec<IpAddr> {
        let (v4, v6): (Vec<_>, Vec<_>) = self
            .scene
            .addresses()
            .into_iter()
            .partition(IpAddr::is_ipv4);
        let family = if v4.len() >= 2 { v4 } else { v6 };
        assert!(family.len() >= 2, "a scene has two addresses of a family");
        family
    }

    /// An address.
    pub fn ip(&self) -> IpAddr {
        self.family()[0]
    }

    /// A server: the first is 0, the second 1.
    pub fn server(&self, at: usize) -> String {
        self.scene.servers().swap_remove(at)
    }

    /// The one that may vanish.
    pub fn last_server(&self) -> String {
        let servers = self.scene.servers();
        assert!(servers.len() >= 3, "a scene has three servers");
        self.server(servers.len() - 1)
    }

    /// A mark that was never used on this stage.
    pub fn mark(&self) -> Mark {
        let purchase = self.purchases.fetch_add(1, Ordering::Relaxed);
        Mark {
            cluster: "0b6dbe0f-5c9f-4be8-a37a-2f1e7b4a1d01".into(),
            pool: "9e0d4f0c-7c88-4d9b-8b43-d1f8a3b50e02".into(),
            purchase: format!("{}-{purchase}", std::process::id()),
        }
    }

    /// All addresses of the account.
    pub async fn list(&self) -> Result<Vec<Listed>, Miss> {
        let listed = self.ips().list().await;
        listed.map_err(|refusal| format!("no list: {refusal:?}").into())
    }

    /// One of them.
    pub async fn find(&self, ip: IpAddr) -> Result<Option<Listed>, Miss> {
        let listed = self.list().await?;
        Ok(listed.into_iter().find(|listed| listed.ip == ip))
    }

    /// Puts an address on a server, and waits until that is done.
    pub async fn put(&self, ip: IpAddr, server: &str) -> Checked {
        match self.ips().assign(ip, server).await {
            Ok(taken) => self.end(ip, taken).await,
            Err(refusal) => Err(format!("{ip} does not go to {server}: {refusal:?}").into()),
        }
    }

    /// Takes an address from its server, and waits until that is done.
    pub async fn free(&self, ip: IpAddr) -> Checked {
        match self.ips().detach(ip).await {
            Ok(taken) => self.end(ip, taken).await,
            Err(refusal) => Err(format!("{ip} cannot be taken off: {refusal:?}").into()),
        }
    }

    /// Waits until an order is done.
    pub async fn end(&self, ip: IpAddr, taken: Taken) -> Checked {
        let Taken::Pending(handle) = taken else {
            return Ok(());
        };
        let begun = Instant::now();
        // What is under way is found by its handle, before and after its end.
        self.progress(ip, &handle).await?;
        self.scene.settle().await?;
        loop {
            match self.progress(ip, &handle).await? {
                Progress::Done => return Ok(()),
                Progress::Failed(words) => return Err(format!("it failed: {words}").into()),
                Progress::Pending if begun.elapsed() < PATIENCE => sleep(LOOK).await,
                Progress::Pending => return Err("it never ends".to_owned().into()),
            }
        }
    }

    async fn progress(&self, ip: IpAddr, handle: &str) -> Result<Progress, Miss> {
        let checked = self.ips().check(ip, handle).await;
        checked.map_err(|refusal| format!("{handle} is not known: {refusal:?}").into())
    }

    /// Fails unless the address is on this server, or on none, and nothing is under way.
    pub async fn expect_on(&self, ip: IpAddr, server: Option<&str>) -> Checked {
        let listed = self.find(ip).await?;
        let listed = listed.ok_or(format!("{ip} is not in the list"))?;
        demand(listed.server.as_deref() == server && !listed.busy, || {
            format!("it should be on {server:?}: {listed:?}")
        })
    }

    /// Fails unless the order was refused in one of these ways.
    pub fn expect_refusal<T: std::fmt::Debug>(
        &self,
        answer: Result<T, Refusal>,
        classes: &[Class],
    ) -> Checked {
        match answer {
            Ok(answer) => Err(format!("{answer:?} instead of {classes:?}").into()),
            Err(refusal) => demand(classes.contains(&refusal.class), || {
                format!("{refusal:?} instead of {classes:?}")
            }),
        }
    }

    /// The families of which addresses can be bought: whether they are IPv6.
    pub fn bought_families(&self) -> Result<Vec<bool>, Miss> {
        let capabilities = self.capabilities();
        if !capabilities.buys {
            return Err(cannot("it sells no addresses"));
        }
        let mut families = Vec::new();
        families.extend(capabilities.v4.then_some(false));
        families.extend((capabilities.v6 && self.scene.sells_v6()).then_some(true));
        if families.is_empty() {
            return Err(cannot("it sells addresses of no family"));
        }
        Ok(families)
    }

    /// Says that a check has no means where nothing proves who bought an address.
    pub fn needs_marks(&self) -> Checked {
        if self.capabilities().marks {
            Ok(())
        } else {
            Err(cannot("nothing on its addresses tells who bought them"))
        }
    }

    /// Buys an address, which is given back when the stage is cleared.
    pub async fn buy(&self, v6: bool, mark: &Mark) -> Result<IpAddr, Miss> {
        let region = self.scene.region();
        let bought = self.ips().buy(&region, v6, mark).await;
        let ip = bought.map_err(|refusal| format!("not bought: {refusal:?}"))?;
        demand(ip.is_ipv6() == v6, || {
            format!("{ip} is of the other family")
        })?;
        self.remember(ip, mark);
        Ok(ip)
    }

    /// Gives this address back when the stage is cleared.
    pub fn remember(&self, ip: IpAddr, mark: &Mark) {
        let mut bought = self.bought.lock().unwrap_or_else(PoisonError::into_inner);
        bought.push((ip, mark.clone()));
    }

    /// Takes all addresses off their servers and gives back what was bought.
    pub async fn clear(&self) -> Checked {
        self.scene.proxy().unmet();
        self.scene.settle().await?;
        let bought = {
            let mut bought = self.bought.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *bought)
        };
        for (ip, mark) in bought {
            if self.find(ip).await?.is_none() {
                continue;
            }
            self.free(ip).await?;
            if self.capabilities().marks {
                let released = self.ips().release(ip, &mark).await;
                released.map_err(|refusal| format!("{ip} cannot be cleared: {refusal:?}"))?;
            } else if let Some(discard) = self.scene.discard(ip) {
                discard.await?;
            }
        }
        for ip in self.scene.addresses() {
            self.free(ip).await?;
        }
        Ok(())
    }
}
