//! What an annotation asks for.
//!
//! ```json
//! ["10.0.0.1", "fd00::1"]
//! ```
//!
//! The value is a text with a JSON list of addresses, on a pod or on the workload that
//! makes it. Whatever is wrong with it is told and skipped: a bad entry never hides a
//! good one, and never stops the pod.
//!
//! Compat: Calico reads [`ANNOTATION`] in the same form. There a list that cannot be read
//! stops the pod, or takes it out of the network.

use std::{collections::BTreeSet, net::IpAddr};

use serde_json::Value;

use crate::{addr, ipam::args::shortened, wording::counted};

/// The annotation, as Calico calls it.
pub const ANNOTATION: &str = "cni.projectcalico.org/floatingIPs";

/// The annotation, as floe calls it.
pub const ALIAS: &str = "floe.dev/floating-ips";

/// The most addresses that the annotations of one object can ask for. Each becomes an
/// object, so whoever can edit a pod could make floods of them.
pub const MAX_ADDRESSES: usize = 64;

/// The most problems that are told apart.
pub const MAX_PROBLEMS: usize = 16;

/// What the annotations of an object ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The addresses, each once and in its one form, in the order of the annotations.
    pub addresses: Vec<IpAddr>,
    /// What is wrong with the rest.
    pub problems: Vec<Problem>,
}

/// Something that is wrong with an annotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation}: {fault}")]
pub struct Problem {
    /// The annotation.
    pub annotation: &'static str,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with an annotation or with one of its entries, which count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is not a list in JSON.
    #[error("{text} is not a JSON list of addresses: write {suggestion}")]
    NotAList {
        /// The value in quotes, shortened.
        text: String,
        /// What was probably meant.
        suggestion: String,
    },
    /// An entry is not a text.
    #[error("entry {entry} is {text}, not an address in quotes")]
    NotAText {
        /// Its number.
        entry: usize,
        /// The entry, shortened.
        text: String,
    },
    /// An entry is a network or a range.
    #[error(
        "entry {entry}, {text}, is a range: write a single address, or use a VirtualIP with \
         spec.ranges to get one out of a range"
    )]
    Range {
        /// Its number.
        entry: usize,
        /// The entry in quotes, shortened.
        text: String,
    },
    /// An entry is anything else: a host name, an address with a port.
    #[error(
        "entry {entry}, {text}, is not an IP address: host names, ports, zones and spaces are \
         not allowed"
    )]
    NotAnAddress {
        /// Its number.
        entry: usize,
        /// The entry in quotes, shortened.
        text: String,
    },
    /// An entry is an address that no host can be reached at from others.
    #[error("entry {entry}, {address}, is {kind}, which cannot be shared")]
    Special {
        /// Its number.
        entry: usize,
        /// The address.
        address: IpAddr,
        /// What it is.
        kind: Special,
    },
    /// An entry is there already; it counts once.
    #[error("entry {entry}, {address}, is there twice")]
    Twice {
        /// Its number.
        entry: usize,
        /// The address.
        address: IpAddr,
    },
    /// There are more addresses than one object can ask for; the first ones count.
    #[error(
        "{} left out: at most {MAX_ADDRESSES} are allowed",
        counted(.left, "address is", "addresses are")
    )]
    TooMany {
        /// How many do not count.
        left: usize,
    },
    /// There are more problems than are told apart.
    #[error("{count} more entries are wrong")]
    More {
        /// How many are not told.
        count: usize,
    },
}

/// A kind of address that cannot be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Special {
    /// `0.0.0.0` or `::`.
    #[error("the unspecified address")]
    Unspecified,
    /// `127.0.0.0/8` or `::1`.
    #[error("a loopback address")]
    Loopback,
    /// `224.0.0.0/4` or `ff00::/8`.
    #[error("a multicast address")]
    Multicast,
    /// `255.255.255.255`.
    #[error("the broadcast address")]
    Broadcast,
}

/// A pod has no address that could serve a floating address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the pod has no {} address to serve {address}",
    if .address.is_ipv4() { "IPv4" } else { "IPv6" }
)]
pub struct FamilyMissing {
    /// The floating address.
    pub address: IpAddr,
}

impl Claim {
    /// Reads the annotations of an object, which are looked up by their names. Both may
    /// be there; then all of their addresses count.
    pub fn of<'a>(annotation: impl Fn(&'static str) -> Option<&'a str>) -> Self {
        let mut reader = Reader::default();
        for name in [ANNOTATION, ALIAS] {
            reader.read(name, annotation(name).unwrap_or_default());
        }
        reader.claim
    }

    /// Whether nothing is asked for and nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.problems.is_empty()
    }
}

impl Problem {
    /// The stable reason for events, conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self.fault {
            Fault::NotAList { .. }
            | Fault::Twice { .. }
            | Fault::TooMany { .. }
            | Fault::More { .. } => "InvalidAnnotation",
            Fault::NotAText { .. }
            | Fault::Range { .. }
            | Fault::NotAnAddress { .. }
            | Fault::Special { .. } => "InvalidAddress",
        }
    }
}

impl Special {
    /// The kind of an address in its one form, if it is one that cannot be shared.
    pub fn of(address: IpAddr) -> Option<Self> {
        let is_broadcast = matches!(address, IpAddr::V4(ip) if ip.is_broadcast());
        [
            (address.is_unspecified(), Self::Unspecified),
            (address.is_loopback(), Self::Loopback),
            (address.is_multicast(), Self::Multicast),
            (is_broadcast, Self::Broadcast),
        ]
        .into_iter()
        .find_map(|(is, kind)| is.then_some(kind))
    }
}

impl FamilyMissing {
    /// The stable reason for events, conditions and metrics.
    pub fn reason(self) -> &'static str {
        "FamilyMissing"
    }
}

/// The address of a pod that serves a floating address: that of the same family.
///
/// Compat: of several, Calico takes the last.
pub fn pair(floating: IpAddr, pod: &[IpAddr]) -> Result<IpAddr, FamilyMissing> {
    let wanted = addr::canonical(floating);
    let mut own = pod.iter().copied().map(addr::canonical);
    own.rfind(|ip| ip.is_ipv4() == wanted.is_ipv4())
        .ok_or(FamilyMissing { address: wanted })
}

/// Each floating address with the address of the pod that serves it. They move together,
/// so a pod that cannot serve one of them serves none.
pub fn pairs(floating: &[IpAddr], pod: &[IpAddr]) -> Result<Vec<(IpAddr, IpAddr)>, FamilyMissing> {
    let pairs = floating.iter().map(|&it| Ok((it, pair(it, pod)?)));
    pairs.collect()
}

/// Reads one annotation after the other.
#[derive(Default)]
struct Reader {
    claim: Claim,
    known: BTreeSet<IpAddr>,
}

impl Reader {
    fn read(&mut self, annotation: &'static str, value: &str) {
        if value.trim().is_empty() {
            return;
        }
        let mut faults = Vec::new();
        match serde_json::from_str::<Option<Vec<Value>>>(value) {
            Ok(entries) => self.list(entries.unwrap_or_default(), &mut faults),
            Err(_) => faults.push(Fault::NotAList {
                text: quoted(value),
                suggestion: suggestion(value),
            }),
        }
        let untold = faults.len().saturating_sub(MAX_PROBLEMS);
        if untold > 0 {
            faults.truncate(MAX_PROBLEMS);
            faults.push(Fault::More { count: untold });
        }
        let problems = faults
            .into_iter()
            .map(|fault| Problem { annotation, fault });
        self.claim.problems.extend(problems);
    }

    fn list(&mut self, entries: Vec<Value>, faults: &mut Vec<Fault>) {
        let mut here = BTreeSet::new();
        let mut left = 0;
        for (number, value) in (1..).zip(entries) {
            let address = match entry(number, value) {
                Ok(address) => address,
                Err(fault) => {
                    faults.push(fault);
                    continue;
                }
            };
            if !here.insert(address) {
                faults.push(Fault::Twice {
                    entry: number,
                    address,
                });
            } else if self.known.contains(&address) {
                // Both annotations name it: for Calico's readers and for floe's.
            } else if self.known.len() < MAX_ADDRESSES {
                self.known.insert(address);
                self.claim.addresses.push(address);
            } else {
                left += 1;
            }
        }
        if left > 0 {
            // In front, so that it is told however much else is wrong.
            faults.insert(0, Fault::TooMany { left });
        }
    }
}

fn entry(entry: usize, value: Value) -> Result<IpAddr, Fault> {
    let Value::String(text) = value else {
        let text = shortened(&value.to_string());
        return Err(Fault::NotAText { entry, text });
    };
    let Some(address) = addr::parse(&text) else {
        let is_range = addr::parse_net(&text).is_some() || text.parse::<addr::IpRange>().is_ok();
        let text = quoted(&text);
        return Err(if is_range {
            Fault::Range { entry, text }
        } else {
            Fault::NotAnAddress { entry, text }
        });
    };
    match Special::of(address) {
        Some(kind) => Err(Fault::Special {
            entry,
            address,
            kind,
        }),
        None => Ok(address),
    }
}

/// A text in quotes. It is shortened last: what cannot be printed grows in quotes.
fn quoted(text: &str) -> String {
    shortened(&format!("{text:?}"))
}

/// The form that was probably meant by somebody who forgot brackets or quotes.
fn suggestion(value: &str) -> String {
    const MOST: usize = 4;
    let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':');
    let words = value.split(|c| !is_part(c));
    let found = words.filter_map(addr::parse).take(MOST);
    let mut quoted: Vec<String> = found.map(|ip| format!("\"{ip}\"")).collect();
    if quoted.is_empty() {
        quoted.push("\"10.0.0.1\"".into());
    }
    format!("'[{}]'", quoted.join(","))
}

#[cfg(test)]
mod tests;
