//! Which addresses a pod would get on the nodes of one subnet.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;

use crate::{
    config::EntryId,
    ipam::{
        choice::{Choice, Matching, Wish, family_of_entry},
        ledger::{Group, Ledger, Record, SpareRank},
    },
    schedule::{
        claimant::Claimant,
        refusal::{NodeRefusal, Refusal},
    },
};

/// How a pod stands before the question of nodes: what it has, and that it may
/// have the rest.
pub(super) struct Standing<'a> {
    ledger: &'a Ledger,
    claimant: &'a Claimant,
    /// Every record under its keys.
    held: Vec<&'a Record>,
    /// Those that it can go on with.
    own: Vec<&'a Record>,
    /// How many of its wishes these can fill on one node, the best one.
    kept: usize,
    /// Books of its group, if it uses the spares there.
    group: Option<&'a Group>,
    /// What was promised to it and is still there.
    promised: Vec<Choice>,
    /// The spares that it could use on some node, by entry.
    spares: Vec<SpareStock>,
}

/// The spares of one entry that a pod could use.
struct SpareStock {
    entry: EntryId,
    count: usize,
    newest: SpareRank,
}

/// What to do with addresses that the pod holds and the node cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pins {
    /// The node will not do.
    Hold,
    /// The pod gets others instead.
    Release,
}

/// Addresses for a pod on the nodes of a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// One for each wish, in that order.
    pub choices: Vec<Choice>,
    /// The spares among them, the most recent first.
    pub spares: Vec<SpareRank>,
}

impl Plan {
    /// How many addresses the pod does not hold yet.
    pub fn places(&self) -> usize {
        self.taken().count()
    }

    /// The addresses that the pod does not hold yet.
    pub fn taken(&self) -> impl Iterator<Item = IpAddr> {
        let choices = self.choices.iter();
        choices.filter_map(|choice| match choice {
            Choice::Own(_) => None,
            Choice::Spare(ip) | Choice::New(ip) => Some(*ip),
        })
    }
}

impl<'a> Standing<'a> {
    pub fn of(ledger: &'a Ledger, claimant: &'a Claimant) -> Result<Self, Refusal> {
        let held = claimant.held(ledger);
        let is_mine = |record: &Record| record.uid == claimant.uid;
        let other = held.iter().find(|it| !it.uid.is_empty() && !is_mine(it));
        if let Some(other) = other {
            return Err(Refusal::OldPodNotGone {
                key: other.key.clone(),
                ip: other.ip,
            });
        }
        let usable = |it: &&Record| !ledger.is_outside(it.ip) && (!it.reserved || is_mine(it));
        let mut own: Vec<&Record> = held.iter().copied().filter(usable).collect();
        own.sort_by_key(|record| (!is_mine(record), record.ip));
        let group = claimant.shares_spares.then_some(&claimant.group_key);
        let mut standing = Self {
            ledger,
            claimant,
            held,
            own,
            kept: 0,
            group: group.and_then(|key| ledger.group(key)),
            promised: promised(ledger, claimant),
            spares: Vec::new(),
        };
        standing.spares = standing.spare_stocks();
        standing.kept = standing.most_kept();
        if standing.kept < claimant.wishes.len() {
            claimant.admission(&standing.held, 0, ledger)?;
        }
        Ok(standing)
    }

    /// Every record under the pod's keys.
    pub fn held(&self) -> &[&'a Record] {
        &self.held
    }

    /// Whether the pod may get other addresses than it holds.
    pub fn can_release(&self) -> bool {
        self.kept > 0 && !self.claimant.is_pinned()
    }

    /// The addresses on nodes of a subnet: those that the pod holds, then what was
    /// promised to it, then spares, then new ones.
    pub fn plan(&self, subnet: IpNet, pins: Pins) -> Result<Plan, NodeRefusal> {
        let mut matching = self.own_matching(|ip| self.ledger.carries(subnet, ip));
        if pins == Pins::Hold && matching.filled() < self.kept {
            return Err(self.kept_elsewhere(subnet));
        }
        self.add_spares(&mut matching, subnet);
        self.add_new(&mut matching, subnet);
        let choices = matching.finish().ok_or_else(|| self.none_left())?;
        let plan = Plan {
            spares: self.ranked(&choices),
            choices,
        };
        self.check_growth(&plan, subnet, pins)?;
        Ok(plan)
    }

    /// Why not every wish is filled.
    fn none_left(&self) -> NodeRefusal {
        let config = self.ledger.topology().config();
        let wishes = (1..).zip(&self.claimant.wishes);
        let mut unknown = wishes.filter(|(_, wish)| !wish.is_configured(config));
        // Without any configuration, every range is unknown, and that is not what is wrong.
        match unknown.next() {
            Some((list, _)) if !config.entries().is_empty() => {
                NodeRefusal::RangeNotConfigured { list }
            }
            Some(_) | None => NodeRefusal::NoAddressLeft,
        }
    }

    /// A new address may be taken although spares lie elsewhere, and a held one
    /// given back for another, only while all of them stay within the limits.
    fn check_growth(&self, plan: &Plan, subnet: IpNet, pins: Pins) -> Result<(), NodeRefusal> {
        let released = match pins {
            Pins::Hold => 0,
            Pins::Release => self.own.len() + plan.places() - plan.choices.len(),
        };
        let grows = plan.choices.iter().any(|it| matches!(it, Choice::New(_)));
        if !grows && released == 0 {
            return Ok(());
        }
        let (elsewhere, newest) = self.spares_elsewhere(subnet);
        let idle = if grows { elsewhere + released } else { 0 };
        // Without any of these it was admitted at the beginning.
        let admitted = idle == 0 && released == 0;
        let admission = || self.claimant.admission(&self.held, idle, self.ledger);
        if admitted || admission().is_ok() {
            return Ok(());
        }
        Err(match newest {
            Some((_, ip)) if released == 0 => NodeRefusal::SpareElsewhere { ip },
            _ => self.kept_elsewhere(subnet),
        })
    }

    /// Looks at single spares only where ranges ask for it.
    fn spare_stocks(&self) -> Vec<SpareStock> {
        if self.group.is_none() && self.promised.is_empty() {
            return Vec::new();
        }
        let (ledger, wishes) = (self.ledger, &self.claimant.wishes);
        let promised = self.ranked(&self.promised);
        let mut stocks: BTreeMap<EntryId, SpareStock> = BTreeMap::new();
        let mut add = |entry, count, newest: Option<SpareRank>| {
            let Some(newest) = newest else { return };
            let stock = stocks.entry(entry).or_insert(SpareStock {
                entry,
                count: 0,
                newest,
            });
            stock.count += count;
            stock.newest = stock.newest.min(newest);
        };
        for spare in promised {
            if wishes.iter().any(|wish| wish.accepts(spare.1))
                && let Some(entry) = ledger.topology().entry_of(spare.1)
            {
                add(entry, 1, Some(spare));
            }
        }
        let Some(group) = self.group else {
            return stocks.into_values().collect();
        };
        for entry in group.entries_with_spares() {
            let family = Wish::Any(family_of_entry(ledger, entry));
            if wishes.contains(&family) {
                let spares = group.spares_of(entry);
                add(entry, spares.len(), group.spares_of(entry).next());
            } else {
                let accepted = |ip| wishes.iter().any(|wish| wish.accepts(ip));
                let spares = || group.spares_of(entry).filter(|spare| accepted(spare.1));
                add(entry, spares().count(), spares().next());
            }
        }
        stocks.into_values().collect()
    }

    fn most_kept(&self) -> usize {
        // So it is for every pod that comes for the first time.
        if self.own.is_empty() {
            return 0;
        }
        let all = self.own_matching(|_| true).filled();
        let subnets: BTreeSet<IpNet> = self
            .own
            .iter()
            .filter_map(|record| self.ledger.topology().node_subnets_of(record.ip))
            .flatten()
            .copied()
            .collect();
        let mut most = 0;
        for subnet in subnets {
            let carried = |ip| self.ledger.carries(subnet, ip);
            most = most.max(self.own_matching(carried).filled());
            if most == all {
                break;
            }
        }
        most
    }

    fn own_matching(&self, usable: impl Fn(IpAddr) -> bool) -> Matching {
        let wishes = &self.claimant.wishes;
        let mut matching = Matching::new(wishes.len());
        if self.own.is_empty() {
            return matching;
        }
        matching.add(|wish| {
            let fits = |ip: &IpAddr| wishes[wish].accepts(*ip) && usable(*ip);
            let own = self.own.iter().map(|record| record.ip);
            own.filter(fits).map(Choice::Own).collect()
        });
        matching
    }

    fn add_spares(&self, matching: &mut Matching, subnet: IpNet) {
        if self.spares.is_empty() {
            return;
        }
        let wishes = &self.claimant.wishes;
        matching.add(|wish| {
            let mut choices = self.promised_for(wish, subnet, true);
            if let Some(group) = self.group {
                let spares = wishes[wish].spares(self.ledger, group, subnet, wishes.len());
                choices.extend(spares.into_iter().map(|(_, ip)| Choice::Spare(ip)));
            }
            choices
        });
    }

    fn add_new(&self, matching: &mut Matching, subnet: IpNet) {
        let wishes = &self.claimant.wishes;
        matching.add(|wish| {
            let mut choices = self.promised_for(wish, subnet, false);
            // The other wishes take one each at most.
            let free = wishes[wish].free(self.ledger, subnet, wishes.len());
            choices.extend(free.into_iter().map(Choice::New));
            choices
        });
    }

    fn promised_for(&self, wish: usize, subnet: IpNet, spares: bool) -> Vec<Choice> {
        let promised = self.promised.iter().copied();
        promised
            .filter(|choice| matches!(choice, Choice::Spare(_)) == spares)
            .filter(|choice| self.claimant.wishes[wish].accepts(choice.ip()))
            .filter(|choice| self.ledger.carries(subnet, choice.ip()))
            .collect()
    }

    fn ranked(&self, choices: &[Choice]) -> Vec<SpareRank> {
        let mut spares: Vec<SpareRank> = choices
            .iter()
            .filter(|choice| matches!(choice, Choice::Spare(_)))
            .filter_map(|choice| self.ledger.record(choice.ip()))
            .map(|record| (Reverse(record.updated), record.ip))
            .collect();
        spares.sort_unstable();
        spares
    }

    /// How many spares would do if nodes of this subnet could carry them, and the
    /// most recent one.
    fn spares_elsewhere(&self, subnet: IpNet) -> (usize, Option<SpareRank>) {
        let here = self.ledger.topology().entries_of(subnet);
        let elsewhere = self.spares.iter().filter(|it| !here.contains(&it.entry));
        let (mut count, mut newest) = (0, None);
        for stock in elsewhere {
            count += stock.count;
            newest = newest.into_iter().chain([stock.newest]).min();
        }
        (count, newest)
    }

    fn kept_elsewhere(&self, subnet: IpNet) -> NodeRefusal {
        let wanted = |ip| self.claimant.wishes.iter().any(|wish| wish.accepts(ip));
        let mut own = self.own.iter().map(|record| record.ip);
        own.find(|ip| wanted(*ip) && !self.ledger.carries(subnet, *ip))
            .map_or(NodeRefusal::NoAddressLeft, |ip| {
                NodeRefusal::KeptElsewhere { ip }
            })
    }
}

/// What was promised to the pod, as far as nobody else has got it since: spares,
/// the most recent first, and free addresses.
fn promised(ledger: &Ledger, claimant: &Claimant) -> Vec<Choice> {
    let promise = ledger.promise_to(&claimant.uid);
    let addresses = promise.map(|promise| promise.addresses.iter().copied());
    let mut found: Vec<(Option<SpareRank>, Choice)> = addresses
        .into_iter()
        .flatten()
        .filter(|ip| !ledger.is_outside(*ip))
        .filter_map(|ip| match ledger.record(ip) {
            None => Some((None, Choice::New(ip))),
            Some(record) => {
                let usable = claimant.shares_spares
                    && record.key == claimant.group_key
                    && record.is_idle()
                    && !record.reserved;
                let rank = (Reverse(record.updated), ip);
                usable.then_some((Some(rank), Choice::Spare(ip)))
            }
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, choice)| choice).collect()
}
