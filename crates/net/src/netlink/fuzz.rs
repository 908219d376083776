//! What a fuzzer calls: everything that reads bytes of the kernel.

use nix::libc;

use super::{
    address, link, neighbour, route, rule,
    socket::{Fault, Messages},
};

/// Reads a datagram as floe would, whatever it was asked for; whether there is something
/// in it that makes sense. Nothing else may come of it.
pub fn fuzz(datagram: &[u8]) -> bool {
    let mut taken = false;
    for message in Messages(datagram) {
        let Ok(message) = message else {
            return false;
        };
        let bytes = message.payload;
        taken |= match message.kind {
            libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                !matches!(message.check(), Err(Fault::Other(_)))
            }
            kind => match u16::try_from(kind).unwrap_or_default() {
                libc::RTM_NEWLINK => {
                    link::read(bytes).is_ok() && link::read_functions(bytes).is_ok()
                }
                libc::RTM_NEWADDR => address::read(bytes).is_ok_and(|it| it.is_some()),
                libc::RTM_NEWROUTE => route::read(bytes).is_ok_and(|it| it.is_some()),
                libc::RTM_NEWRULE => rule::read(bytes).is_ok_and(|it| it.is_some()),
                libc::RTM_NEWNEIGH => neighbour::read(bytes).is_ok_and(|it| it.is_some()),
                _ => false,
            },
        };
    }
    taken
}
