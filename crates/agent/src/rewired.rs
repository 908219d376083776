//! Whether an address of the host has moved to another link, as when it becomes that of a
//! bridge for the first pod there.
//!
//! For a moment nobody has the address then, and whoever sends to it is told so. A connection
//! that the other side has given up in that moment looks well from here as long as nothing is
//! sent on it; a watch sends nothing, and would show nothing for minutes.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use floe_net::netlink::{Netlink, NetlinkError};
use floe_shell::stop::Stop;
use tokio::{task::spawn_blocking, time::sleep};
use tracing::{debug, info};

/// The time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// On which link each address was last seen.
type Places = BTreeMap<IpAddr, u32>;

/// Looks until `stop`, and calls `moved` whenever an address has another link than before.
pub async fn watch(moved: impl Fn(), mut stop: Stop) {
    let mut known = Places::new();
    loop {
        match spawn_blocking(places).await {
            Ok(Ok(now)) => {
                if let Some(ip) = moved_one(&known, &now) {
                    info!(%ip, "an address of the host has moved: watches begin anew");
                    moved();
                }
                known.extend(now);
            }
            Ok(Err(error)) => debug!(%error, "cannot read the addresses of the host"),
            Err(error) => debug!(%error, "cannot look at the addresses of the host"),
        }
        tokio::select! {
            () = stop.requested() => return,
            () = sleep(LOOK) => {}
        }
    }
}

fn places() -> Result<Places, NetlinkError> {
    let all = Netlink::open()?.addresses(None)?;
    let global = all.iter().filter(|it| it.scope == 0);
    Ok(global.map(|it| (it.net.addr(), it.link)).collect())
}

/// An address that is on another link than it was last seen on.
fn moved_one(known: &Places, now: &Places) -> Option<IpAddr> {
    let mut all = now.iter();
    let moved = all.find(|(ip, link)| known.get(ip).is_some_and(|before| before != *link));
    moved.map(|(ip, _)| *ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_moved_when_it_is_on_another_link_also_after_a_while_on_none() {
        let (one, other): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut known = Places::from([(one, 2)]);
        assert_eq!(moved_one(&Places::new(), &known), None, "the first look");
        assert_eq!(
            moved_one(&known, &Places::from([(one, 2), (other, 3)])),
            None
        );
        let none = Places::new();
        assert_eq!(moved_one(&known, &none), None);
        known.extend(none);
        assert_eq!(moved_one(&known, &Places::from([(one, 7)])), Some(one));
    }
}
