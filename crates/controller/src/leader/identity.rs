//! Who we are, and the dice: the only random things of this process.

use std::{
    fs,
    hash::{BuildHasher as _, RandomState},
};

/// The host's name and a suffix that is new for each process.
///
/// Compat: galaxy-ipam uses the same form, hostname, `_` and a random UUID.
pub fn identity() -> String {
    // The kernel's view, which is the pod's name inside of a pod.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "floe-controller",
        host => host,
    };
    format!("{host}_{}", uuid(random(), random()))
}

/// A number from 0 to 1.
pub fn dice() -> f64 {
    let [a, b, c, d, ..] = random().to_be_bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
}

/// The standard library seeds its hashers from the system's random source,
/// which is all the randomness that an identity needs.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

fn uuid(high: u64, low: u64) -> String {
    // Version 4 and variant 1, as RFC 9562 wants them for random numbers.
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_the_version_and_variant_of_random_ones() {
        assert_eq!(uuid(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(
            uuid(u64::MAX, u64::MAX),
            "ffffffff-ffff-4fff-bfff-ffffffffffff"
        );
        assert_eq!(
            uuid(0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef),
            "01234567-89ab-4def-8123-456789abcdef"
        );
    }

    #[test]
    fn identities_are_never_the_same() {
        let (one, other) = (identity(), identity());
        assert_ne!(one, other);
        let (host, suffix) = one.rsplit_once('_').expect("host and suffix");
        assert!(!host.is_empty());
        assert_eq!(suffix.len(), 36);
    }

    #[test]
    fn dice_stay_within_their_range() {
        assert!(
            (0..1_000)
                .map(|_| dice())
                .all(|number| (0.0..=1.0).contains(&number))
        );
    }
}
