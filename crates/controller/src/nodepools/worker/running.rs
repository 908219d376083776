//! A pool that is followed.

use std::{sync::Arc, time::Duration};

use floe_api::flipop::pool::FloatingIPPool;
use floe_core::nodepool::pool::Pool;
use jiff::Timestamp;

use super::{
    super::{
        Shared,
        account::Account,
        annotate::Given,
        check::{DnsPlan, PoolPlan},
        names::Keeper,
        sight::{Looked, Sight},
    },
    notes::Noted,
};

/// How long changes of addresses are collected before DNS is told.
const DNS_MOMENT: Duration = Duration::from_millis(200);

/// What is known of it, and what is under way.
pub(super) struct Running {
    pub plan: PoolPlan,
    pub account: Arc<Account>,
    pub sight: Sight,
    /// Whether everything was listed once: before, the machine is not asked.
    pub looked: bool,
    pub notes: Noted,
    pub machine: Pool,
    pub keeper: Option<Keeper>,
    /// Calls under way that change something.
    pub changing: usize,
    /// A list that began before this may not show what was done.
    pub changed: tokio::time::Instant,
    /// When the last list was begun that the machine knows.
    pub told: Option<tokio::time::Instant>,
    /// Which pool of calls answers belong to: those to the calls of an earlier cloud, or of an
    /// earlier course, are not heard.
    pub epoch: u64,
    /// What was last told to be annotated.
    pub annotated: Option<Given>,
}

impl Running {
    pub fn replan(&mut self, plan: PoolPlan, shared: &Shared, owner: String, epoch: u64) {
        if self.plan.provider != plan.provider {
            self.account = shared.accounts.of(&plan.provider, &plan.ips);
            self.epoch = epoch;
            self.changing = 0;
        }
        // Another cloud does not know the servers of the nodes yet: then all are looked at.
        if *self.sight.selection() != plan.selection || self.plan.provider != plan.provider {
            self.sight = sight(shared, &plan);
        }
        self.keeper = match (self.keeper.take(), plan.dns.clone()) {
            (Some(mut keeper), Some(dns)) if keeper.plan().is_same_place(&dns) => {
                keeper.configure(dns);
                Some(keeper)
            }
            (_, dns) => dns.map(|dns| keeper(dns, owner)),
        };
        self.plan = plan;
    }

    /// Tells the machine which nodes there are, and later only which have changed.
    pub fn look(&mut self, now: Timestamp) {
        match self.sight.look(&self.plan.rule) {
            None => {}
            Some(Looked::All(judged)) => {
                for (server, it) in &judged {
                    self.plan.ips.introduce(server, &it.seen.name);
                }
                self.notes.all(&judged);
                let nodes = judged.into_iter().map(|(server, it)| (server, it.seen));
                self.machine.nodes(nodes.collect(), now);
                self.looked = true;
            }
            Some(Looked::Changed(judged)) => {
                for (server, it) in judged {
                    match &it {
                        Some(it) => self.plan.ips.introduce(&server, &it.seen.name),
                        None => self.plan.ips.dismiss(&server),
                    }
                    self.notes.put(&server, it.as_ref());
                    self.machine.node(&server, it.map(|it| it.seen), now);
                }
            }
        }
    }

    /// A pool that gives its addresses back does not do so while its name still says them:
    /// somebody else may be sold them next.
    pub fn waits_for_name(&self, pool: &FloatingIPPool) -> bool {
        let goes = pool.is_deleting() && pool.gives_back();
        goes && self.keeper.as_ref().is_some_and(|it| !it.is_gone())
    }

    /// What a machine has asked for that is gone, as after a mistake in the specification, may
    /// still be done. Until its end is known nobody can tell what else is to be done: an
    /// address that is being bought does not stand in any list.
    pub fn waits_for_others(&self, under_way: usize) -> bool {
        under_way > self.changing
    }

    /// A list that began after this shows what the pool has done, and is news to it.
    pub fn since(&self) -> tokio::time::Instant {
        match self.changing {
            0 => self
                .told
                .map_or(self.changed, |told| told.max(self.changed)),
            _ => tokio::time::Instant::now(),
        }
    }
}

pub(super) fn sight(shared: &Shared, plan: &PoolPlan) -> Sight {
    let with_bare = plan.ips.knows_bare_nodes();
    Sight::new(&shared.watches, &plan.selection, with_bare)
}

pub(super) fn keeper(dns: DnsPlan, owner: String) -> Keeper {
    Keeper::new(dns, owner, DNS_MOMENT)
}
