//! Frames as they pass a device, with the VLAN tag that the kernel keeps beside them.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType,
    recvmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

use super::lab::{Namespace, PATIENCE};

nix::setsockopt_impl!(
    Auxdata,
    libc::SOL_PACKET,
    libc::PACKET_AUXDATA,
    bool,
    sockopt::SetBool
);

/// `TP_STATUS_VLAN_VALID`: the tag in the auxiliary data is one.
const VLAN_VALID: u32 = 1 << 4;
/// `struct tpacket_auxdata`: status, two lengths, two offsets, then the tag.
const AUXDATA_TAG: usize = 16;
const AUXDATA_LENGTH: usize = 20;
const ETHERTYPE_VLAN: [u8; 2] = [0x81, 0x00];

/// Enables `PACKET_AUXDATA` on a packet socket.
#[derive(Clone, Copy)]
struct Auxdata;

/// A capture that runs from its start on.
pub struct Capture {
    socket: OwnedFd,
    device: usize,
}

/// A captured frame.
#[derive(Debug)]
pub struct Frame {
    /// All of it, from its Ethernet header on.
    pub bytes: Vec<u8>,
    /// The VLAN in its tag, if it has one.
    pub vlan: Option<u16>,
}

impl Frame {
    /// The sender's hardware address.
    pub fn source(&self) -> String {
        self.bytes[6..12]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .join(":")
    }

    pub fn contains(&self, payload: &str) -> bool {
        self.bytes
            .windows(payload.len())
            .any(|window| window == payload.as_bytes())
    }
}

impl Capture {
    /// Starts to capture what a device receives and sends.
    pub fn start(namespace: &Namespace, device: &str) -> Self {
        let (socket, device) = namespace.within(|| {
            let socket = socket(
                AddressFamily::Packet,
                SockType::Raw,
                SockFlag::SOCK_CLOEXEC,
                SockProtocol::EthAll,
            );
            (
                socket.unwrap(),
                nix::net::if_::if_nametoindex(device).unwrap(),
            )
        });
        setsockopt(&socket, Auxdata, &true).unwrap();
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(1, 0)).unwrap();
        Self {
            socket,
            device: device as usize,
        }
    }

    /// Waits for the first frame with `payload`.
    pub fn frame(&self, payload: &str) -> Frame {
        let mut frames = self.frames_until(payload);
        frames.pop().unwrap()
    }

    /// All frames up to the first one with `payload`, which is the last of them.
    pub fn frames_until(&self, payload: &str) -> Vec<Frame> {
        let deadline = Instant::now() + PATIENCE;
        let mut frames = Vec::new();
        while Instant::now() < deadline {
            let Some(frame) = self.next() else { continue };
            let last = frame.contains(payload);
            frames.push(frame);
            if last {
                return frames;
            }
        }
        panic!("no frame with '{payload}' among {} captured", frames.len());
    }

    /// The next frame of the device, or none for now.
    fn next(&self) -> Option<Frame> {
        let mut buffer = [0; 2048];
        let mut control = [0; 256];
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let received = recvmsg::<LinkAddr>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut control),
            MsgFlags::empty(),
        );
        let message = match received {
            Ok(message) => message,
            Err(nix::Error::EAGAIN) => return None,
            Err(error) => panic!("{error}"),
        };
        if message.address?.ifindex() != self.device {
            return None;
        }
        let beside = message.cmsgs().unwrap().find_map(|control| {
            let ControlMessageOwned::Unknown(unknown) = control else {
                return None;
            };
            tag_of_auxdata(&unknown.data_bytes)
        });
        let length = message.bytes;
        let bytes = buffer[..length].to_vec();
        let vlan = beside.or_else(|| tag_of_frame(&bytes));
        Some(Frame { bytes, vlan })
    }
}

fn tag_of_auxdata(bytes: &[u8]) -> Option<u16> {
    let bytes = bytes.get(..AUXDATA_LENGTH)?;
    let status = u32::from_ne_bytes(bytes[..4].try_into().ok()?);
    let tag = u16::from_ne_bytes(bytes[AUXDATA_TAG..AUXDATA_TAG + 2].try_into().ok()?);
    (status & VLAN_VALID != 0).then_some(tag & 0xfff)
}

fn tag_of_frame(bytes: &[u8]) -> Option<u16> {
    let tag = bytes.get(14..16)?.try_into().ok()?;
    (bytes[12..14] == ETHERTYPE_VLAN).then_some(u16::from_be_bytes(tag) & 0xfff)
}
