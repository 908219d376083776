//! How Route 53 writes names and texts: what is not plain stands as `\` and three digits of
//! base eight.

use std::fmt::Write as _;

/// The longest piece of a text in DNS.
const PIECE: usize = 255;

/// Whether two names are the same, however they are written.
pub(super) fn same_name(one: &str, other: &str) -> bool {
    fn plain(name: &str) -> Vec<u8> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        unescaped(&name).into_iter().map(|(byte, _)| byte).collect()
    }
    plain(one) == plain(other)
}

/// A text as the value of a TXT record.
pub(super) fn quoted(text: &str) -> String {
    let pieces = text.as_bytes().chunks(PIECE).map(|piece| {
        let mut quoted = String::from("\"");
        for byte in piece {
            match byte {
                b'"' | b'\\' => {
                    quoted.push('\\');
                    quoted.push(char::from(*byte));
                }
                b' '..=b'~' => quoted.push(char::from(*byte)),
                _ => {
                    let _ = write!(quoted, "\\{byte:03o}");
                }
            }
        }
        quoted.push('"');
        quoted
    });
    pieces.collect::<Vec<_>>().join(" ")
}

/// The text of the value of a TXT record.
pub(super) fn unquoted(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut inside = false;
    for (byte, escaped) in unescaped(value) {
        match byte {
            b'"' if !escaped => inside = !inside,
            // Between two pieces.
            b' ' if !inside => {}
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Each byte, and whether it was written with a `\`.
fn unescaped(text: &str) -> Vec<(u8, bool)> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'\\' {
            bytes.push((*first, false));
            rest = after;
            continue;
        }
        let digits = after.first_chunk::<3>();
        let number = digits.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        if let Some(number) = number {
            bytes.push((number, true));
            rest = &after[3..];
        } else if let Some((byte, after)) = after.split_first() {
            bytes.push((*byte, true));
            rest = after;
        } else {
            bytes.push((b'\\', true));
            rest = after;
        }
    }
    bytes
}
