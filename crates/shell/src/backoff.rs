//! How long to wait before the next try.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(5);

/// The pause after so many failures in a row, from half a second to five.
pub fn backoff(failures: u32) -> Duration {
    let doubled = FIRST.saturating_mul(2_u32.saturating_pow(failures));
    doubled.min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let pauses: Vec<_> = (0..6)
            .map(|failures| backoff(failures).as_millis())
            .collect();
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 5_000, 5_000]);
        assert_eq!(backoff(u32::MAX), LONGEST);
    }
}
