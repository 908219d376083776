//! The bytes of ICMP echo requests and their answers.

use std::net::Ipv4Addr;

const REQUEST: u8 = 8;
const REPLY: u8 = 0;
const HEADER: usize = 8;
const LENGTH: usize = HEADER + 16;

/// What a request carries and its answer brings back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Whose packet it is.
    pub nonce: u64,
    /// The target, counted from 0. Each one is a flow of its own.
    pub target: u32,
    /// The number of the packet.
    pub number: u32,
}

impl Echo {
    /// The request. As with `ping`, a flow keeps its identifier for ever.
    pub fn request(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = REQUEST;
        bytes[4..6].copy_from_slice(&low(self.target));
        bytes[6..8].copy_from_slice(&low(self.number));
        bytes[8..16].copy_from_slice(&self.nonce.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.target.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.number.to_be_bytes());
        let sum = checksum(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Reads an IPv4 packet: who has answered, and what. Everything else is nothing.
    pub fn reply(packet: &[u8]) -> Option<(Ipv4Addr, Self)> {
        let first = *packet.first()?;
        if first >> 4 != 4 {
            return None;
        }
        let source: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
        let message = packet.get(usize::from(first & 0xf) * 4..)?;
        let message: &[u8; LENGTH] = message.try_into().ok()?;
        if message[0] != REPLY || message[1] != 0 || checksum(message) != 0 {
            return None;
        }
        let echo = Self {
            nonce: u64::from_be_bytes(message[8..16].try_into().ok()?),
            target: u32::from_be_bytes(message[16..20].try_into().ok()?),
            number: u32::from_be_bytes(message[20..24].try_into().ok()?),
        };
        Some((source.into(), echo))
    }
}

/// The lower half of a number, which is all that the header has room for.
fn low(number: u32) -> [u8; 2] {
    let [_, _, high, low] = number.to_be_bytes();
    [high, low]
}

/// The sum of RFC 1071, which is 0 over a message that has it.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([pair[0], low]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // It has no more than 16 bits by now.
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: Echo = Echo {
        nonce: 0x0102_0304_0506_0708,
        target: 70_000,
        number: 131_073,
    };

    /// The answer of 10.0.0.1, with so many words of IPv4 options.
    fn answer(options: u8) -> Vec<u8> {
        let mut packet = vec![0; 20 + usize::from(options) * 4];
        packet[0] = 0x45 + options;
        packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
        let mut message = ECHO.request();
        message[0] = REPLY;
        message[2..4].fill(0);
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        packet.extend(message);
        packet
    }

    #[test]
    fn an_answer_brings_back_what_the_request_had() {
        for options in [0, 2] {
            let (from, echo) = Echo::reply(&answer(options)).unwrap();
            assert_eq!(from, Ipv4Addr::new(10, 0, 0, 1));
            assert_eq!(echo, ECHO);
        }
    }

    #[test]
    fn the_sum_is_that_of_rfc_1071() {
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&example), !0xddf2);
        assert_eq!(checksum(&ECHO.request()), 0);
    }

    #[test]
    fn what_is_no_answer_is_nothing() {
        let mut request = answer(0);
        request[20] = REQUEST;
        let mut broken = answer(0);
        broken[43] ^= 1;
        let mut six = answer(0);
        six[0] = 0x65;
        let mut longer = answer(0);
        longer.push(0);
        for packet in [request, broken, six, longer, Vec::new(), vec![0x45]] {
            assert_eq!(Echo::reply(&packet), None, "{packet:?}");
        }
        for length in 0..answer(0).len() {
            assert_eq!(Echo::reply(&answer(0)[..length]), None);
        }
    }
}
