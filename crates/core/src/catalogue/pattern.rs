//! Which IPv4 addresses have a text in their own.

use super::text::numbers;

/// A text that may be in the text of an IPv4 address, as a machine that reads the
/// address byte by byte. For each state of the machine it is known how many of the
/// addresses that can follow have the text, so nobody has to go through them.
///
/// The dots cut the text into pieces. The first piece must be the end of a byte's
/// text, the last one the start of one, and those between must be bytes. A state is
/// a set of bits: bit `n` says that the pieces up to `n` were read, the last of
/// them just now. Without a dot, one byte must have the whole text in it.
#[derive(Debug)]
pub(super) struct Pattern {
    next: [[u8; 256]; STATES],
    /// By [`place`] and byte: how many addresses have the text if the next
    /// byte is below that one; the last number is about all bytes.
    below: Vec<[u64; 257]>,
}

/// Three bits for the pieces before the last, and [`FOUND`].
const STATES: usize = 9;

/// The state of a machine that has found the text.
const FOUND: u8 = 8;

impl Pattern {
    /// The pattern of a text; `None` if no IPv4 address can have it.
    pub fn new(text: &str) -> Option<Self> {
        let pieces: Vec<&str> = text.split('.').collect();
        let may_be = text.bytes().all(|c| c.is_ascii_digit() || c == b'.') && pieces.len() <= 4;
        if !may_be {
            return None;
        }
        let bytes = numbers().map(|byte| byte.to_string());
        let mut next = [[FOUND; 256]; STATES];
        for (state, row) in (0..FOUND).zip(&mut next) {
            for (after, byte) in row.iter_mut().zip(&bytes) {
                *after = step(&pieces, state, byte);
            }
        }
        let mut below = vec![[0; 257]; 5 * STATES];
        // With nothing left to read, only who has found it has it.
        below[place(0, FOUND)][256] = 1;
        for left in 1..5 {
            for (state, next) in (0..=FOUND).zip(&next) {
                let mut sum = 0;
                for (byte, after) in next.iter().enumerate() {
                    below[place(left, state)][byte] = sum;
                    sum += below[place(left - 1, *after)][256];
                }
                below[place(left, state)][256] = sum;
            }
        }
        Some(Self { next, below })
    }

    /// Whether an address has the text.
    pub fn is_in(&self, ip: u32) -> bool {
        let mut state = 0;
        for byte in ip.to_be_bytes() {
            state = self.after(state, byte);
        }
        state == FOUND
    }

    /// How many of the addresses below this one have the text.
    pub fn count_below(&self, ip: u64) -> u64 {
        let Ok(ip) = u32::try_from(ip) else {
            return self.below[place(4, 0)][256];
        };
        let (mut state, mut count) = (0, 0);
        for (byte, left) in ip.to_be_bytes().into_iter().zip((1..5).rev()) {
            count += self.below[place(left, state)][usize::from(byte)];
            state = self.after(state, byte);
        }
        count
    }

    fn after(&self, state: u8, byte: u8) -> u8 {
        self.next[usize::from(state)][usize::from(byte)]
    }
}

/// Where the numbers are for this many bytes left, in this state.
fn place(left: usize, state: u8) -> usize {
    left * STATES + usize::from(state)
}

/// The state after one byte, from a state that has not found the text.
fn step(pieces: &[&str], state: u8, byte: &str) -> u8 {
    let [first, between @ .., last] = pieces else {
        // A text without a dot, and there is always one piece.
        let found = pieces.iter().all(|piece| byte.contains(piece));
        return if found { FOUND } else { 0 };
    };
    if state & (1 << between.len()) != 0 && byte.starts_with(last) {
        return FOUND;
    }
    let mut after = u8::from(byte.ends_with(first));
    for (at, piece) in between.iter().enumerate() {
        if state & (1 << at) != 0 && byte == *piece {
            after |= 2 << at;
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    const TEXTS: [&str; 24] = [
        "0",
        "1",
        "25",
        "255",
        "256",
        "10.0",
        "0.0.0",
        "1.1.1.1",
        ".",
        "..",
        ".1",
        "1.",
        "10.",
        ".10.",
        "5.25",
        "1.2.3.4.5",
        "1.2.3.4.",
        "a",
        "1:1",
        "00",
        "1.22.3",
        "...",
        ".1.1.",
        "0.255.255.25",
    ];

    fn is_in(text: &str, ip: u32) -> bool {
        Ipv4Addr::from_bits(ip).to_string().contains(text)
    }

    #[test]
    fn a_range_is_counted_as_if_one_by_one() {
        for text in TEXTS {
            // Over borders of bytes of every place.
            for first in [0x0000_0000, 0x0a00_00f0, 0x18ff_ff00, 0xffff_fe00_u32] {
                let range = first..=first + 511;
                let wanted = range.filter(|ip| is_in(text, *ip)).count();
                let pattern = Pattern::new(text);
                let got = pattern.map_or(0, |pattern| {
                    let first = u64::from(first);
                    pattern.count_below(first + 512) - pattern.count_below(first)
                });
                assert_eq!(
                    got,
                    wanted as u64,
                    "{text} from {}",
                    Ipv4Addr::from_bits(first)
                );
            }
        }
    }

    #[test]
    fn all_addresses_are_counted() {
        let all = |text| Pattern::new(text).unwrap().count_below(1 << 32);
        assert_eq!(all("."), 1 << 32);
        assert_eq!(all("10.20.30.40"), 3, "110 and 210 end with 10");
        assert_eq!(all("256"), 0);
    }

    proptest! {
        #[test]
        fn an_address_has_the_text_or_not(
            bytes in prop::array::uniform4(prop_oneof![Just(1u8), Just(10), Just(110), any::<u8>()]),
            from in 0usize..15, length in 0usize..15, other in "[0-9.]{1,4}",
        ) {
            let ip = Ipv4Addr::from(bytes);
            let own = ip.to_string();
            let from = from.min(own.len());
            let part = &own[from..(from + length).min(own.len())];
            prop_assert!(Pattern::new(part).unwrap().is_in(ip.to_bits()), "{part}");
            let found = Pattern::new(&other).is_some_and(|pattern| pattern.is_in(ip.to_bits()));
            prop_assert_eq!(found, own.contains(&other), "{}", other);
        }
    }
}
