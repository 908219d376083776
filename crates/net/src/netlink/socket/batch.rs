//! Several requests as one transaction, as the packet filter takes them.

use std::os::fd::AsRawFd as _;

use nix::{
    libc,
    sys::socket::{MsgFlags, recv, send},
};

use super::{BUFFER, Fault, Messages, Socket, retry};
use crate::netlink::{NetlinkError, wire::Request};

const BEGIN: u16 = 16;
const END: u16 = 17;

impl Socket {
    /// Tells a part of the packet filter to do all of this, or nothing. `what` completes
    /// "cannot ...". It takes the socket: what a failure leaves in it is read by nobody.
    pub fn transact(
        mut self,
        part: u8,
        requests: Vec<Request>,
        what: impl FnOnce() -> String,
    ) -> Result<(), NetlinkError> {
        self.exchange_all(part, requests)
            .map_err(|fault| fault.into_error(what))
    }

    fn exchange_all(&mut self, part: u8, requests: Vec<Request>) -> Result<(), Fault> {
        // `struct nfgenmsg` with the part that is meant.
        let mark = |kind| Request::new(kind, 0, &[0, 0, 0, part]);
        let last = u32::try_from(requests.len()).unwrap_or(u32::MAX);
        let mut bytes = mark(BEGIN).finish(0).to_vec();
        for (number, request) in (1..).zip(requests) {
            // Whatever goes wrong is told anyway; that nothing did, once.
            let flags = if number == last { libc::NLM_F_ACK } else { 0 };
            bytes.extend(request.flag(flags).finish(number));
        }
        bytes.extend(mark(END).finish(last.wrapping_add(1)));
        let fd = self.fd.as_raw_fd();
        retry(|| send(fd, &bytes, MsgFlags::empty()))?;
        self.buffer.resize(BUFFER, 0);
        loop {
            let length = retry(|| recv(fd, &mut self.buffer, MsgFlags::MSG_TRUNC))?;
            let Some(datagram) = self.buffer.get(..length) else {
                return Err(Fault::malformed("a message larger than any expected"));
            };
            for message in Messages(datagram) {
                let message = message?;
                if message.kind == libc::NLMSG_ERROR {
                    // One that failed, failed all of them.
                    message.check()?;
                    if message.sequence == last {
                        return Ok(());
                    }
                }
            }
        }
    }
}
