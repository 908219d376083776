//! Addresses that an administrator takes away from pods.
//!
//! Compat: as galaxy documents it, a reservation is a record with the label
//! `reserved` whose key is that of a pool, `pool__reserved-for-<purpose>_`.

use super::{
    key::{HolderKey, KeyParts},
    ledger::Record,
};

/// The longest purpose, so that the whole is still the name of a pool.
const LONGEST: usize = 253 - "reserved-for-".len();

/// Why a text cannot be what an address is reserved for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PurposeError {
    /// There is no text.
    #[error("the purpose is empty")]
    Empty,
    /// The key would be too long.
    #[error("the purpose has {length} bytes, at most {LONGEST} are possible")]
    TooLong {
        /// The length of the text.
        length: usize,
    },
    /// It has other characters than a name.
    #[error("the purpose {text:?} has other characters than letters, digits, - and .")]
    Characters {
        /// The text.
        text: String,
    },
}

impl PurposeError {
    /// The stable reason for answers and logs.
    pub fn reason(&self) -> &'static str {
        "InvalidPurpose"
    }
}

/// The key of a reservation for a purpose.
pub fn key(purpose: Option<&str>) -> Result<HolderKey, PurposeError> {
    let pool = match purpose {
        None => "reserved".to_owned(),
        Some("") => return Err(PurposeError::Empty),
        Some(text) if text.len() > LONGEST => {
            return Err(PurposeError::TooLong { length: text.len() });
        }
        Some(text) if !text.bytes().all(is_fine) => {
            let text = text.to_owned();
            return Err(PurposeError::Characters { text });
        }
        Some(text) => format!("reserved-for-{text}"),
    };
    Ok(HolderKey::lookup(&KeyParts {
        pool: Some(&pool),
        ..KeyParts::default()
    }))
}

/// Whether a record is nothing but a reservation: no pod has it, or is to get it
/// again, and it is no shared address.
pub fn is_reservation(record: &Record) -> bool {
    let pod = record.key.parts().map_or("", |parts| parts.pod);
    record.reserved && record.is_idle() && pod.is_empty() && !record.key.is_vip()
}

fn is_fine(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-.".contains(&byte)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::ipam::policy::ReleasePolicy;

    #[test]
    fn the_key_is_that_of_a_pool_which_tells_the_purpose() {
        assert_eq!(key(None).unwrap().as_str(), "pool__reserved_");
        let node = key(Some("node")).unwrap();
        assert_eq!(node.as_str(), "pool__reserved-for-node_");
        assert!(node.is_group());
        let longest = "x".repeat(LONGEST);
        assert!(key(Some(&longest)).is_ok());
        let table = [
            ("", PurposeError::Empty),
            (
                &"x".repeat(LONGEST + 1),
                PurposeError::TooLong {
                    length: LONGEST + 1,
                },
            ),
            ("a_b", PurposeError::Characters { text: "a_b".into() }),
            ("a b", PurposeError::Characters { text: "a b".into() }),
        ];
        for (text, wanted) in table {
            let error = key(Some(text)).unwrap_err();
            assert_eq!(error, wanted);
            assert_eq!(error.reason(), "InvalidPurpose");
        }
    }

    #[test]
    fn what_a_pod_has_is_no_mere_reservation() {
        let record = |key: &str, uid: &str, reserved| Record {
            ip: [10, 0, 0, 1].into(),
            key: key.into(),
            policy: ReleasePolicy::Never,
            node: String::new(),
            uid: uid.into(),
            updated: Timestamp::UNIX_EPOCH,
            reserved,
            workload_note: None,
        };
        assert!(is_reservation(&record("pool__reserved_", "", true)));
        assert!(is_reservation(&record("for the printer", "", true)));
        assert!(!is_reservation(&record("pool__reserved_", "", false)));
        assert!(!is_reservation(&record("pool__reserved_", "u", true)));
        assert!(!is_reservation(&record("sts_ns_a_a-0", "", true)));
        assert!(!is_reservation(&record("vip__ns_a_", "", true)));
    }
}
