//! Versions of the protocol.

use std::{fmt, str::FromStr};

use serde_json::{Value, json};

use super::error::{CniError, Code};
use crate::ipam::args::shortened;

/// A version of the protocol that floe speaks, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 0.1.0: results have one IPv4 and one IPv6 address.
    V0_1_0,
    /// 0.2.0: the same, and VERSION.
    V0_2_0,
    /// 0.3.0: results have interfaces and lists of addresses.
    V0_3_0,
    /// 0.3.1: the same.
    V0_3_1,
    /// 0.4.0: CHECK, and the previous result for DEL.
    V0_4_0,
    /// 1.0.0: addresses tell no version any more.
    V1_0_0,
    /// 1.1.0: STATUS and GC, and more about routes and interfaces.
    V1_1_0,
}

/// A version that floe does not speak.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("CNI version {0:?} is not supported; supported are {list}", list = Version::list())]
pub struct UnsupportedVersion(pub String);

impl Version {
    /// All of them, in ascending order.
    pub const SUPPORTED: [Self; 7] = [
        Self::V0_1_0,
        Self::V0_2_0,
        Self::V0_3_0,
        Self::V0_3_1,
        Self::V0_4_0,
        Self::V1_0_0,
        Self::V1_1_0,
    ];

    /// The newest one, whose model floe works with.
    pub const LATEST: Self = Self::V1_1_0;

    /// The version of a configuration that names none.
    ///
    /// Compat: it means 0.1.0, but galaxy answers in the form of 0.2.0, which is the
    /// same except for the number.
    pub const UNNAMED: Self = Self::V0_2_0;

    /// Its number, as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_1_0 => "0.1.0",
            Self::V0_2_0 => "0.2.0",
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// Whether results have interfaces and lists of addresses, and not one address
    /// of each family.
    pub fn has_lists(self) -> bool {
        self >= Self::V0_3_0
    }

    /// The answer to VERSION.
    pub fn answer() -> Value {
        json!({
            "cniVersion": Self::LATEST.as_str(),
            "supportedVersions": Self::SUPPORTED.map(Self::as_str),
        })
    }

    fn list() -> String {
        Self::SUPPORTED.map(Self::as_str).join(", ")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

impl FromStr for Version {
    type Err = UnsupportedVersion;

    fn from_str(text: &str) -> Result<Self, UnsupportedVersion> {
        Self::SUPPORTED
            .into_iter()
            .find(|version| version.as_str() == text)
            .ok_or_else(|| UnsupportedVersion(shortened(text)))
    }
}

impl From<UnsupportedVersion> for CniError {
    fn from(error: UnsupportedVersion) -> Self {
        Self::of(Code::IncompatibleVersion, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_read_as_it_is_written() {
        for version in Version::SUPPORTED {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
        assert!(Version::SUPPORTED.is_sorted());
        assert_eq!(Version::SUPPORTED.last(), Some(&Version::LATEST));
    }

    #[test]
    fn an_unknown_version_is_refused_and_told_what_is_supported() {
        for text in ["", "1", "1.0", "1.2.0", "v1.0.0", "1.0.0 ", "0.3", "00.3.0"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
        let error = CniError::from("1.2.0".parse::<Version>().unwrap_err());
        assert_eq!(error.code.number(), 1);
        assert_eq!(
            error.to_string(),
            "IncompatibleVersion: CNI version \"1.2.0\" is not supported; supported are \
             0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0"
        );
    }

    #[test]
    fn the_answer_to_version_is_that_of_the_specification() {
        assert_eq!(
            Version::answer().to_string(),
            concat!(
                r#"{"cniVersion":"1.1.0","supportedVersions":"#,
                r#"["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}"#
            )
        );
    }

    #[test]
    fn lists_came_with_version_0_3_0() {
        let lists: Vec<bool> = Version::SUPPORTED.map(Version::has_lists).to_vec();
        assert_eq!(lists, [false, false, true, true, true, true, true]);
    }
}
