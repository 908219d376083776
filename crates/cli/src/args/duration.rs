//! Times as kubectl takes them.

use std::time::Duration;

/// Reads a time as kubectl takes it: parts like `1m30s`, or a number of seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let wrong = || format!("{text:?} is no time: say something like 30s or 1m");
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
        let unit = match &rest[..letters] {
            "ms" => Some(Duration::from_millis(number)),
            "s" => Some(Duration::from_secs(number)),
            "m" => number.checked_mul(60).map(Duration::from_secs),
            "h" => number.checked_mul(3600).map(Duration::from_secs),
            _ => None,
        };
        let part = unit.ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = &rest[letters..];
    }
    if text.is_empty() {
        Err(wrong())
    } else {
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_kubectl() {
        let table = [
            ("0", 0),
            ("30", 30_000),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("250ms", 250),
            ("1h", 3_600_000),
        ];
        for (text, milliseconds) in table {
            assert_eq!(
                duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "s",
            "1x",
            "-1s",
            "1m30",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
