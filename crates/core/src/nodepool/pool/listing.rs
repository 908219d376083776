//! What a list of the account means for each address.

use std::net::IpAddr;

use jiff::Timestamp;

use super::{
    Pool,
    account::SETTLE,
    address::{Place, Stage, Tick},
    call::Answer,
};
use crate::nodepool::{
    cloud::Listed,
    retry::{Pace, after},
};

/// What to make of a list's word on an address.
enum Verdict {
    /// It says nothing that could be known.
    Ignore,
    /// It says that the order was done.
    Done,
    /// It says so too.
    Settled,
    /// It shows that the order without an answer was not done.
    NotDone,
    /// It shows that an order is not done of which the cloud said that it failed.
    Undone,
    /// It contradicts the cloud's own answer, which may be a matter of time.
    Doubt,
    /// It contradicts the cloud's own answer for too long.
    Mismatch,
    /// It is as it says.
    Follow,
}

impl Pool {
    /// The answer to a list.
    pub(super) fn listed(&mut self, answer: Answer, now: Timestamp) {
        let listed = match answer {
            Answer::Listed(listed) => listed,
            Answer::Refused(refusal) => {
                self.account.unheard(&refusal, now);
                return;
            }
            Answer::Progress(_) | Answer::Taken(_) | Answer::Bought(_) | Answer::Done => {
                debug_assert!(false, "no answer to a list: {answer:?}");
                return;
            }
        };
        let eager = self.is_eager();
        let begun = self.account.heard(listed, eager, now);
        let ips: Vec<IpAddr> = self.addresses.keys().copied().collect();
        for ip in ips {
            match self.judge(ip, begun) {
                Verdict::Ignore => self.learn(ip),
                Verdict::Done => {
                    // What had no answer was never counted.
                    if self.is_unclear(ip) {
                        self.accepted(ip, now);
                    }
                    self.done(ip, true, now);
                    self.follow(ip);
                }
                Verdict::Settled => {
                    if let Some(address) = self.addresses.get_mut(&ip) {
                        address.order = None;
                    }
                    self.follow(ip);
                }
                Verdict::NotDone => {
                    self.not_done(ip, now);
                    self.follow(ip);
                }
                Verdict::Undone => self.undone(ip),
                Verdict::Doubt => self.doubt(ip),
                Verdict::Mismatch => {
                    self.mismatch(ip, now);
                    self.follow(ip);
                }
                Verdict::Follow => self.follow(ip),
            }
        }
        self.resolve_purchase(begun.at);
        self.releases.heard(begun.at);
    }

    fn judge(&self, ip: IpAddr, begun: Tick) -> Verdict {
        let Some(address) = self.addresses.get(&ip) else {
            return Verdict::Ignore;
        };
        if !begun.is_since(address.changed) {
            return Verdict::Ignore;
        }
        let entry = self.account.listed.get(&ip);
        let Some(order) = &address.order else {
            return Verdict::Follow;
        };
        let is_busy = entry.is_some_and(|it| it.busy);
        let agrees = entry.is_some_and(|it| it.server == order.target);
        match order.stage {
            Stage::Pending { .. } if agrees && !is_busy => Verdict::Done,
            // An address may be on no server for other reasons, and the order still come.
            Stage::Unclear { .. } if agrees && !is_busy && order.target.is_some() => Verdict::Done,
            Stage::Unclear { since, .. } if begun.at >= after(since, SETTLE) && !is_busy => {
                if agrees {
                    Verdict::Done
                } else {
                    Verdict::NotDone
                }
            }
            Stage::Unclear {
                answer: Some(_), ..
            } if !is_busy => Verdict::Undone,
            Stage::Called | Stage::Pending { .. } | Stage::Unclear { .. } => Verdict::Ignore,
            Stage::Settling { .. } if agrees => Verdict::Settled,
            Stage::Settling { since, .. } if begun.at >= after(since, SETTLE) => Verdict::Mismatch,
            Stage::Settling { .. } => Verdict::Doubt,
        }
    }

    /// After a restart, an address whose order is still under way is at least somewhere.
    fn learn(&mut self, ip: IpAddr) {
        if let Some(address) = self.addresses.get_mut(&ip)
            && address.place == Place::Unknown
            && let Some(entry) = self.account.listed.get(&ip)
        {
            address.place = Place::of(entry.server.as_ref());
        }
    }

    fn is_unclear(&self, ip: IpAddr) -> bool {
        let order = self.addresses.get(&ip).and_then(|it| it.order.as_ref());
        order.is_some_and(|it| matches!(it.stage, Stage::Unclear { .. }))
    }

    fn undone(&mut self, ip: IpAddr) {
        let address = self.addresses.get_mut(&ip);
        if let Some(order) = address.and_then(|it| it.order.as_mut())
            && let Stage::Unclear { undone, .. } = &mut order.stage
        {
            *undone = true;
        }
        self.learn(ip);
    }

    fn doubt(&mut self, ip: IpAddr) {
        let address = self.addresses.get_mut(&ip);
        if let Some(order) = address.and_then(|it| it.order.as_mut())
            && let Stage::Settling { doubted, .. } = &mut order.stage
        {
            *doubted = true;
        }
    }

    fn mismatch(&mut self, ip: IpAddr, now: Timestamp) {
        let Some(address) = self.addresses.get_mut(&ip) else {
            return;
        };
        address.order = None;
        let until = address.tries.again(Pace::Fast, now);
        let message = "state unknown; cache / provider mismatch".to_owned();
        address.show("ProviderMismatch", message, until);
    }

    /// Believes what the list says.
    fn follow(&mut self, ip: IpAddr) {
        let Some(address) = self.addresses.get_mut(&ip) else {
            return;
        };
        let Some(Listed {
            server, busy, mark, ..
        }) = self.account.listed.get(&ip)
        else {
            address.missed = address.missed.saturating_add(1);
            address.busy = false;
            // Lists of several pages may leave one out that is there: two have to agree.
            if address.missed > 1 || address.place == Place::Unknown {
                address.place = Place::Missing;
                address.missed = address.missed.max(2);
            }
            return;
        };
        address.missed = 0;
        address.busy = *busy;
        let cluster = mark.as_ref().map(|it| &it.cluster);
        address.foreign = cluster.is_some_and(|it| *it != self.spec.cluster);
        address.place = Place::of(server.as_ref());
        if address.place.server().is_some() {
            address.origin = None;
        }
    }
}
