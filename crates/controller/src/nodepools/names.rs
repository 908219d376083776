//! A name in DNS that follows addresses: what it shall say, what it was last made to say,
//! and when to try again.
//!
//! It never says nothing unless somebody asks for that, writes nothing before the addresses
//! are known, and takes changes that come together as one.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use floe_core::{
    ipam::families::Family,
    nodepool::{
        cloud::{Class, Refusal},
        records::{self, RecordSet, family_of},
        retry::{Tries, after},
    },
};
use jiff::Timestamp;

use super::check::DnsPlan;

/// How long it is believed that the name says what it was made to say.
const BELIEVED: Duration = Duration::from_mins(10);

/// Keeps a name.
pub struct Keeper {
    plan: DnsPlan,
    owner: String,
    moment: Duration,
    wanted: Option<BTreeSet<IpAddr>>,
    /// No address is left that it could say.
    is_bare: bool,
    /// Since when something else is wanted.
    changed: Option<Timestamp>,
    applied: Option<(RecordSet, Timestamp)>,
    /// The families that whoever asks for the name speaks of.
    families: BTreeSet<Family>,
    /// Those of which records may stand there that this name was given.
    written: BTreeSet<Family>,
    /// It shall be removed, and whether it is.
    leaving: Option<bool>,
    busy: bool,
    tries: Tries,
    trouble: Option<Refusal>,
}

/// How a name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It says what it shall: so many addresses.
    Current(usize),
    /// The last try failed.
    Failed(Refusal),
    /// A try is to come or under way.
    Waiting,
    /// There is nothing that it could say, and it keeps what it said before.
    Kept,
    /// There is nothing that it could say.
    Nothing,
    /// It goes with the pool.
    Leaving,
}

impl Keeper {
    /// `owner` is written beside the name; changes are collected for a `moment`.
    pub fn new(plan: DnsPlan, owner: String, moment: Duration) -> Self {
        Self {
            plan,
            owner,
            moment,
            wanted: None,
            is_bare: false,
            changed: None,
            applied: None,
            families: BTreeSet::new(),
            written: BTreeSet::new(),
            leaving: None,
            busy: false,
            tries: Tries::default(),
            trouble: None,
        }
    }

    /// The name.
    pub fn plan(&self) -> &DnsPlan {
        &self.plan
    }

    /// The specification may have changed, but not the name.
    pub fn configure(&mut self, plan: DnsPlan) {
        self.plan = plan;
    }

    /// An earlier process has made it say these.
    pub fn has_said<'a>(&mut self, addresses: impl IntoIterator<Item = &'a String>) {
        let addresses = addresses.into_iter().filter_map(|it| it.parse().ok());
        self.written.extend(addresses.map(family_of));
    }

    /// The families that it is about. Records of another one, that it was never given, are
    /// somebody else's.
    pub fn about(&mut self, families: BTreeSet<Family>) {
        self.families = families;
    }

    /// The addresses that it shall say; none as long as they are not known.
    pub fn want(&mut self, known: Option<&BTreeSet<IpAddr>>, now: Timestamp) {
        let Some(wanted) = records::wanted(known, self.plan.empties) else {
            // What is not known is no news.
            self.is_bare |= known.is_some();
            return;
        };
        self.is_bare = false;
        if self.wanted.as_ref() != Some(&wanted) {
            self.changed = Some(now);
            self.wanted = Some(wanted);
        }
    }

    /// What to write now. It is under way until it has ended.
    pub fn poll(&mut self, now: Timestamp) -> Option<RecordSet> {
        let set = self
            .set()
            .filter(|_| !self.busy && self.leaving.is_none())?;
        if self.due(&set).is_some_and(|due| due > now) {
            return None;
        }
        self.busy = true;
        Some(set)
    }

    /// What came of it.
    pub fn ended(&mut self, set: RecordSet, outcome: Result<(), Refusal>, now: Timestamp) {
        self.busy = false;
        match outcome {
            Ok(()) => {
                self.written = set.addresses.iter().map(|ip| family_of(*ip)).collect();
                self.applied = Some((set, now));
                self.tries = Tries::default();
                self.trouble = None;
            }
            Err(refusal) => {
                self.tries.refused(&refusal, now);
                self.trouble = Some(refusal);
            }
        }
    }

    /// Nobody wants the name any more: what to remove now, if it is time to. It is under way
    /// until it has [left](Self::left), and nothing is written any more.
    pub fn leave(&mut self, now: Timestamp) -> Option<RecordSet> {
        let is_gone = *self.leaving.get_or_insert(false);
        if is_gone || self.busy || self.tries.next.is_some_and(|next| next > now) {
            return None;
        }
        self.busy = true;
        Some(self.saying(BTreeSet::new()))
    }

    /// What came of it. What somebody else keeps, or what is in no zone, is not there.
    pub fn left(&mut self, outcome: Result<(), Refusal>, now: Timestamp) {
        self.busy = false;
        match outcome {
            Err(refusal) if !matches!(refusal.class, Class::HeldElsewhere | Class::ZoneUnknown) => {
                self.tries.refused(&refusal, now);
                self.trouble = Some(refusal);
            }
            Ok(()) | Err(_) => {
                self.leaving = Some(true);
                self.trouble = None;
            }
        }
    }

    /// Whether nothing is left of it.
    pub fn is_gone(&self) -> bool {
        self.leaving == Some(true)
    }

    /// When to poll again, or to leave.
    pub fn wake(&self) -> Option<Timestamp> {
        if let Some(is_gone) = self.leaving {
            return self.tries.next.filter(|_| !is_gone && !self.busy);
        }
        let set = self.set().filter(|_| !self.busy)?;
        self.due(&set)
    }

    /// How it is.
    pub fn standing(&self) -> Standing {
        if let Some(refusal) = &self.trouble {
            return Standing::Failed(refusal.clone());
        }
        if self.leaving.is_some() {
            return Standing::Leaving;
        }
        match (self.set(), &self.applied) {
            // An earlier process may have made it say something.
            (None, _) if self.is_bare && !self.written.is_empty() => Standing::Kept,
            (None, _) => Standing::Nothing,
            (Some(wanted), Some((applied, _))) if is_same(applied, &wanted) => {
                if self.is_bare {
                    Standing::Kept
                } else {
                    Standing::Current(wanted.addresses.len())
                }
            }
            (Some(_), _) => Standing::Waiting,
        }
    }

    /// What it was last made to say, and when.
    pub fn applied(&self) -> Option<(&BTreeSet<IpAddr>, Timestamp)> {
        let (set, at) = self.applied.as_ref()?;
        Some((&set.addresses, *at))
    }

    fn set(&self) -> Option<RecordSet> {
        Some(self.saying(self.wanted.clone()?))
    }

    fn saying(&self, addresses: BTreeSet<IpAddr>) -> RecordSet {
        RecordSet {
            zone: self.plan.zone.clone(),
            name: self.plan.name.clone(),
            addresses,
            ttl: self.plan.ttl,
            owner: self.owner.clone(),
            families: self.families.union(&self.written).copied().collect(),
        }
    }

    fn due(&self, set: &RecordSet) -> Option<Timestamp> {
        let by_content = match &self.applied {
            Some((applied, at)) if is_same(applied, set) => Some(after(*at, BELIEVED)),
            Some(_) | None => self.changed.map(|at| after(at, self.moment)),
        };
        by_content.max(self.tries.next)
    }
}

/// Whether a name says the same, whatever else it might have been about.
fn is_same(one: &RecordSet, other: &RecordSet) -> bool {
    let said = |it: &RecordSet| (it.addresses.clone(), it.ttl, it.owner.clone());
    said(one) == said(other)
}

#[cfg(test)]
mod tests;
