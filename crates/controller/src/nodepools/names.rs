//! A name in DNS that follows addresses: what it shall say, what it was last made to say,
//! and when to try again.
//!
//! It never says nothing unless somebody asks for that, writes nothing before the addresses
//! are known, and takes changes that come together as one.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use floe_core::{
    ipam::families::Family,
    nodepool::{
        cloud::Refusal,
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
        let set = self.set().filter(|_| !self.busy)?;
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

    /// When to poll again.
    pub fn wake(&self) -> Option<Timestamp> {
        let set = self.set().filter(|_| !self.busy)?;
        self.due(&set)
    }

    /// How it is.
    pub fn standing(&self) -> Standing {
        if let Some(refusal) = &self.trouble {
            return Standing::Failed(refusal.clone());
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
        Some(RecordSet {
            zone: self.plan.zone.clone(),
            name: self.plan.name.clone(),
            addresses: self.wanted.clone()?,
            ttl: self.plan.ttl,
            owner: self.owner.clone(),
            families: self.families.union(&self.written).copied().collect(),
        })
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
mod tests {
    use std::sync::Arc;

    use floe_core::nodepool::cloud::Class;

    use super::{super::fakes::FakeDns, *};

    fn keeper(empties: bool) -> Keeper {
        let plan = DnsPlan {
            provider: "fake".into(),
            dns: Arc::new(FakeDns::default()),
            zone: "example.com".into(),
            name: "www".into(),
            ttl: 60,
            empties,
        };
        Keeper::new(plan, "me".into(), Duration::from_secs(1))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ips(last: &[u8]) -> BTreeSet<IpAddr> {
        last.iter().map(|it| [10, 0, 0, *it].into()).collect()
    }

    #[test]
    fn nothing_is_written_before_the_addresses_are_known_and_never_nothing() {
        let mut keeper = keeper(false);
        keeper.want(None, at(0));
        assert_eq!((keeper.poll(at(9)), keeper.wake()), (None, None));
        keeper.want(Some(&ips(&[])), at(9));
        assert_eq!(keeper.poll(at(99)), None);
        assert_eq!(keeper.standing(), Standing::Nothing);
        keeper.want(Some(&ips(&[1])), at(100));
        assert_eq!(keeper.poll(at(101)).unwrap().addresses, ips(&[1]));
    }

    #[test]
    fn a_name_for_which_no_address_is_left_says_so_and_is_still_looked_after() {
        let mut keeper = keeper(false);
        keeper.want(Some(&ips(&[1])), at(0));
        let set = keeper.poll(at(1)).unwrap();
        keeper.want(Some(&ips(&[])), at(1));
        assert_eq!(keeper.standing(), Standing::Waiting);
        keeper.ended(set, Ok(()), at(1));
        assert_eq!(keeper.standing(), Standing::Kept);
        keeper.want(None, at(2));
        assert_eq!(keeper.standing(), Standing::Kept, "nothing is known anew");
        let again = keeper.poll(at(601)).expect("it may have been changed");
        assert_eq!(again.addresses, ips(&[1]));
        keeper.ended(again, Ok(()), at(601));
        keeper.want(Some(&ips(&[1])), at(602));
        assert_eq!(keeper.standing(), Standing::Current(1));
        let mut next = self::keeper(false);
        next.has_said(&["10.0.0.1".to_owned()]);
        assert_eq!(next.standing(), Standing::Nothing, "it has not looked yet");
        next.want(Some(&ips(&[])), at(0));
        assert_eq!(next.standing(), Standing::Kept);
    }

    #[test]
    fn whoever_asks_for_an_empty_name_gets_one() {
        let mut keeper = keeper(true);
        keeper.want(None, at(0));
        assert_eq!(keeper.poll(at(9)), None);
        keeper.want(Some(&ips(&[])), at(9));
        assert_eq!(keeper.poll(at(10)).unwrap().addresses, ips(&[]));
    }

    #[test]
    fn a_family_belongs_to_it_as_long_as_it_has_or_had_addresses_of_it() {
        let mut keeper = keeper(false);
        keeper.about([Family::V4].into());
        keeper.want(Some(&ips(&[1])), at(0));
        let set = keeper.poll(at(1)).unwrap();
        assert!(set.keeps(Family::V4) && !set.keeps(Family::V6));
        keeper.ended(set, Ok(()), at(1));
        // It had addresses of both, and has been given one of IPv4 only since.
        keeper.has_said(&["2001:db8::1".to_owned()]);
        keeper.want(Some(&ips(&[2])), at(2));
        let set = keeper.poll(at(3)).unwrap();
        assert!(set.keeps(Family::V6));
        keeper.ended(set, Ok(()), at(3));
        assert_eq!(keeper.standing(), Standing::Current(1));
        assert_eq!(keeper.poll(at(9)), None);
        keeper.want(Some(&ips(&[3])), at(10));
        assert!(!keeper.poll(at(11)).unwrap().keeps(Family::V6));
    }

    #[test]
    fn changes_that_come_together_are_one_write() {
        let mut keeper = keeper(false);
        for last in 1..4 {
            keeper.want(Some(&ips(&[last])), at(0));
        }
        assert_eq!(keeper.poll(at(0)), None);
        assert_eq!(keeper.wake(), Some(at(1)));
        let set = keeper.poll(at(1)).unwrap();
        assert_eq!(set.addresses, ips(&[3]));
        assert_eq!((keeper.poll(at(5)), keeper.wake()), (None, None));
        keeper.ended(set, Ok(()), at(5));
        assert_eq!(keeper.standing(), Standing::Current(1));
        keeper.want(Some(&ips(&[3])), at(6));
        assert_eq!(keeper.poll(at(604)), None);
        // Somebody else may have changed it.
        assert!(keeper.poll(at(605)).is_some());
    }

    #[test]
    fn pauses_grow_with_failures_also_when_something_changes() {
        let mut keeper = keeper(false);
        keeper.want(Some(&ips(&[1])), at(0));
        let mut now = at(1);
        let mut pauses = Vec::new();
        for last in 0..4 {
            let set = keeper.poll(now).unwrap();
            keeper.ended(set, Err(Refusal::new(Class::Unavailable, "no")), now);
            keeper.want(Some(&ips(&[last])), at(1));
            let wake = keeper.wake().unwrap();
            pauses.push(wake.as_second() - now.as_second());
            now = wake;
        }
        assert_eq!(pauses, [1, 1, 5, 5]);
        assert!(matches!(keeper.standing(), Standing::Failed(_)));
        let set = keeper.poll(now).unwrap();
        keeper.ended(set, Ok(()), now);
        assert_eq!(keeper.standing(), Standing::Current(1));
    }
}
