//! How a pool that is deleted gives back what it has bought.
//!
//! Only what bears the mark of this pool of this cluster, and stands in its list or in an
//! open purchase: what somebody has taken out of the list is not the pool's any more.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use jiff::Timestamp;

use super::{
    Pool,
    address::{Address, Place, Tick},
    agenda::Agenda,
    call::{Answer, Call},
    view::Trouble,
};
use crate::nodepool::{cloud::Class, retry::Tries};

/// What is being given back.
#[derive(Clone, Debug, Default)]
pub(super) struct Releases {
    /// Since when.
    began: Option<Timestamp>,
    /// A list has been seen since then.
    seen: bool,
    under_way: BTreeMap<IpAddr, Release>,
}

#[derive(Clone, Debug, Default)]
struct Release {
    called: bool,
    tries: Tries,
    trouble: Option<Trouble>,
}

impl Releases {
    /// A list was heard that was begun at this moment.
    pub fn heard(&mut self, begun: Timestamp) {
        self.seen |= self.began.is_some_and(|at| at <= begun);
    }

    /// Whether a list is needed to go on.
    pub fn wants_look(&self) -> bool {
        self.began.is_some() && !self.seen
    }

    /// What went wrong with an address.
    pub fn trouble_of(&self, ip: IpAddr) -> Option<&Trouble> {
        self.under_way.get(&ip)?.trouble.as_ref()
    }
}

impl Pool {
    /// Whether a pool that is being deleted has given everything back, as a list shows.
    pub fn is_reclaimed(&self) -> bool {
        if !self.spec.reclaims {
            return false;
        }
        let orders = self.addresses.values().any(|it| it.under_way().is_some());
        let is_idle = !orders && self.buying.is_idle();
        let proves_nothing = !self.spec.capabilities.marks;
        is_idle && (proves_nothing || self.releases.seen && self.to_give_back().next().is_none())
    }

    /// Gives back what is this pool's.
    pub(super) fn give_back(&mut self, agenda: &mut Agenda) -> Vec<Call> {
        let mut calls = Vec::new();
        if self.releases.began.is_none() {
            self.releases.began = Some(agenda.now);
            self.account.look_at_once();
        }
        if !self.releases.seen || !self.account.is_open(agenda) {
            return calls;
        }
        let ips: Vec<IpAddr> = self.to_give_back().collect();
        self.releases.under_way.retain(|ip, _| ips.contains(ip));
        for ip in ips {
            let listed = self.account.listed.get(&ip);
            let server = listed.and_then(|it| it.server.as_ref());
            let place = Place::of(server);
            // One that has just been bought is not in the list of the pool.
            let new = || Address::new(place, Tick::START);
            let address = self.addresses.entry(ip).or_insert_with(new);
            let waits = address.tries.next;
            if !address.is_quiet() || !agenda.is_over(waits) {
                continue;
            }
            if address.place.server().is_some() {
                calls.extend(self.take_off(ip));
                continue;
            }
            let release = self.releases.under_way.entry(ip).or_default();
            if !release.called && agenda.is_over(release.tries.next) {
                release.called = true;
                calls.push(Call::Release { ip });
            }
        }
        calls
    }

    /// An address was given back, or not.
    pub(super) fn released(&mut self, ip: IpAddr, answer: &Answer, now: Timestamp) {
        let Some(release) = self.releases.under_way.get_mut(&ip) else {
            return;
        };
        release.called = false;
        match answer {
            Answer::Refused(refusal) if refusal.class != Class::AddressUnknown => {
                release.tries.refused(refusal, now);
                release.trouble = Some(Trouble {
                    reason: refusal.class.reason(),
                    message: format!("giving IP back: {refusal}"),
                });
            }
            Answer::Refused(_)
            | Answer::Done
            | Answer::Listed(_)
            | Answer::Progress(_)
            | Answer::Taken(_)
            | Answer::Bought(_) => {
                // The next list has the last word.
                self.releases.under_way.remove(&ip);
                self.releases.began = Some(now);
                self.releases.seen = false;
                self.account.listed = Arc::new(self.account.listed.without(ip));
                self.account.look_soon(now);
            }
        }
    }

    /// The addresses that are proven to be bought by this pool, and are still there.
    fn to_give_back(&self) -> impl Iterator<Item = IpAddr> {
        let open = self.memory.purchase.as_ref().map(|it| &it.mark);
        let proven = self.account.listed.values().filter(move |it| {
            let Some(mark) = &it.mark else {
                return false;
            };
            let is_mine = mark.cluster == self.spec.cluster && mark.pool == self.spec.pool;
            is_mine && (self.ips.contains(&it.ip) || Some(mark) == open)
        });
        let marks = self.spec.capabilities.marks;
        proven.filter(move |_| marks).map(|it| it.ip)
    }
}
