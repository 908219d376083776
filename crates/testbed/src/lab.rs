//! A few plain hosts on one network segment, for tests of networking alone.

use anyhow::{Context, Result};

use crate::host::{Host, HostRef, Role};
use crate::packages::{self, Need};

const NEEDS: &[Need] = &[
    Need {
        program: "conntrack",
        package: "conntrack",
    },
    Need {
        program: "ip",
        package: "iproute2",
    },
    Need {
        program: "nft",
        package: "nftables",
    },
    Need {
        program: "ping",
        package: "iputils-ping",
    },
    Need {
        program: "tcpdump",
        package: "tcpdump",
    },
];

/// Installs what a lab needs, if it is missing.
pub fn prepare() -> Result<()> {
    Ok(packages::ensure(NEEDS)?)
}

/// Hosts around a switch; all of it is gone when dropped.
///
/// Host number `n`, counted from 1, has `10.9.0.n/24` and `fd00:9::n/64` on its
/// link `eth0`.
///
/// # Assumptions
/// Make and drop it on the same thread, as a test does.
pub struct Lab {
    switch: Host,
    hosts: Vec<Host>,
}

impl Lab {
    /// Switches on hosts of these names.
    pub fn new(names: &[&str]) -> Result<Self> {
        let switch = Host::boot("switch", &Role::Plain, None)?;
        switch
            .address()
            .network_script("ip link set lo up; ip link add br0 type bridge; ip link set br0 up")?;
        let mut lab = Self {
            switch,
            hosts: Vec::new(),
        };
        for (number, name) in (1..).zip(names) {
            lab.add(number, name)?;
        }
        Ok(lab)
    }

    /// The host of that name.
    pub fn host(&self, name: &str) -> Result<&HostRef> {
        self.hosts
            .iter()
            .map(Host::address)
            .find(|host| host.name == name)
            .with_context(|| format!("the lab has no host {name}"))
    }

    /// The host that carries the switch `br0`, to look at the wire.
    pub fn switch(&self) -> &HostRef {
        self.switch.address()
    }

    /// Switches a host off.
    pub fn power_off(&mut self, name: &str) -> Result<()> {
        let at = self
            .hosts
            .iter()
            .position(|host| host.address().name == name);
        let at = at.with_context(|| format!("the lab has no host {name}"))?;
        let host = self.hosts.remove(at);
        host.address().network_script("ip link del eth0")?;
        host.power_off();
        Ok(())
    }

    fn add(&mut self, number: u8, name: &str) -> Result<()> {
        let host = Host::boot(name, &Role::Plain, None)?;
        let address = host.address();
        self.switch().network_script(&format!(
            "ip link add port-{number} type veth peer name eth0 netns {}
             ip link set port-{number} master br0 up",
            address.anchor
        ))?;
        address.network_script(&format!(
            "ip link set lo up
             ip addr add 10.9.0.{number}/24 dev eth0
             ip addr add fd00:9::{number:x}/64 dev eth0 nodad
             ip link set eth0 up"
        ))?;
        self.hosts.push(host);
        Ok(())
    }
}
