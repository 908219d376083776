//! `galaxy-underlay-veth`: pods to which their host routes, and for which it answers
//! on its device. No bridge, and VLAN devices are the administrator's business.

use std::net::{IpAddr, Ipv4Addr};

use floe_core::{
    cni::{config::NetConf, error::CniError},
    node::{
        names::underlay_suffix,
        nic::{Nic, Routing},
    },
};
use floe_net::netlink::{Link, Netlink};

use crate::{
    fail::{invalid, kernel},
    host_side,
    plugin::{self, Options, Plugin, Side},
    request::Places,
    vlan_device,
};

/// The plugin with its configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct Underlay {
    options: Options,
    device: String,
}

impl Underlay {
    /// Reads the configuration.
    pub fn parse(conf: &NetConf) -> Result<Self, CniError> {
        let device: Option<String> = conf.member("device")?;
        let Some(device) = device.filter(|it| !it.is_empty()) else {
            return Err(invalid("a device is needed to use underlay veth plugin"));
        };
        Ok(Self {
            options: Options::parse(conf)?,
            device,
        })
    }
}

impl Plugin for Underlay {
    fn options(&self) -> &Options {
        &self.options
    }

    fn suffix(&self, number: usize) -> String {
        underlay_suffix(number)
    }

    fn is_routed(&self, _vlan: u16) -> bool {
        true
    }

    fn routing(&self) -> Routing {
        Routing::Underlay
    }

    fn parent(&self, host: &mut Netlink) -> Result<Link, CniError> {
        plugin::first_parent(host, std::slice::from_ref(&self.device))
    }

    fn sides(
        &self,
        host: &mut Netlink,
        _places: &Places,
        nics: &[Nic],
    ) -> Result<Vec<Side>, CniError> {
        host_side::allow_foreign_sources()?;
        let mut sides = Vec::new();
        for nic in nics {
            let device = match nic.vlan {
                0 => self.parent(host)?,
                id => vlan_device::only(host, id)?,
            };
            sides.push(Side::Routed {
                src: first_v4(host, &device)?,
                device,
                tells_host: false,
            });
        }
        Ok(sides)
    }
}

/// The first IPv4 address of a device.
fn first_v4(host: &mut Netlink, device: &Link) -> Result<Option<Ipv4Addr>, CniError> {
    let addresses = host.addresses(Some(device.index)).map_err(kernel)?;
    let v4 = addresses.iter().filter_map(|it| match it.net.addr() {
        IpAddr::V4(ip) if !ip.is_loopback() => Some(ip),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    });
    Ok(v4.into_iter().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_needed() {
        let parse = |members: &str| {
            let text = format!(
                r#"{{"cniVersion":"0.4.0","name":"net","type":"galaxy-underlay-veth"{members}}}"#
            );
            Underlay::parse(&NetConf::parse(text.as_bytes()).unwrap())
        };
        assert_eq!(parse(r#","device":"eth1""#).unwrap().device, "eth1");
        for members in ["", r#","device":"""#] {
            let error = parse(members).unwrap_err();
            assert_eq!(
                error.message,
                "a device is needed to use underlay veth plugin"
            );
        }
    }
}
