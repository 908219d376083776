//! What has to be written where each record is a thing of its own.

use std::{collections::BTreeSet, net::IpAddr};

use floe_core::nodepool::cloud::{Class, Refusal};

/// A record with an address that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// What the server calls it.
    pub id: String,
    /// What it says.
    pub ip: IpAddr,
    /// All else about it is as wanted too.
    pub right: bool,
}

/// A note on who keeps a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What the server calls it.
    pub id: String,
    /// Who.
    pub owner: String,
}

/// The writes, which come in this order, so that a name is never without addresses on the
/// way from some to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Records that are written again with this address.
    pub edit: Vec<(String, IpAddr)>,
    /// Addresses that get a new record.
    pub create: Vec<IpAddr>,
    /// Records that go.
    pub delete: Vec<String>,
}

impl Plan {
    /// The fewest writes. What is surplus is used again before anything is made, within one
    /// family: a record keeps its type.
    pub fn new(existing: Vec<Existing>, wanted: &BTreeSet<IpAddr>) -> Self {
        let mut plan = Self::default();
        let mut missing = wanted.clone();
        let mut surplus = Vec::new();
        for record in existing {
            if !missing.remove(&record.ip) {
                surplus.push(record);
            } else if !record.right {
                plan.edit.push((record.id, record.ip));
            }
        }
        for ip in missing {
            let same = |record: &Existing| record.ip.is_ipv4() == ip.is_ipv4();
            match surplus.iter().position(same) {
                Some(at) => plan.edit.push((surplus.remove(at).id, ip)),
                None => plan.create.push(ip),
            }
        }
        plan.delete = surplus.into_iter().map(|record| record.id).collect();
        plan
    }

    /// Nothing has to be written.
    pub fn is_empty(&self) -> bool {
        self.edit.is_empty() && self.create.is_empty() && self.delete.is_empty()
    }
}

/// The type of the record of an address.
pub fn kind(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "A" } else { "AAAA" }
}

/// Whether a name is ours, by its notes in the order in which they were written: the first
/// counts, so that of two who come at once exactly one has it. `None` if nobody has it.
pub fn ours(notes: &[Note], owner: &str, name: &str) -> Result<Option<String>, Refusal> {
    match notes.first() {
        None => Ok(None),
        Some(note) if note.owner == owner => Ok(Some(note.id.clone())),
        Some(note) => Err(Refusal::new(
            Class::HeldElsewhere,
            format!("{name} is kept by {}", note.owner),
        )),
    }
}

/// A zone as a part of a path. Whoever may write a zone into an object is not to call
/// anything else with floe's credentials, which a slash, a query or dots would lead to.
pub fn part_of_path(zone: &str) -> Result<&str, Refusal> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = zone.bytes().any(|byte| byte != b'.');
    if is_name && zone.bytes().all(is_plain) {
        return Ok(zone);
    }
    let words = format!("{zone:?} is no zone");
    Err(Refusal::new(Class::ZoneUnknown, words))
}

/// The refusal to remove what nobody keeps.
pub fn unkept(name: &str) -> Refusal {
    let words = format!("{name} has addresses, and no note says who keeps them");
    Refusal::new(Class::HeldElsewhere, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn existing(id: &str, ip: &str, right: bool) -> Existing {
        Existing {
            id: id.into(),
            ip: ip.parse().unwrap(),
            right,
        }
    }

    fn wanted(ips: &[&str]) -> BTreeSet<IpAddr> {
        ips.iter().map(|ip| ip.parse().unwrap()).collect()
    }

    #[test]
    fn what_is_right_is_left_alone() {
        let there = vec![
            existing("1", "192.0.2.1", true),
            existing("2", "2001:db8::1", true),
        ];
        assert!(Plan::new(there, &wanted(&["192.0.2.1", "2001:db8::1"])).is_empty());
    }

    #[test]
    fn surplus_is_used_again_within_its_family() {
        let there = vec![
            existing("1", "192.0.2.1", false),
            existing("2", "192.0.2.2", true),
            existing("3", "192.0.2.1", true),
            existing("4", "2001:db8::1", true),
        ];
        let plan = Plan::new(there, &wanted(&["192.0.2.1", "192.0.2.9", "192.0.2.8"]));
        let edited = |id: &str, ip: &str| (id.to_owned(), ip.parse::<IpAddr>().unwrap());
        assert_eq!(
            plan,
            Plan {
                edit: vec![
                    edited("1", "192.0.2.1"),
                    edited("2", "192.0.2.8"),
                    edited("3", "192.0.2.9"),
                ],
                create: vec![],
                delete: vec!["4".into()],
            }
        );
    }

    #[test]
    fn a_zone_leads_nowhere_else() {
        for zone in [
            "example.com",
            "xn--e1afmkfd.test",
            "0123456789abcdef",
            "a_b-c",
        ] {
            assert_eq!(part_of_path(zone), Ok(zone));
        }
        for zone in [
            "",
            ".",
            "..",
            "a/b",
            "../droplets",
            "a?b",
            "a#b",
            "%2e%2e",
            "a b",
            "é",
        ] {
            let refusal = part_of_path(zone).unwrap_err();
            assert_eq!(refusal.class, Class::ZoneUnknown, "{zone}");
        }
    }

    #[test]
    fn the_first_note_counts() {
        let note = |owner: &str| Note {
            id: "7".into(),
            owner: owner.into(),
        };
        assert_eq!(ours(&[], "us", "www"), Ok(None));
        let both = [note("us"), note("them")];
        assert_eq!(ours(&both, "us", "www"), Ok(Some("7".into())));
        let refusal = ours(&both, "them", "www").unwrap_err();
        assert_eq!(refusal.class, Class::HeldElsewhere);
    }
}
