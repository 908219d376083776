//! `galaxy-k8s-vlan`: pods on VLANs of the host's device, by one of four switches.

use floe_core::{
    cni::{config::NetConf, error::CniError},
    node::{
        names::vlan_suffix,
        nic::{Nic, Routing},
    },
};
use floe_net::netlink::{IpvlanMode, Link, LinkKind, Netlink};

use crate::{
    bridge,
    fail::{invalid, kernel},
    host_side,
    plugin::{self, Options, Plugin, Side},
    request::Places,
    vlan_device,
};

/// The plugin with its configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct Vlan {
    options: Options,
    /// The first of them that is there counts.
    devices: Vec<String>,
    switch: Switch,
    disable_default_bridge: Option<bool>,
    default_bridge: String,
    /// Of the names of their bridges.
    bridge_prefix: String,
    /// Of the names of VLAN devices.
    prefix: String,
}

/// How pods reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    Bridge,
    Macvlan,
    Ipvlan(IpvlanMode),
    Pure,
}

impl Vlan {
    /// Reads the configuration.
    pub fn parse(conf: &NetConf) -> Result<Self, CniError> {
        let device: Option<String> = conf.member("device")?;
        let devices: Option<Vec<String>> = conf.member("devices")?;
        let device = device.filter(|it| !it.is_empty());
        let devices = device.map_or_else(|| devices.unwrap_or_default(), |device| vec![device]);
        if devices.is_empty() {
            // Compat: galaxy's words.
            return Err(invalid("a device is needed to use vlan plugin"));
        }
        let text = |name: &str, usual: &str| -> Result<String, CniError> {
            let value: Option<String> = conf.member(name)?;
            let value = value.filter(|it| !it.is_empty());
            Ok(value.unwrap_or_else(|| usual.to_owned()))
        };
        Ok(Self {
            options: Options::parse(conf)?,
            devices,
            switch: switch(&text("switch", "bridge")?, &text("ipvlan_mode", "l3")?)?,
            disable_default_bridge: conf.member("disable_default_bridge")?,
            default_bridge: text("default_bridge_name", "docker")?,
            bridge_prefix: text("bridge_name_prefix", "docker")?,
            prefix: text("vlan_name_prefix", "vlan")?,
        })
    }

    /// The link for a VLAN: the device itself, or a VLAN device.
    fn tagged(
        &self,
        host: &mut Netlink,
        places: &Places,
        device: &Link,
        vlan: u16,
    ) -> Result<Link, CniError> {
        if vlan == 0 {
            return Ok(device.clone());
        }
        // A VLAN on top of a VLAN would have two tags.
        let below = match (&device.kind, device.parent) {
            (LinkKind::Vlan { .. }, Some(below)) if !device.is_elsewhere => {
                host.link_at(below).map_err(kernel)?
            }
            _ => None,
        };
        let parent = below.as_ref().unwrap_or(device);
        vlan_device::ensure(host, places, parent, vlan, &self.prefix)
    }

    fn bridged(
        &self,
        host: &mut Netlink,
        places: &Places,
        device: &Link,
        vlan: u16,
    ) -> Result<Side, CniError> {
        let mut uplink = Some(device.clone()).filter(|it| it.kind != LinkKind::Bridge);
        let bridge = if vlan > 0 {
            let tagged = self.tagged(host, places, device, vlan)?;
            let name = format!("{}{vlan}", self.bridge_prefix);
            let bridge = bridge::of_vlan(host, places, &tagged, &name)?;
            uplink = Some(tagged);
            bridge
        } else if self.disable_default_bridge == Some(true) {
            bridge::existing(host, device)?
        } else {
            bridge::of_host(host, places, device, &self.default_bridge)?
        };
        Ok(Side::Bridged { bridge, uplink })
    }

    fn side(
        &self,
        host: &mut Netlink,
        places: &Places,
        device: &Link,
        vlan: u16,
    ) -> Result<Side, CniError> {
        match self.switch {
            Switch::Pure if vlan == 0 => Ok(Side::Routed {
                device: device.clone(),
                src: None,
                tells_host: true,
            }),
            // galaxy also turns proxy ARP on here. The host would answer for everybody
            // on the VLAN whom it can route to, and pods would not be reached.
            Switch::Bridge | Switch::Pure => self.bridged(host, places, device, vlan),
            Switch::Macvlan => Ok(Side::Macvlan(self.tagged(host, places, device, vlan)?)),
            Switch::Ipvlan(mode) => {
                let parent = self.tagged(host, places, device, vlan)?;
                Ok(Side::Ipvlan(parent, mode))
            }
        }
    }
}

impl Plugin for Vlan {
    fn options(&self) -> &Options {
        &self.options
    }

    fn suffix(&self, number: usize) -> String {
        vlan_suffix(number)
    }

    fn is_routed(&self, vlan: u16) -> bool {
        self.switch == Switch::Pure && vlan == 0
    }

    fn routing(&self) -> Routing {
        Routing::Vlan
    }

    fn parent(&self, host: &mut Netlink) -> Result<Link, CniError> {
        plugin::first_parent(host, &self.devices)
    }

    fn sides(
        &self,
        host: &mut Netlink,
        places: &Places,
        nics: &[Nic],
    ) -> Result<Vec<Side>, CniError> {
        let mut device = self.parent(host)?;
        if self.switch == Switch::Bridge && self.disable_default_bridge == Some(false) {
            bridge::of_host(host, places, &device, &self.default_bridge)?;
            // It is in the bridge now.
            device = self.parent(host)?;
        }
        if matches!(
            self.switch,
            Switch::Pure | Switch::Ipvlan(IpvlanMode::L3 | IpvlanMode::L3s)
        ) {
            host_side::allow_foreign_sources()?;
        }
        let sides = nics
            .iter()
            .map(|nic| self.side(host, places, &device, nic.vlan));
        sides.collect()
    }
}

fn switch(name: &str, mode: &str) -> Result<Switch, CniError> {
    match name {
        "bridge" => Ok(Switch::Bridge),
        "macvlan" => Ok(Switch::Macvlan),
        "pure" => Ok(Switch::Pure),
        "ipvlan" => Ok(Switch::Ipvlan(match mode {
            "l2" => IpvlanMode::L2,
            "l3" => IpvlanMode::L3,
            "l3s" => IpvlanMode::L3s,
            _ => {
                return Err(invalid(format!(
                    "ipvlan_mode {mode:?} is not l2, l3 or l3s"
                )));
            }
        })),
        _ => Err(invalid(format!(
            "switch {name:?} is not bridge, macvlan, ipvlan or pure"
        ))),
    }
}

#[cfg(test)]
mod tests;
