//! Base64 as Go writes bytes into JSON: the usual alphabet, with padding.

/// The bytes of a text; `None` when it is not base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut groups = text.chunks_exact(4).peekable();
    while let Some(group) = groups.next() {
        let padding = group.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || (padding > 0 && groups.peek().is_some()) {
            return None;
        }
        let mut bits = 0_u32;
        for &byte in &group[..4 - padding] {
            bits = bits << 6 | value(byte)?;
        }
        bits <<= 6 * padding;
        let [_, all @ ..] = bits.to_be_bytes();
        bytes.extend_from_slice(&all[..3 - padding]);
    }
    Some(bytes)
}

fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_4648_are_read() {
        let table = [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ];
        for (text, wanted) in table {
            assert_eq!(decode(text).as_deref(), Some(wanted.as_bytes()), "{text}");
        }
        assert_eq!(decode("+/8=").unwrap(), [0xfb, 0xff]);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "Z", "Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9v\n", "Zm-_", "Zm=v",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
