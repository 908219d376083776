//! Which address families a pod asks for.

use std::fmt;

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// One address of each of these families, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    first: Family,
    second: Option<Family>,
}

/// Why a text does not name address families.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FamiliesError {
    /// There is a word that is not a family.
    #[error("families: {word:?} is neither v4 nor v6")]
    Unknown {
        /// The word, shortened.
        word: String,
    },
    /// A family is listed twice. Ranges can ask for two addresses of one family.
    #[error("families: {family} is listed more than once")]
    Repeated {
        /// The family.
        family: Family,
    },
}

impl FamiliesError {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        "InvalidFamilies"
    }
}

impl Families {
    /// Reads the annotation [`FAMILIES`](super::names::FAMILIES) of a pod: `v4`, `v6`,
    /// `v4,v6` or `v6,v4`, with blanks where people put them. An absent or blank
    /// one asks for nothing in particular.
    pub fn from_annotation(value: Option<&str>) -> Result<Option<Self>, FamiliesError> {
        let text = value.unwrap_or("").trim();
        if text.is_empty() {
            return Ok(None);
        }
        let mut families: Option<Self> = None;
        for word in text.split(',') {
            let family = Family::parse(word.trim())?;
            families = Some(match families {
                None => Self {
                    first: family,
                    second: None,
                },
                Some(known) => known.and(family)?,
            });
        }
        Ok(families)
    }

    /// The families in the order in which their addresses are wanted.
    pub fn iter(&self) -> impl Iterator<Item = Family> + use<> {
        [Some(self.first), self.second].into_iter().flatten()
    }

    fn and(self, family: Family) -> Result<Self, FamiliesError> {
        if self.iter().any(|known| known == family) {
            return Err(FamiliesError::Repeated { family });
        }
        Ok(Self {
            second: Some(family),
            ..self
        })
    }
}

impl Family {
    fn parse(word: &str) -> Result<Self, FamiliesError> {
        match word {
            "v4" => Ok(Self::V4),
            "v6" => Ok(Self::V6),
            _ => Err(FamiliesError::Unknown {
                word: word.chars().take(20).collect(),
            }),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::V4 => "v4",
            Self::V6 => "v6",
        })
    }
}

impl fmt::Display for Families {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.first)?;
        self.second
            .map_or(Ok(()), |second| write!(out, ",{second}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_read_in_order() {
        let table = [
            ("v4", "v4"),
            ("v6", "v6"),
            ("v4,v6", "v4,v6"),
            (" v6 , v4 ", "v6,v4"),
        ];
        for (text, wanted) in table {
            let families = Families::from_annotation(Some(text)).unwrap().unwrap();
            assert_eq!(families.to_string(), wanted);
            let listed: Vec<String> = families.iter().map(|family| family.to_string()).collect();
            assert_eq!(listed.join(","), wanted);
        }
        for nothing in [None, Some(""), Some("  ")] {
            assert_eq!(Families::from_annotation(nothing), Ok(None));
        }
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["v5", "v4,", ",v4", "V4", "ipv4", "v4;v6", "v4 v6"] {
            let error = Families::from_annotation(Some(text)).unwrap_err();
            assert!(matches!(error, FamiliesError::Unknown { .. }), "{text}");
            assert_eq!(error.reason(), "InvalidFamilies");
        }
        for text in ["v4,v4", "v4,v6,v4", "v6,v4,v4"] {
            let error = Families::from_annotation(Some(text)).unwrap_err();
            assert!(matches!(error, FamiliesError::Repeated { .. }), "{text}");
        }
        let long = "x".repeat(100_000);
        let error = Families::from_annotation(Some(&long)).unwrap_err();
        assert!(error.to_string().len() < 100);
    }
}
