//! One bind: what is known when it begins, and its steps.

use std::{net::IpAddr, sync::Arc};

use floe_api::extender::{BindRequest, PodRef};
use floe_core::{
    ipam::{
        args::IpInfo,
        attribute::Attribute,
        choice::Choice,
        ledger::{Ledger, Record},
    },
    schedule::filter::Offer,
};
use futures::future::try_join_all;
use tokio::time::Instant;

use super::{BindError, Binder, addresses::Granted, undo::Leftover};
use crate::{
    claims::Claim,
    cluster::{Phase, Pod},
    records::Holding,
};

/// Gives addresses to a pod that is not bound yet.
pub(super) struct Attempt<'a> {
    pub binder: &'a Binder,
    /// The node to bind to; empty as long as nobody has chosen one.
    pub node: &'a str,
    pub aim: Aim<'a>,
    pub deadline: Instant,
    pub claim: Claim,
    /// What each record of the pod has to say.
    pub holding: Holding,
    /// What this attempt has taken so far.
    pub written: Vec<Written>,
}

/// Where the addresses have to be good for something.
pub(super) enum Aim<'a> {
    /// On the node, which has this address.
    Node(Option<IpAddr>),
    /// On some of these, which the pod accepts. A scheduler chooses then.
    AnyOf(&'a [Offer<'a>]),
}

/// An address that an attempt has taken.
#[derive(Clone, Debug)]
pub(super) struct Written {
    /// The record until then: that of a spare, or none.
    pub before: Option<Record>,
    /// The record as it was written.
    pub after: Record,
    /// The network that was written with it.
    pub network: IpInfo,
}

impl<'a> Attempt<'a> {
    /// Gathers what a bind needs; `None` when it is done already.
    pub async fn begin(
        binder: &'a Binder,
        request: &'a BindRequest,
        deadline: Instant,
    ) -> Result<Option<Self>, BindError> {
        let pod = binder.claims.pod(&request.pod).await?;
        if !pod.wants_address {
            return Err(BindError::NotWanted);
        }
        let claim = binder.claims.of(pod).await?;
        let pod = &claim.pod;
        if let Some(node) = bound_to(pod) {
            let ledger_says = |ledger: &Ledger| is_done(&claim, ledger);
            let done = node == request.node && binder.store.read(|it| ledger_says(it.ledger()));
            return if done {
                Ok(None)
            } else {
                Err(already_bound(pod, node))
            };
        }
        not_ending(pod)?;
        binder.check_node(pod, &request.node).await?;
        let aim = Aim::Node(binder.node_address(&request.node).await?);
        Ok(Some(Self::new(binder, &request.node, aim, deadline, claim)))
    }

    /// An attempt for a pod whose claim is known.
    pub fn new(
        binder: &'a Binder,
        node: &'a str,
        aim: Aim<'a>,
        deadline: Instant,
        claim: Claim,
    ) -> Self {
        let holding = Holding {
            key: claim.claimant.key.clone(),
            place: Attribute {
                node_name: node.to_owned(),
                uid: claim.pod.uid.clone(),
            },
            policy: claim.claimant.policy,
            note: claim.workload.app.note(),
        };
        Self {
            binder,
            node,
            aim,
            deadline,
            claim,
            holding,
            written: Vec::new(),
        }
    }

    /// Binds the pod. Returns what it does not need.
    pub async fn run(mut self) -> Result<Vec<Leftover>, BindError> {
        let granted = self.take_all_or_none().await?;
        self.assign(&granted).await?;
        self.in_time()?;
        self.bind(&granted.infos).await?;

        let choices = self.count(&granted);
        let reporter = &self.binder.reporter;
        reporter.bound(&self.claim.pod, self.node, &choices);
        Ok(granted.give_back)
    }

    /// Takes all addresses that the pod asks for. One that cannot have all of them has
    /// none of those that were taken here.
    pub async fn take_all_or_none(&mut self) -> Result<Granted, BindError> {
        let taken = self.take_addresses().await;
        if let Err(error) = &taken {
            self.take_promise_back();
            if matches!(error, BindError::Refused(_)) {
                self.give_up().await;
            }
        }
        taken
    }

    /// Counts what the pod has got, and tells where it came from.
    pub fn count(&self, granted: &Granted) -> Vec<Choice> {
        let choices: Vec<Choice> = granted.ips().map(|ip| self.source_of(ip)).collect();
        for choice in &choices {
            self.binder.metrics.allocated(match choice {
                Choice::Own(_) => "own",
                Choice::Spare(_) => "spare",
                Choice::New(_) => "new",
            });
        }
        choices
    }

    /// The pod that this is for is another state of the same one by now.
    pub fn seen_again(&mut self, pod: Arc<Pod>) {
        self.claim.pod = pod;
    }

    fn take_promise_back(&self) {
        let promise = self.binder.store.change(|books| {
            let promise = books.ledger().promise_to(self.uid()).cloned();
            books.promise(self.uid(), None);
            promise
        });
        if let Some(promise) = promise {
            self.binder.waiting.given_back(promise);
        }
    }

    /// An error when nobody waits any longer.
    pub fn in_time(&self) -> Result<(), BindError> {
        if Instant::now() < self.deadline {
            Ok(())
        } else {
            Err(BindError::Late)
        }
    }

    pub fn uid(&self) -> &str {
        &self.claim.pod.uid
    }

    pub fn pod_ref(&self) -> PodRef {
        let pod = &self.claim.pod;
        PodRef {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        }
    }

    async fn assign(&self, granted: &Granted) -> Result<(), BindError> {
        let calls = granted.ips().map(async |ip| {
            let call = self.binder.cloud.assign(self.node, ip).await;
            call.map_err(|why| BindError::Cloud {
                ip,
                node: self.node.to_owned(),
                why,
            })
        });
        try_join_all(calls).await.map(|_| ())
    }

    /// Where an address came from, also when that was a few tries ago.
    fn source_of(&self, ip: IpAddr) -> Choice {
        let mut written = self.written.iter();
        match written.find(|it| it.after.ip == ip) {
            None => Choice::Own(ip),
            Some(Written { before: None, .. }) => Choice::New(ip),
            Some(Written { .. }) => Choice::Spare(ip),
        }
    }
}

/// The node that a pod is bound to.
pub(super) fn bound_to(pod: &Pod) -> Option<&str> {
    pod.node.as_deref().filter(|node| !node.is_empty())
}

pub(super) fn already_bound(pod: &Pod, node: &str) -> BindError {
    BindError::AlreadyBound {
        pod: full_name(pod),
        node: node.to_owned(),
    }
}

/// The addresses that the annotation of a pod claims; none if it makes no sense.
pub(super) fn claimed(pod: &Pod) -> Vec<IpInfo> {
    pod.claimed().unwrap_or_default()
}

/// Whether a bound pod has all that it asks for, and the records say so as well.
fn is_done(claim: &Claim, ledger: &Ledger) -> bool {
    let (pod, claimant) = (&claim.pod, &claim.claimant);
    let held = claimant.held(ledger);
    let is_held = |info: &IpInfo| {
        let mut held = held.iter();
        held.any(|it| it.ip == info.ip.addr() && it.uid == pod.uid)
    };
    let claimed = claimed(pod);
    claimed.len() == claimant.wishes.len() && claimed.iter().all(is_held)
}

/// An error for a pod that needs no address any more.
pub(super) fn not_ending(pod: &Pod) -> Result<(), BindError> {
    let state = match (pod.terminating, pod.phase) {
        (true, _) => "is being deleted",
        (false, Phase::Finished) => "has finished",
        (false, Phase::Pending | Phase::Running) => return Ok(()),
    };
    let pod = full_name(pod);
    Err(BindError::Ending { pod, state })
}

pub(super) fn full_name(pod: &Pod) -> String {
    format!("{}_{}", pod.namespace, pod.name)
}
