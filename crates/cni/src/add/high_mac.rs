//! The hardware address of the host's end of a veth.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
};

use floe_core::announce::Mac;

/// A random hardware address, above those of real devices. A bridge that was given none
/// takes the lowest of its ports, and the host is known by it: pods that come and go do
/// not change that.
pub fn high_mac() -> Mac {
    let random = RandomState::new().build_hasher().finish();
    let mut mac = [0; 6];
    mac.copy_from_slice(&random.to_be_bytes()[2..]);
    mac[0] = 0xfe;
    Mac(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_high_local_and_another_one_each_time() {
        let (one, other) = (high_mac(), high_mac());
        assert_ne!(one, other);
        assert_eq!(one.0[0], 0xfe);
        // Of one device, and of nobody who makes them.
        assert_eq!(one.0[0] & 0b11, 0b10);
    }
}
