//! Addresses with everything that goes with them to another link.

use floe_core::node::moves::MovedAddress;
use nix::libc;

use super::{
    super::{Netlink, NetlinkError, done_unless, wire::Request, wire::family_of},
    Address, Seen, header,
};

impl Netlink {
    /// The addresses of a link that could be added to another one as they are.
    pub fn moving_addresses(&mut self, link: u32) -> Result<Vec<MovedAddress>, NetlinkError> {
        let seen = self.seen_addresses(Some(link))?;
        // One whose time has come goes, and could not be added.
        let lives = |it: &&Seen| it.lifetime.is_none_or(|it| it.valid > 0);
        Ok(seen.iter().filter(lives).map(moved).collect())
    }

    /// Adds an address with all that belongs to it; whether it was not there already.
    pub fn add_moved_address(
        &mut self,
        link: u32,
        moved: &MovedAddress,
    ) -> Result<bool, NetlinkError> {
        self.add_seen(&Seen {
            address: Address {
                link,
                net: moved.net,
                scope: moved.scope,
                no_prefix_route: moved.no_prefix_route,
                is_temporary: moved.lifetime.is_some(),
            },
            peer: moved.peer,
            broadcast: moved.broadcast,
            metric: moved.metric,
            lifetime: moved.lifetime,
        })
    }

    /// Removes exactly this address, and not one with another peer; whether it was there.
    pub fn remove_moved_address(
        &mut self,
        link: u32,
        moved: &MovedAddress,
    ) -> Result<bool, NetlinkError> {
        let net = moved.net;
        let header = header(family_of(net.addr()), net.prefix_len(), 0, 0, link);
        let request = Request::new(libc::RTM_DELADDR, 0, &header)
            .put_ip(libc::IFA_LOCAL, net.addr())
            .put_ip(libc::IFA_ADDRESS, moved.peer.unwrap_or(net.addr()));
        let what = || format!("remove {net} from link {link}");
        let told = self.socket.tell(request, what);
        done_unless(told, &[libc::EADDRNOTAVAIL, libc::ENODEV])
    }
}

fn moved(seen: &Seen) -> MovedAddress {
    MovedAddress {
        net: seen.address.net,
        scope: seen.address.scope,
        no_prefix_route: seen.address.no_prefix_route,
        peer: seen.peer,
        broadcast: seen.broadcast,
        metric: seen.metric,
        lifetime: seen.lifetime,
    }
}
