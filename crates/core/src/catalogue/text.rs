//! Texts of addresses and names, to be sorted quickly.

use std::{cmp::Ordering, sync::LazyLock};

/// The longest text of an address has 39 characters.
const LENGTH: usize = 40;

/// The text of an address, or the start of one, to compare quickly. It is filled up
/// with zeros, which come before every character, as the end of a text does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TextKey([u8; LENGTH]);

impl TextKey {
    pub fn of(text: &str) -> Self {
        let mut bytes = [0; LENGTH];
        for (to, from) in bytes.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        Self(bytes)
    }
}

/// A name with its first characters beside it: most comparisons need no more of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    head: u128,
    text: &'a str,
}

/// How many bytes the head of a name has.
const HEAD: usize = 16;

impl<'a> Name<'a> {
    pub fn of(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let head = bytes.first_chunk().copied().unwrap_or_else(|| {
            let mut head = [0; HEAD];
            head[..bytes.len()].copy_from_slice(bytes);
            head
        });
        Self {
            head: u128::from_be_bytes(head),
            text,
        }
    }
}

impl Ord for Name<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.head.cmp(&other.head).then_with(|| {
            let lengths = [self, other].map(|name| name.text.len());
            if lengths.iter().all(|length| *length <= HEAD) {
                // One is the other with zeros behind it.
                lengths[0].cmp(&lengths[1])
            } else {
                self.text.cmp(other.text)
            }
        })
    }
}

impl PartialOrd for Name<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Name<'_> {}

/// All numbers of one byte in the order of their texts.
///
/// IPv4 addresses are in the order of their texts when their bytes are in this order,
/// one after the other: what follows a byte is the end or a dot, and both come
/// before every digit.
pub(super) fn octets() -> &'static [u8; 256] {
    static OCTETS: LazyLock<[u8; 256]> = LazyLock::new(|| {
        let mut octets = numbers();
        octets.sort_by_cached_key(u8::to_string);
        octets
    });
    &OCTETS
}

/// All numbers of one byte.
pub(super) fn numbers() -> [u8; 256] {
    let mut next = 0..=u8::MAX;
    std::array::from_fn(|_| next.next().expect("there are 256 numbers of one byte"))
}

/// The start of all IPv4 addresses of each first byte, in the order of [`octets`].
/// What is below such a start is below all of them, and what is above it and not
/// IPv4 is above all of them: an IPv6 address has a colon where they have a dot or
/// a digit, or differs before.
pub(super) fn starts() -> &'static [TextKey; 256] {
    static STARTS: LazyLock<[TextKey; 256]> =
        LazyLock::new(|| octets().map(|octet| TextKey::of(&format!("{octet}."))));
    &STARTS
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = [u8; 4]> {
        let byte = prop_oneof![Just(1), Just(2), Just(10), Just(20), Just(100), any::<u8>()];
        [byte.clone(), byte.clone(), byte.clone(), byte]
    }

    /// Addresses that often have the same start.
    fn address() -> impl Strategy<Value = IpAddr> {
        let v6 = prop::array::uniform8(prop_oneof![Just(0), Just(0x10), Just(0x100), any::<u16>()]);
        prop_oneof![
            bytes().prop_map(IpAddr::from),
            v6.prop_map(IpAddr::from).prop_map(|ip| ip.to_canonical()),
        ]
    }

    proptest! {
        #[test]
        fn names_compare_as_their_texts_do(
            (a, b) in ("[a\0é-]{0,20}", "[a\0é-]{0,20}", any::<bool>()).prop_map(|(a, b, longer)| {
                let b = if longer { format!("{a}{b}") } else { b };
                (a, b)
            }),
        ) {
            prop_assert_eq!(Name::of(&a).cmp(&Name::of(&b)), a.cmp(&b));
            prop_assert_eq!(Name::of(&a) == Name::of(&b), a == b);
        }

        #[test]
        fn keys_compare_as_texts_do(a in address(), b in address()) {
            let (a, b) = (a.to_string(), b.to_string());
            prop_assert_eq!(TextKey::of(&a).cmp(&TextKey::of(&b)), a.cmp(&b));
        }

        #[test]
        fn bytes_in_the_order_of_their_texts_sort_addresses_as_texts(a in bytes(), b in bytes()) {
            let ranks = |ip: [u8; 4]| ip.map(|byte| octets().iter().position(|o| *o == byte));
            let texts = [a, b].map(|ip| Ipv4Addr::from(ip).to_string());
            prop_assert_eq!(ranks(a).cmp(&ranks(b)), texts[0].cmp(&texts[1]));
        }

        #[test]
        fn no_ipv6_address_is_between_two_ipv4_addresses_with_the_same_first_byte(
            four in bytes(), six in prop::array::uniform8(any::<u16>()),
        ) {
            let six = TextKey::of(&IpAddr::from(six).to_string());
            let place = octets().iter().position(|octet| *octet == four[0]).unwrap();
            let four = TextKey::of(&Ipv4Addr::from(four).to_string());
            prop_assert_eq!(starts()[place] < six, four < six);
        }
    }
}
