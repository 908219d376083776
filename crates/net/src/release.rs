//! Sockets whose end takes long.
//!
//! Before the kernel forgets a packet socket it waits until nobody on any processor
//! looks at it, some 10 to 30 ms, and whoever closes the last handle waits with it,
//! also by ending. A pod would wait for that longer than for all the rest.
//!
//! The kernel itself does not mind. A handle can be sent through a local socket and
//! then belongs to the message. A message that waits in a socket whose only handle is
//! in that very message can never be received: the kernel finds such messages whenever
//! a local socket is closed, and releases what is in them in the background. Kernels
//! before 6.9, without later corrections, do it at once, which is as good as closing.

use std::{
    io::{self, IoSlice},
    os::{
        fd::{AsFd, AsRawFd},
        unix::net::UnixDatagram,
    },
};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

/// Makes the kernel end this socket in the background, once all its handles in this
/// process are closed. If that cannot be, they are closed as usual.
pub(crate) fn in_background(socket: impl AsFd) {
    // Nothing is lost but time.
    let _ = leave_to_kernel(&socket);
}

fn leave_to_kernel(socket: &impl AsFd) -> io::Result<()> {
    let (inner, outer) = UnixDatagram::pair()?;
    let handles = [socket.as_fd().as_raw_fd(), inner.as_raw_fd()];
    let message = [ControlMessage::ScmRights(&handles)];
    let to = None::<&()>;
    // A datagram that says nothing is one too.
    let nothing = [IoSlice::new(&[])];
    sendmsg(
        outer.as_raw_fd(),
        &nothing,
        &message,
        MsgFlags::MSG_DONTWAIT,
        to,
    )?;
    // In this order: with the last of them the kernel looks for such messages.
    drop(inner);
    drop(outer);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        os::unix::net::UnixStream,
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn what_was_left_to_the_kernel_is_closed_by_it() {
        let (kept, mut other) = UnixStream::pair().unwrap();
        other
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        leave_to_kernel(&kept).unwrap();
        drop(kept);
        // The end of the stream is seen when the last handle is gone. Another look
        // makes the kernel look again, as any local socket of a host does.
        let deadline = Instant::now() + Duration::from_secs(30);
        while let Err(error) = other.read(&mut [0]) {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            assert!(Instant::now() < deadline, "the kernel keeps the socket");
            drop(UnixDatagram::pair());
        }
    }

    #[test]
    fn it_stays_as_it_is_while_somebody_has_it() {
        let (kept, mut other) = UnixStream::pair().unwrap();
        in_background(&kept);
        drop(UnixDatagram::pair());
        io::Write::write_all(&mut &kept, b"x").unwrap();
        let mut byte = [0];
        assert_eq!(other.read(&mut byte).unwrap(), 1);
    }
}
