//! How missing addresses are bought, each exactly once.
//!
//! The intent is written to the status first, with the mark that the address will bear and
//! with all addresses of the account; then one address is bought; then it is entered in the
//! specification; and only then is the intent forgotten. Whoever finds an open intent, after
//! a crash or without an answer, looks in the account for what has become of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use jiff::Timestamp;

use super::{
    Pool,
    account::SETTLE,
    address::{Address, Place},
    agenda::Agenda,
    call::{Answer, Call},
    memory::{Memory, Purchase},
    view::Trouble,
};
use crate::nodepool::{
    cloud::{Class, Listed, Mark, Refusal},
    retry::{Tries, after},
};

/// When the caller tells a specification without an address that was entered so long ago,
/// somebody must have removed it; before, it may just be an old one.
const UNSEEN: Duration = Duration::from_mins(10);

/// How long free addresses wait for one that is being bought.
const PURCHASE_FIRST: Duration = Duration::from_secs(10);

/// The purchase under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Buying {
    step: Step,
    tries: Tries,
    pub trouble: Option<Trouble>,
    /// Entered, but not yet seen in the specification.
    pub entered: BTreeMap<IpAddr, Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Idle,
    /// The intent has to be written.
    ToWrite,
    Writing,
    /// The intent stands there.
    ToBuy,
    Buying,
    /// Whether it was bought is not known.
    Unclear {
        /// None right after a restart.
        since: Option<Timestamp>,
        /// How many lists in a row did not show it.
        lists: u32,
        /// A person has to say what it is.
        stuck: bool,
    },
    ToEnter(Vec<IpAddr>),
    Entering(Vec<IpAddr>),
}

impl Buying {
    /// Begins with what the last process has left.
    pub fn resume(memory: &Memory) -> Self {
        let step = match memory.purchase {
            Some(_) => Step::Unclear {
                since: None,
                lists: 0,
                stuck: false,
            },
            None => Step::Idle,
        };
        Self {
            step,
            ..Self::default()
        }
    }

    /// What was entered is now the specification's business.
    pub fn has_seen(&mut self, ips: &[IpAddr], now: Timestamp) {
        self.entered
            .retain(|ip, at| !ips.contains(ip) && after(*at, UNSEEN) > now);
    }

    /// Whether a list is needed to go on.
    pub fn wants_look(&self) -> bool {
        matches!(self.step, Step::Unclear { stuck: false, .. })
    }

    pub fn is_idle(&self) -> bool {
        self.step == Step::Idle
    }
}

impl Pool {
    /// How many addresses are missing.
    pub(super) fn missing(&self) -> usize {
        self.spec.desired.saturating_sub(self.ips.len())
    }

    /// Goes on with the purchase, or begins one.
    pub(super) fn buy(&mut self, agenda: &mut Agenda) -> Option<Call> {
        let wants = self.missing() > 0 && !self.spec.reclaims;
        if !wants {
            self.is_not_wanted();
        }
        match self.buying.step.clone() {
            Step::Idle if wants => self.begin(agenda),
            Step::ToWrite if agenda.is_over(self.buying.tries.next) => {
                self.buying.step = Step::Writing;
                Some(Call::Write)
            }
            Step::ToBuy if self.account.is_open(agenda) => {
                let mark = self.memory.purchase.as_ref()?.mark.clone();
                self.buying.step = Step::Buying;
                Some(Call::Buy { mark })
            }
            Step::ToEnter(ips) if agenda.is_over(self.buying.tries.next) => {
                self.buying.step = Step::Entering(ips.clone());
                Some(Call::Enter { ips })
            }
            Step::Unclear {
                since: None,
                lists,
                stuck,
            } => {
                self.buying.step = Step::Unclear {
                    since: Some(agenda.now),
                    lists,
                    stuck,
                };
                self.account.look_at_once();
                None
            }
            Step::Idle
            | Step::ToWrite
            | Step::Writing
            | Step::ToBuy
            | Step::Buying
            | Step::Unclear { .. }
            | Step::ToEnter(_)
            | Step::Entering(_) => None,
        }
    }

    /// What kept an intent from being written was fixed: it is tried at once.
    pub fn retry_purchase(&mut self) {
        if self.buying.step == Step::ToWrite {
            self.buying.tries = Tries::default();
            self.buying.trouble = None;
            self.stirred = true;
        }
    }

    /// The intent has been written, or not.
    pub(super) fn written(&mut self, answer: &Answer, now: Timestamp) {
        if self.buying.step != Step::Writing {
            return;
        }
        if let Answer::Refused(refusal) = answer {
            self.buying.step = Step::ToWrite;
            self.buying.tries.refused(refusal, now);
            self.buying.trouble = Some(trouble("writing the intent to buy", refusal));
        } else {
            self.buying.step = Step::ToBuy;
            self.buying.tries.next = None;
        }
    }

    /// The answer of the cloud to a purchase.
    pub(super) fn bought(&mut self, mark: &Mark, answer: Answer, now: Timestamp) {
        let is_open = self.memory.purchase.as_ref().map(|it| &it.mark) == Some(mark);
        let is_mine = is_open && self.buying.step == Step::Buying;
        match answer {
            Answer::Bought(ip) if is_mine && !self.spec.reclaims => {
                self.buying.step = Step::ToEnter(vec![ip]);
                self.buying.tries = Tries::default();
                self.buying.trouble = None;
            }
            Answer::Bought(_) if is_mine => self.may_be_bought(now),
            Answer::Bought(ip) => {
                // It was bought for what the pool was before.
                let words = format!("{ip} was bought, but it is not what is wanted now");
                self.buying.trouble = Some(unclear(words));
            }
            Answer::Refused(refusal) if is_mine => {
                if refusal.class == Class::Unclear {
                    self.may_be_bought(now);
                } else {
                    self.memory.purchase = None;
                    self.buying.step = Step::Idle;
                    self.buying.tries.refused(&refusal, now);
                }
                self.buying.trouble = Some(trouble("creating new ip with provider", &refusal));
            }
            Answer::Refused(_) => {}
            Answer::Listed(_) | Answer::Progress(_) | Answer::Taken(_) | Answer::Done => {
                debug_assert!(false, "no answer to a purchase: {answer:?}");
            }
        }
    }

    /// What was bought stands in the specification, or not.
    pub(super) fn entered(&mut self, ips: &[IpAddr], answer: &Answer, now: Timestamp) {
        if self.buying.step != Step::Entering(ips.to_vec()) {
            return;
        }
        if let Answer::Refused(refusal) = answer {
            self.buying.step = Step::ToEnter(ips.to_vec());
            self.buying.tries.refused(refusal, now);
            self.buying.trouble = Some(trouble("adding new ip to the list", refusal));
            return;
        }
        self.memory.purchase = None;
        self.buying.step = Step::Idle;
        self.buying.tries = Tries::default();
        self.buying.trouble = None;
        let changed = self.tick(now);
        for ip in ips {
            if !self.spec.ips.contains(ip) {
                self.buying.entered.insert(*ip, now);
            }
            let known = self.addresses.get(ip);
            if known.is_none_or(|it| it.place == Place::Unknown && it.order.is_none()) {
                let listed = self.account.listed.get(ip);
                let server = listed.and_then(|it| it.server.as_ref());
                let address = Address::new(Place::of(server), changed);
                self.addresses.insert(*ip, address);
            }
        }
        self.arrange();
    }

    /// Looks in a list for a purchase of which nobody knows whether it was made.
    pub(super) fn resolve_purchase(&mut self, begun: Timestamp) {
        let Step::Unclear {
            since: Some(since),
            lists,
            ..
        } = self.buying.step
        else {
            return;
        };
        let Some(purchase) = &self.memory.purchase else {
            self.buying.step = Step::Idle;
            return;
        };
        if begun < since {
            return;
        }
        let listed = &self.account.listed;
        let is_it = |it: &&Listed| it.mark.as_ref() == Some(&purchase.mark);
        let marked: Vec<IpAddr> = listed.values().filter(is_it).map(|it| it.ip).collect();
        let new = listed
            .values()
            .filter(|it| !purchase.before.contains(&it.ip));
        let (known, new): (Vec<_>, Vec<_>) = new.partition(|it| self.ips.contains(&it.ip));
        // What is on a server already was bought by somebody else.
        let new = new.iter().filter(|it| it.server.is_none());
        let new: Vec<IpAddr> = new.map(|it| it.ip).collect();
        let to_enter = marked.iter().filter(|it| !self.ips.contains(it));
        let to_enter: Vec<IpAddr> = to_enter.copied().collect();
        let marks = self.spec.capabilities.marks;
        let mut stuck = false;
        let mut lists = lists.saturating_add(1);
        if self.spec.reclaims {
            if !marked.is_empty() {
                lists = 0;
            }
        } else if !to_enter.is_empty() {
            self.buying.step = Step::ToEnter(to_enter);
            self.buying.tries = Tries::default();
            self.buying.trouble = None;
            return;
        } else if !marked.is_empty() || (!marks && new.is_empty() && !known.is_empty()) {
            // It stands in the specification already.
            self.forget_purchase();
            return;
        } else if !marks && !new.is_empty() {
            let texts: Vec<String> = new.iter().map(ToString::to_string).collect();
            let words = format!(
                "an address may have been bought just before a failure, and may be one of {}: \
                 add it to ips, or give it back",
                texts.join(", ")
            );
            self.buying.trouble = Some(unclear(words));
            stuck = true;
            lists = 0;
        }
        let is_sure = lists > 1 && begun >= after(since, SETTLE);
        if is_sure && self.missing() > 0 && !self.spec.reclaims {
            self.buying.step = Step::ToBuy;
        } else if is_sure {
            self.forget_purchase();
        } else {
            self.buying.step = Step::Unclear {
                since: Some(since),
                lists,
                stuck,
            };
        }
    }

    /// Begins a purchase with the intent.
    fn begin(&mut self, agenda: &mut Agenda) -> Option<Call> {
        if !self.spec.capabilities.buys {
            let refusal = Refusal::new(Class::Invalid, "it sells no addresses");
            self.buying.trouble = Some(trouble("creating new ip with provider", &refusal));
            return None;
        }
        // Without a list nobody could tell later what is new.
        let is_known = self.account.heard.is_some();
        if !is_known || !agenda.is_over(self.buying.tries.next) || !self.account.is_open(agenda) {
            return None;
        }
        let mark = self.new_mark(agenda.now);
        let before: BTreeSet<IpAddr> = self.account.listed.keys().copied().collect();
        self.memory.purchase = Some(Purchase {
            mark,
            since: agenda.now,
            before,
        });
        self.buying.step = Step::Writing;
        Some(Call::Write)
    }

    /// A mark that no address bears. The moment tells one purchase of a pool from another.
    fn new_mark(&self, now: Timestamp) -> Mark {
        let mut number = now.as_millisecond();
        loop {
            let mark = Mark {
                cluster: self.spec.cluster.clone(),
                pool: self.spec.pool.clone(),
                purchase: number.to_string(),
            };
            let mut listed = self.account.listed.values();
            if !listed.any(|it| it.mark.as_ref() == Some(&mark)) {
                return mark;
            }
            number += 1;
        }
    }

    fn may_be_bought(&mut self, now: Timestamp) {
        self.buying.step = Step::Unclear {
            since: Some(now),
            lists: 0,
            stuck: false,
        };
        self.account.look_soon(now);
        self.account.look_at_once();
    }

    fn forget_purchase(&mut self) {
        self.memory.purchase = None;
        self.buying.step = Step::Idle;
        self.buying.tries = Tries::default();
        self.buying.trouble = None;
    }

    /// Nothing is to be bought: what has only been intended is forgotten.
    fn is_not_wanted(&mut self) {
        match self.buying.step {
            Step::ToWrite | Step::ToBuy => self.forget_purchase(),
            Step::Idle => {
                let is_stray = |it: &Trouble| it.reason == UNCLEAR;
                self.buying.trouble = self.buying.trouble.take().filter(is_stray);
            }
            Step::Writing
            | Step::Buying
            | Step::Unclear { .. }
            | Step::ToEnter(_)
            | Step::Entering(_) => {}
        }
    }

    /// Whether free addresses wait for a purchase, since the one that is bought last is used first.
    /// Not for long: a node that waits for an address matters more than which one it gets.
    ///
    /// Compat: FLIPOP buys everything before it assigns anything.
    pub(super) fn awaits_purchase(&self, agenda: &mut Agenda) -> bool {
        let purchase = self.memory.purchase.as_ref();
        let Some(purchase) = purchase.filter(|_| self.buying.trouble.is_none()) else {
            return false;
        };
        !agenda.is_over(Some(after(purchase.since, PURCHASE_FIRST)))
    }
}

const UNCLEAR: &str = "PurchaseUnclear";

fn unclear(message: String) -> Trouble {
    Trouble {
        reason: UNCLEAR,
        message,
    }
}

fn trouble(what: &str, refusal: &Refusal) -> Trouble {
    Trouble {
        reason: refusal.class.reason(),
        message: format!("{what}: {refusal}"),
    }
}
