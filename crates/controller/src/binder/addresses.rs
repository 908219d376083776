//! Decides which addresses a pod gets, and writes that down.

use std::net::IpAddr;

use floe_core::{
    ipam::{args::IpInfo, choice::Choice, ledger::Record},
    schedule::{
        bind::{self, Grant},
        gate,
        refusal::{NodeRefusal, Refusal},
    },
};
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};

use super::{
    BindError, Binder,
    attempt::{Aim, Attempt, Written},
    undo::Leftover,
};
use crate::{
    clock,
    records::{self, Gift, Network, WriteError},
    store::Books,
};

/// How often a pod may lose an address to another writer.
const TRIES: usize = 8;

/// How long addresses are set aside; longer than all writes of a pod can take.
const SET_ASIDE: SignedDuration = SignedDuration::from_mins(5);

/// What a pod gets on its node.
pub(super) struct Granted {
    take: Vec<Taking>,
    /// The result for the annotation, one for each wish and in that order.
    pub infos: Vec<IpInfo>,
    pub give_back: Vec<Leftover>,
    /// The node subnets that can carry all of it, where no node was chosen yet.
    pub subnets: Vec<IpNet>,
}

/// One address that a pod gets.
struct Taking {
    choice: Choice,
    /// Its record so far.
    seen: Option<Record>,
    network: IpInfo,
}

impl Granted {
    pub fn ips(&self) -> impl Iterator<Item = IpAddr> {
        self.take.iter().map(|taking| taking.choice.ip())
    }
}

impl Attempt<'_> {
    /// Takes all addresses that the pod asks for. On an error some may be written:
    /// these are the pod's own.
    pub async fn take_addresses(&mut self) -> Result<Granted, BindError> {
        let mut tries = 1;
        loop {
            self.in_time()?;
            let granted = self.decide()?;
            match self.write(&granted).await {
                Ok(()) => return Ok(granted),
                Err(WriteError::Conflict { .. }) if tries < TRIES => tries += 1,
                Err(WriteError::Conflict { ip }) => return Err(BindError::Contended { tries, ip }),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Decides, and sets aside what is to be written, in one step.
    fn decide(&self) -> Result<Granted, BindError> {
        let until = clock::now() + SET_ASIDE;
        self.binder.store.change(|books| {
            if !books.serves() {
                return Err(BindError::NotReady);
            }
            let (grant, subnets) = self.grant(books, until)?;
            let ledger = books.ledger();
            let take = grant.take.iter().map(|&choice| {
                Some(Taking {
                    choice,
                    seen: ledger.record(choice.ip()).cloned(),
                    network: records::network(ledger, choice.ip())?,
                })
            });
            let take: Option<Vec<Taking>> = take.collect();
            // Only configured addresses are granted.
            let take = take.ok_or(Refusal::NoAddressLeft)?;
            let give_back = grant.give_back.iter();
            let granted = Granted {
                infos: take.iter().map(|it| it.network).collect(),
                take,
                give_back: give_back
                    .filter_map(|it| Leftover::new(ledger, &self.claim.claimant, it))
                    .collect(),
                subnets,
            };
            books.promise(&self.claim.pod.uid, grant.promise);
            Ok(granted)
        })
    }

    /// Which addresses the pod gets, and, where no node was chosen yet, in which subnets
    /// it can run with them. Who is refused there waits from this very step on, so that
    /// no room is missed that others make.
    fn grant(&self, books: &Books, until: Timestamp) -> Result<(Grant, Vec<IpNet>), Refusal> {
        let ledger = books.ledger();
        match self.aim {
            Aim::Node(address) => {
                let address = address.ok_or(NodeRefusal::UnknownNode)?;
                let subnet = ledger.topology().node_subnet(address);
                let subnet = subnet.ok_or(NodeRefusal::NotConfigured { address })?;
                let grant = bind::bind(ledger, &self.claim.claimant, subnet, until)?;
                Ok((grant, Vec::new()))
            }
            Aim::AnyOf(offers) => {
                let Binder {
                    claims, waiting, ..
                } = self.binder;
                let mut claimant = self.claim.claimant.clone();
                claimant.yields_to = claims.ahead_of(&self.claim, ledger, offers);
                let admitted = gate::admit(ledger, &claimant, offers, until);
                match &admitted {
                    Ok(_) => waiting.leave(&claimant.uid),
                    Err(_) => waiting.refused(&self.claim),
                }
                admitted.map(|it| (it.grant, it.subnets))
            }
        }
    }

    /// Writes the records. The promise ends in the step that enters the last one.
    async fn write(&mut self, granted: &Granted) -> Result<(), WriteError> {
        let left: Vec<_> = granted.take.iter().filter(|it| self.is_due(it)).collect();
        let uid = self.uid().to_owned();
        for (number, taking) in (1..).zip(&left) {
            let Taking {
                choice,
                seen,
                network,
            } = taking;
            let gift = match seen {
                Some(record) => {
                    self.leave_old_node(record).await;
                    Gift::Held(record)
                }
                None => Gift::New(choice.ip()),
            };
            let is_last = number == left.len();
            let then = |books: &mut Books| {
                if is_last {
                    books.promise(&uid, None);
                }
                books.ledger().record(choice.ip()).cloned()
            };
            let records = &self.binder.records;
            let told = Network {
                info: network,
                // Nobody can tell the cloud where it shall be before there is a node.
                assigning: self.node.is_empty() && self.binder.cloud.is_there(),
            };
            let given = records.give(gift, &self.holding, Some(told), then);
            let after = given.await?;
            // No record any more: it was deleted at once, which the books know.
            let Some(after) = after.filter(|after| self.holding.is_of(after)) else {
                return Err(WriteError::Conflict { ip: choice.ip() });
            };
            match choice {
                Choice::New(_) | Choice::Spare(_) => self.written.push(Written {
                    before: seen.clone(),
                    after,
                    network: *network,
                }),
                Choice::Own(ip) => {
                    let mut written = self.written.iter_mut();
                    if let Some(earlier) = written.find(|it| it.after.ip == *ip) {
                        (earlier.after, earlier.network) = (after, *network);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a record has to be written.
    ///
    /// What this very attempt has written needs no second write. What the pod has from
    /// an earlier attempt is written again. The books do not know which network the
    /// record tells, and it may be that of another configuration. And a bind that cannot
    /// get all addresses [gives up](Attempt::give_up) those that it has taken; another
    /// process may be in the middle of that, and then one of both learns of the other.
    fn is_due(&self, taking: &Taking) -> bool {
        let (Choice::Own(ip), Some(record)) = (taking.choice, &taking.seen) else {
            return true;
        };
        let mut written = self.written.iter();
        let fresh = written
            .any(|it| it.after.ip == ip && it.after == *record && it.network == taking.network);
        !(fresh && self.holding.is_of(record))
    }

    /// Takes an address from the node of an earlier bind that came to nothing. A
    /// cloud that refuses is no reason to refuse the pod: the node may be gone.
    async fn leave_old_node(&self, record: &Record) {
        if !record.node.is_empty() && record.node != self.node {
            let _ = self.binder.cloud.unassign(&record.node, record.ip).await;
        }
    }
}
