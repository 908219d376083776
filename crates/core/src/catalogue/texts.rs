//! The texts of all lines, one after the other in one piece of memory.

use std::{fmt::Write as _, net::IpAddr};

use super::{line::Line, text::TextKey};
use crate::ipam::key::KeyParts;

/// Address, key and node of each line in small letters, with a [`SEPARATOR`] between
/// them. After a while there are texts of lines that are gone; when those are most
/// of them, the others move together.
#[derive(Debug, Default)]
pub(super) struct Texts {
    all: String,
    /// How many bytes are of lines that are gone.
    dead: usize,
}

/// Where the texts of a line are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    start: usize,
    key: u32,
    node: u32,
    address: u8,
    cuts: Cuts,
    /// Whether key and node have no other than small letters, so that they can be
    /// read here as they are.
    plain: bool,
}

/// How long the parts of a key are, with zeros for what it does not have. The pod is
/// the rest. Only keys of pods and workloads have an app.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cuts {
    pool: u16,
    kind: u16,
    namespace: u16,
    app: u16,
}

/// What is between the fields. A field that has it itself is found all the same,
/// and whoever searches for it has to look at the fields.
pub(super) const SEPARATOR: char = '\0';

/// How long the prefix of keys with a pool is, without its last character.
const POOL_PREFIX: u16 = 5;

/// How many bytes of lines that are gone do not matter.
const SPARE: usize = 65_536;

impl Texts {
    /// Adds the texts of a new line.
    pub fn add(&mut self, ip: IpAddr, key: &str, node: &str) -> Text {
        let start = self.all.len();
        // Writing to a string does not fail.
        let _ = write!(self.all, "{ip}");
        let address = self.all.len() - start;
        self.all.push(SEPARATOR);
        let key_start = self.all.len();
        let plain_key = self.push_small(key);
        let key_end = self.all.len();
        self.all.push(SEPARATOR);
        let plain_node = self.push_small(node);
        let cuts = Cuts::of(key);
        Text {
            start,
            key: length(key_end - key_start),
            node: length(self.all.len() - key_end - 1),
            address: u8::try_from(address).expect("an address has at most 39 characters"),
            plain: plain_key && plain_node && cuts.is_some(),
            cuts: cuts.unwrap_or_default(),
        }
    }

    /// A line is gone.
    pub fn forget(&mut self, line: &Line) {
        self.dead += line.text.len();
    }

    /// Moves texts together if that is worth it. These are all lines.
    pub fn tidy(&mut self, lines: &mut [Line]) {
        if self.dead < SPARE || self.dead < self.all.len() / 2 {
            return;
        }
        let mut all = String::with_capacity(self.all.len() - self.dead);
        for line in lines {
            let start = all.len();
            all.push_str(self.of(line));
            line.text.start = start;
        }
        *self = Self { all, dead: 0 };
    }

    /// How many bytes all texts have, also those of lines that are gone.
    #[cfg(test)]
    pub fn size(&self) -> usize {
        self.all.len()
    }

    /// All texts of a line, in small letters.
    pub fn of(&self, line: &Line) -> &str {
        let text = line.text;
        &self.all[text.start..text.start + text.len()]
    }

    /// The key of a line as it is.
    pub fn key<'a>(&'a self, line: &'a Line) -> &'a str {
        let Text {
            start,
            address,
            key,
            ..
        } = line.text;
        if line.text.plain {
            let start = start + usize::from(address) + 1;
            &self.all[start..start + size(key)]
        } else {
            line.row.key.as_str()
        }
    }

    /// The parts of the key of a line; they are empty if it has none.
    pub fn parts<'a>(&'a self, line: &'a Line) -> KeyParts<'a> {
        let key = self.key(line);
        if line.text.plain {
            line.text.cuts.parts(key)
        } else {
            KeyParts::of(key).unwrap_or_default()
        }
    }

    /// The node of a line as it is.
    pub fn node<'a>(&'a self, line: &'a Line) -> &'a str {
        if line.text.plain {
            let end = line.text.start + line.text.len();
            &self.all[end - size(line.text.node)..end]
        } else {
            &line.row.node
        }
    }

    /// Where the address of a line stands among others when they are sorted as texts.
    pub fn order(&self, line: &Line) -> TextKey {
        let Text { start, address, .. } = line.text;
        TextKey::of(&self.all[start..start + usize::from(address)])
    }

    /// Adds a text in small letters; true if it had no others.
    fn push_small(&mut self, text: &str) -> bool {
        if !text.is_ascii() {
            self.all.push_str(&text.to_lowercase());
            return false;
        }
        let start = self.all.len();
        self.all.push_str(text);
        self.all[start..].make_ascii_lowercase();
        self.all[start..] == *text
    }
}

impl Cuts {
    /// Where to cut a key; `None` if it is too long to say.
    pub fn of(key: &str) -> Option<Self> {
        let parts = KeyParts::of(key).unwrap_or_default();
        let length = |text: &str| u16::try_from(text.len()).ok();
        Some(Self {
            pool: length(parts.pool.unwrap_or_default())?,
            kind: length(parts.kind)?,
            namespace: length(parts.namespace)?,
            app: length(parts.app)?,
        })
    }

    /// The parts of the key that these cuts were made for.
    pub fn parts(self, key: &str) -> KeyParts<'_> {
        let mut rest = key;
        let mut cut = |length: u16| {
            let (part, after) = rest.split_at(length.into());
            rest = &after[1..];
            part
        };
        let pool = (self.pool > 0).then(|| {
            cut(POOL_PREFIX);
            cut(self.pool)
        });
        if self.app == 0 {
            return KeyParts {
                pool,
                ..KeyParts::default()
            };
        }
        KeyParts {
            pool,
            kind: cut(self.kind),
            namespace: cut(self.namespace),
            app: cut(self.app),
            pod: rest,
        }
    }
}

impl Text {
    fn len(self) -> usize {
        usize::from(self.address) + 1 + size(self.key) + 1 + size(self.node)
    }
}

fn length(length: usize) -> u32 {
    u32::try_from(length).expect("the API server has no objects of 4 GiB")
}

fn size(length: u32) -> usize {
    usize::try_from(length).expect("a text that is in memory fits into it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_cut_into_its_parts() {
        let long = format!("sts_ns_{}_pod", "a".repeat(65_535));
        let keys = [
            "",
            "?",
            "sts_ns_app_app-0",
            "sts_ns_app_",
            "___",
            "_ns_app_pod",
            "kind__app_pod",
            "pool__p_",
            "pool__p",
            "pool___",
            "pool__p_dp_ns_app_pod",
            "pool__p_dp_ns_app_",
            "pool__p_dp_ns__pod",
            "a_b_c_d_e",
            &long,
        ];
        for key in keys {
            let cuts = Cuts::of(key).expect("no part is longer than the type can say");
            assert_eq!(
                cuts.parts(key),
                KeyParts::of(key).unwrap_or_default(),
                "{key}"
            );
        }
        assert!(Cuts::of(&format!("sts_ns_{}_pod", "a".repeat(65_536))).is_none());
    }
}
