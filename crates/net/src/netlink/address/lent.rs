//! Addresses that go by themselves unless they are lent again.

use std::{net::IpAddr, time::Duration};

use floe_core::node::moves::Lifetime;
use ipnet::IpNet;
use nix::libc;

use super::{
    super::{Netlink, NetlinkError},
    Address, Seen, message,
};

impl Netlink {
    /// Gives a link a single address for a time, or more time for one that it has;
    /// whether the link has it now. Nothing is sent from it unless a program asks
    /// for it, and no route is made.
    ///
    /// # Guarantees
    /// The kernel counts whole seconds, and they are rounded down: with less than one
    /// left, the address is removed.
    ///
    /// # Assumptions
    /// The kernel looks at most once in a second, so the address may outlive its time
    /// by a little more than that. Who may not rely on it drops its frames on their
    /// way out, see `floe_core::vip::rules`.
    pub fn lend_address(
        &mut self,
        link: u32,
        ip: IpAddr,
        left: Duration,
    ) -> Result<bool, NetlinkError> {
        let net = IpNet::from(ip);
        // The largest number means for ever.
        let valid = u32::try_from(left.as_secs()).unwrap_or(u32::MAX - 1);
        if valid == 0 {
            self.remove_address(link, net)?;
            return Ok(false);
        }
        let seen = Seen {
            address: Address {
                link,
                net,
                scope: 0,
                no_prefix_route: true,
                is_temporary: true,
            },
            peer: None,
            broadcast: None,
            metric: 0,
            lifetime: Some(Lifetime {
                preferred: 0,
                valid,
            }),
        };
        let request = message(&seen, libc::NLM_F_CREATE | libc::NLM_F_REPLACE);
        let what = || format!("lend {ip} to link {link}");
        self.socket.tell(request, what)?;
        Ok(true)
    }

    /// The addresses that are lent to a link, by whomever: single ones whose time ends.
    pub fn lent_addresses(&mut self, link: u32) -> Result<Vec<IpAddr>, NetlinkError> {
        let all = self.addresses(Some(link))?.into_iter();
        let lent = all.filter(|it| {
            let single = it.net.prefix_len() == it.net.max_prefix_len();
            single && it.is_temporary
        });
        Ok(lent.map(|it| it.net.addr()).collect())
    }
}
