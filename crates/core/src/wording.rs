//! Texts for people that many messages need.

use std::fmt::Display;

/// A number with its noun, in the singular or in the plural.
pub fn counted(count: impl Display, one: &str, several: &str) -> String {
    let count = count.to_string();
    let noun = if count == "1" { one } else { several };
    format!("{count} {noun}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_not_several() {
        assert_eq!(counted(1, "pool", "pools"), "1 pool");
        assert_eq!(counted(0_u128, "pool", "pools"), "0 pools");
        assert_eq!(counted(11, "pool", "pools"), "11 pools");
    }
}
