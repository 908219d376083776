//! Leadership by a lease: gather, decide in [`floe_core::lease`], apply, report.
//!
//! Losing the lease does not end the process; it follows until it leads again.
//! Safety never rests on leadership: writers rely on the API server's own
//! checks, and leadership only saves work.

use std::{future::pending, time::Duration};

use floe_core::lease::{Candidate, Decision, Loss, Moment, Record, Timing};
use floe_shell::{logs, stop::Stop};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::PostParams};
use serde::Serialize;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, info, warn};

use crate::{config::Election, contact::Contact};

mod identity;
mod lookout;
mod record;

pub use identity::identity;
use lookout::{Lookout, Shown};
pub use record::Addresses;

/// What this process is in the election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "standing")]
pub enum Standing {
    /// The lease was not read yet.
    Unknown,
    /// This process leads.
    Leading,
    /// Another one leads, or nobody does.
    Following {
        /// The holder of the lease, if there is one.
        holder: Option<String>,
        /// Where the holder answers the scheduler, if it has told.
        extender: Option<String>,
        /// Where the holder answers people and tools, if it has told.
        api: Option<String>,
    },
}

/// Why a round has come to nothing.
#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error("cannot read the lease")]
    Read(#[source] kube::Error),
    #[error("cannot write the lease")]
    Write(#[source] kube::Error),
    #[error("the lease has changed since it was read")]
    Conflict,
    #[error("no answer within {0:?}")]
    Silent(Duration),
}

impl RoundError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Read(_) => "LeaseReadFailed",
            Self::Write(_) => "LeaseWriteFailed",
            Self::Conflict => "LeaseConflict",
            Self::Silent(_) => "LeaseTimeout",
        }
    }
}

/// The task that takes part in the election.
pub struct Elector {
    leases: Api<Lease>,
    /// The same for the lookout, so that tests can tell its reads from ours.
    watched: Api<Lease>,
    election: Election,
    timing: Timing,
    candidate: Candidate,
    start: Instant,
    dice: fn() -> f64,
    /// Whether the lease may name us, so that a stop must release it.
    may_hold: bool,
    /// Whether the last round has failed; repeated failures are not news.
    failing: bool,
    standing: watch::Sender<Standing>,
    contact: Contact,
    /// Where this process answers, for the lease.
    own: Addresses,
    /// The same of the one who wrote the lease that was read last.
    told: Addresses,
}

impl Elector {
    /// A task for this lease. It marks `contact` whenever the lease was read,
    /// and tells in the lease where this process answers.
    pub fn new(
        client: Client,
        election: Election,
        timing: Timing,
        contact: Contact,
        own: Addresses,
    ) -> Self {
        let leases = Api::namespaced(client, &election.namespace);
        Self {
            watched: leases.clone(),
            leases,
            candidate: Candidate::new(identity(), timing),
            election,
            timing,
            start: Instant::now(),
            dice: identity::dice,
            may_hold: false,
            failing: false,
            standing: watch::Sender::new(Standing::Unknown),
            contact,
            own,
            told: Addresses::default(),
        }
    }

    /// Where others learn whether this process leads.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Takes part in the election until `stop`, then releases the lease.
    ///
    /// Work that needs leadership must have ended before `stop`, because
    /// another replica may lead from the release on.
    pub async fn run(mut self, mut stop: Stop) {
        info!(
            identity = self.candidate.identity(),
            namespace = self.election.namespace,
            lease = self.election.name,
            "taking part in the leader election",
        );
        let patience = self.timing.lease_duration();
        let (lookout, mut shown) =
            Lookout::new(self.watched.clone(), &self.election.name, patience);
        tokio::select! {
            biased;
            () = stop.requested() => {}
            () = self.take_part(&mut shown) => {}
            never = lookout.run() => match never {},
        }
        self.withdraw().await;
    }

    /// Dropping this at any point is safe: an answer that is not awaited has
    /// not changed the candidate, and the next read shows what became of it.
    async fn take_part(&mut self, shown: &mut Shown) {
        loop {
            let limit = self.limit();
            let result = timeout(limit, self.round()).await;
            let result = result.unwrap_or(Err(RoundError::Silent(limit)));
            self.note(result);
            self.settle();
            let pause = if self.candidate.is_leader(self.now()) {
                self.timing.retry_period()
            } else {
                self.timing.follower_pause((self.dice)())
            };
            self.rest(self.wake(pause), shown).await;
            self.settle();
        }
    }

    /// Sleeps until `end`, or until shortly after a release or another holder was
    /// shown.
    async fn rest(&self, end: Instant, shown: &mut Shown) {
        tokio::select! {
            biased;
            () = sleep_until(end) => {}
            () = self.news_shown(shown) => {
                let pause = self.timing.wake_pause((self.dice)());
                debug!(?pause, "woken by a change of the lease");
                sleep_until(end.min(Instant::now() + pause)).await;
            }
        }
    }

    /// Waits for news: what was shown before does not count twice, so that a
    /// watch that is stuck on an old state causes one read and not a storm.
    async fn news_shown(&self, shown: &mut Shown) {
        while shown.changed().await.is_ok() {
            let record = shown.borrow_and_update();
            if self.candidate.is_worth_a_look(record.as_ref(), self.now()) {
                return;
            }
        }
        // Nobody watches any more; the end of the pause still comes.
        pending::<()>().await;
    }

    async fn round(&mut self) -> Result<(), RoundError> {
        let lease = self.read().await?;
        self.told = lease.as_ref().map(record::addresses).unwrap_or_default();
        let seen = lease.as_ref().map(record::from_lease);
        let decision = self.candidate.decide(seen, self.now(), Timestamp::now());
        debug!(?decision, "decided on the lease");
        match decision {
            Decision::Acquire { record, vacancy } => {
                info!(reason = vacancy.reason(), "trying to take the lease");
                self.write(lease, &record).await
            }
            Decision::Renew { record } => self.write(lease, &record).await,
            Decision::Wait { .. } => {
                self.may_hold = false;
                Ok(())
            }
            Decision::StepDown(loss) => {
                self.may_hold = loss == Loss::RenewDeadlinePassed;
                self.report_loss(&loss);
                Ok(())
            }
        }
    }

    async fn read(&self) -> Result<Option<Lease>, RoundError> {
        let lease = self.leases.get_opt(&self.election.name).await;
        let lease = lease.map_err(RoundError::Read)?;
        self.contact.mark();
        Ok(lease)
    }

    /// Creates the lease, or replaces exactly the one that was read.
    async fn write(&mut self, read: Option<Lease>, record: &Record) -> Result<(), RoundError> {
        self.may_hold = true;
        let sent = self.now();
        let params = PostParams::default();
        let name = &self.election.name;
        let own = &self.own;
        let result = match read {
            None => {
                let lease = record::to_new_lease(name, record, own);
                self.leases.create(&params, &lease).await
            }
            Some(lease) => {
                let lease = record::into_lease(lease, record, own);
                self.leases.replace(name, &params, &lease).await
            }
        };
        match result {
            Ok(lease) => {
                let now = self.now();
                self.candidate
                    .written(record::from_lease(&lease), sent, now);
                Ok(())
            }
            // Both "already exists" and "conflict".
            Err(kube::Error::Api(status)) if status.code == 409 => Err(RoundError::Conflict),
            Err(error) => Err(RoundError::Write(error)),
        }
    }

    /// Steps down and frees the lease for others, if it is ours.
    async fn withdraw(&mut self) {
        let led = self.candidate.is_leader(self.now());
        self.publish(Standing::Following {
            holder: None,
            extender: None,
            api: None,
        });
        if led {
            info!(reason = "Stopping", "stopped leading");
        }
        if !self.may_hold {
            return;
        }
        let limit = self.timing.renew_deadline() / 2;
        match timeout(limit, self.release())
            .await
            .unwrap_or(Err(RoundError::Silent(limit)))
        {
            Ok(true) => info!("released the lease"),
            Ok(false) => {}
            Err(error) => warn!(
                reason = error.reason(),
                error = logs::with_causes(&error),
                "could not release the lease, it will expire",
            ),
        }
    }

    /// Says whether there was something to release.
    async fn release(&mut self) -> Result<bool, RoundError> {
        loop {
            let lease = self.read().await?;
            let seen = lease.as_ref().map(record::from_lease);
            let Some(record) = self.candidate.release(seen.as_ref(), Timestamp::now()) else {
                return Ok(false);
            };
            match self.write(lease, &record).await {
                // A renewal that was cut off by the stop arrived in between.
                Err(RoundError::Conflict) => {}
                result => return result.map(|()| true),
            }
        }
    }

    /// Ends the term if it is over, and tells everybody where we stand.
    fn settle(&mut self) {
        let now = self.now();
        if let Some(loss) = self.candidate.expire(now) {
            self.report_loss(&loss);
        }
        if self.candidate.is_leader(now) {
            if self.publish(Standing::Leading) {
                info!("started leading");
            }
        } else if self.contact.age().is_some() {
            let seen = self.candidate.observed();
            let holder = seen.map(|record| record.holder.clone());
            let holder = holder.filter(|holder| !holder.is_empty());
            // Our own address, when our term has ended, leads nowhere.
            let other = holder
                .as_deref()
                .filter(|holder| *holder != self.candidate.identity());
            let Addresses { extender, api } = other.map(|_| self.told.clone()).unwrap_or_default();
            if self.publish(Standing::Following {
                holder: holder.clone(),
                extender,
                api,
            }) {
                info!(holder, "following");
            }
        }
    }

    /// Says whether this is news.
    fn publish(&self, standing: Standing) -> bool {
        self.standing.send_if_modified(|current| {
            let news = *current != standing;
            *current = standing;
            news
        })
    }

    fn report_loss(&self, loss: &Loss) {
        let seen = self.candidate.observed();
        let holder = seen.map(|record| record.holder.as_str());
        warn!(reason = loss.reason(), holder, "stopped leading");
    }

    fn note(&mut self, result: Result<(), RoundError>) {
        match result {
            Ok(()) if self.failing => {
                self.failing = false;
                info!("leader election works again");
            }
            Ok(()) => {}
            // Somebody was faster. The next round shows who.
            Err(RoundError::Conflict) => info!(reason = "LeaseConflict", "lease was not written"),
            Err(error) if self.failing => {
                debug!(
                    reason = error.reason(),
                    error = logs::with_causes(&error),
                    "leader election still fails"
                );
            }
            Err(error) => {
                self.failing = true;
                warn!(
                    reason = error.reason(),
                    error = logs::with_causes(&error),
                    "leader election fails"
                );
            }
        }
    }

    /// How long a round may take: never past the end of the term, and short
    /// enough that a second try fits into it.
    fn limit(&self) -> Duration {
        let limit = self.timing.renew_deadline() / 2;
        let term = self
            .candidate
            .term()
            .map(|until| until.remaining(self.now()));
        term.map_or(limit, |left| left.min(limit))
    }

    /// The end of a pause, or of the term if that comes first.
    fn wake(&self, pause: Duration) -> Instant {
        let next = self.now().after(pause);
        let wake = self.candidate.term().map_or(next, |until| until.min(next));
        self.start + wake.0
    }

    fn now(&self) -> Moment {
        Moment(self.start.elapsed())
    }
}

#[cfg(test)]
mod tests;
