//! Asking several links at once whether somebody uses an address.

use std::{io, net::IpAddr, thread, time::Duration};

use floe_core::{announce::Mac, cni::error::CniError, node::nic::Nic};
use floe_net::{
    announce,
    netlink::{Address, Netlink},
};

use crate::{
    fail::{kernel, system},
    plugin::parent_down,
    pod,
};

/// What is asked on one link of this thread's namespace.
pub struct Question {
    /// The link.
    pub link: u32,
    /// Who asks.
    pub own: Mac,
    /// Addresses of the asker. Who answers in the name of another answers only them,
    /// and not a probe, which has no sender.
    pub askers: Vec<IpAddr>,
    /// What is asked about.
    pub addresses: Vec<IpAddr>,
}

/// The host's addresses, of which no pod may have one. Nobody answers a question of
/// their own, and what a macvlan asks never gets to its host.
pub fn addresses_of_host(host: &mut Netlink, nics: &[Nic]) -> Result<Vec<Address>, CniError> {
    let of_host = host.addresses(None).map_err(kernel)?;
    let ips: Vec<IpAddr> = nics.iter().flat_map(pod::ips).collect();
    if let Some(taken) = of_host.iter().find(|it| ips.contains(&it.net.addr())) {
        let link = host.link_at(taken.link).map_err(kernel)?;
        let mac = link.and_then(|link| link.mac).unwrap_or_default();
        return Err(CniError::conflict(taken.net.addr(), mac));
    }
    Ok(of_host)
}

/// Asks everything at the same time. It takes `window`, and it is an error if
/// somebody uses one of the addresses.
pub fn ask(questions: &[Question], window: Duration) -> Result<(), CniError> {
    let ask = |question: &Question| {
        announce::ask_as(
            question.link,
            question.own,
            &question.askers,
            &question.addresses,
            window,
        )
    };
    let answers: Vec<io::Result<_>> = match questions {
        [] => return Ok(()),
        [only] => vec![ask(only)],
        // Threads stay in the namespace of the one that starts them.
        several => thread::scope(|scope| {
            let asking: Vec<_> = several
                .iter()
                .map(|question| scope.spawn(move || ask(question)))
                .collect();
            let answers = asking.into_iter().map(|it| {
                it.join()
                    .unwrap_or_else(|_| Err(io::Error::other("the inquiry panicked")))
            });
            answers.collect()
        }),
    };
    for answer in answers {
        let answer = answer.map_err(unasked)?;
        if let Some(found) = answer {
            return Err(CniError::conflict(found.address, found.mac));
        }
    }
    Ok(())
}

/// A link that was set down meanwhile is no different from one that was down before.
fn unasked(error: io::Error) -> CniError {
    if error.kind() == io::ErrorKind::NetworkDown {
        return parent_down(error.to_string());
    }
    system("ask whether an address is in use")(error)
}

#[cfg(test)]
mod tests {
    use floe_core::cni::error::Code;

    use super::*;

    #[test]
    fn a_link_without_carrier_is_told_as_in_status() {
        let down = io::Error::new(io::ErrorKind::NetworkDown, "link 7 carries no frames");
        let error = unasked(down);
        assert_eq!(
            (error.code, error.reason),
            (Code::NotAvailable, "ParentLinkDown")
        );
        let other = unasked(io::ErrorKind::PermissionDenied.into());
        assert_eq!(other.code, Code::Io);
    }
}
