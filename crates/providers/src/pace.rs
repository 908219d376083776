//! Patience with a provider: retries, order, and a bound on what is under way.
//!
//! ```text
//!   assign / unassign            lane 10.0.70.5   [assign a] [unassign a]  --+
//!   of many pods at once  --->   lane 10.0.70.6   [assign b]               --+--> slots --> provider
//!                                lane 10.0.70.7   [unassign c]             --+
//! ```
//!
//! # Guarantees
//! - The orders of one address are carried out one after the other, as they
//!   were given: an unassign never overtakes an assign.
//! - Addresses do not wait for each other, except for a free slot. Nothing
//!   holds a slot while it pauses between two tries.
//! - A call under way is seen to its end or its timeout, even when the caller
//!   is gone: otherwise the next order of the address could overtake it. What
//!   nobody waits for is not begun, and not tried again. So a caller limits its
//!   own waiting by dropping the future.
//! - The same order given again while the first one waits or is under way is
//!   one call. Later it is a call again: only the provider knows what holds.
//!
//! # Assumptions
//! The provider's own calls end (they have a timeout). A call that timed out
//! can still take effect at the provider; nothing here can prevent that.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};

pub use backoff::Backoff;
use lane::{Lanes, Order, Outcome};

use crate::port::{Answer, Func, IpProvider, ProviderError};

mod backoff;
mod lane;
#[cfg(test)]
mod tests;

/// How a provider is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Calls under way at the same time; at least one.
    pub at_once: usize,
    /// When a call that failed for the moment is made again.
    pub backoff: Backoff,
}

impl Default for Pace {
    /// 64 calls at once: some that hang are no jam for the others, and a mass
    /// restart of pods does not flood the provider.
    fn default() -> Self {
        Self {
            at_once: 64,
            backoff: Backoff::default(),
        }
    }
}

/// Gets told of every call that was made; for metrics and logs.
pub trait Observer: Send + Sync {
    /// A call has ended. This runs between calls and must not block.
    fn called(&self, call: &Call<'_>);
}

/// One call to the provider, a retry being one of its own.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// What was asked.
    pub func: Func,
    /// The node it was about; empty when unknown.
    pub node: &'a str,
    /// The address it was about.
    pub ip: IpAddr,
    /// From the call to its answer, without the time spent in a lane.
    pub took: Duration,
    /// How it ended.
    pub result: Result<(), &'a ProviderError>,
    /// After which pause it is made again, if nothing comes in between.
    pub retry_in: Option<Duration>,
}

/// Nobody is told.
impl Observer for () {
    fn called(&self, _: &Call<'_>) {}
}

/// A provider that is treated with patience; see the module.
#[derive(Clone)]
pub struct Paced(Arc<Shared>);

struct Shared {
    provider: Arc<dyn IpProvider>,
    observer: Arc<dyn Observer>,
    backoff: Backoff,
    slots: Semaphore,
    lanes: Mutex<Lanes>,
}

impl Paced {
    /// Wraps a provider. Its calls have to be made inside of a tokio runtime.
    pub fn new(provider: Arc<dyn IpProvider>, pace: Pace, observer: Arc<dyn Observer>) -> Self {
        Self(Arc::new(Shared {
            provider,
            observer,
            backoff: pace.backoff,
            slots: Semaphore::new(pace.at_once.clamp(1, Semaphore::MAX_PERMITS)),
            lanes: Mutex::default(),
        }))
    }

    async fn order(&self, func: Func, node: &str, ip: IpAddr) -> Outcome {
        // One lane for both ways of writing a v4 address.
        let ip = ip.to_canonical();
        let node = node.to_owned();
        let entry = self.0.lanes().enter(ip, Order { func, node });
        if entry.lane_is_new {
            tokio::spawn(work(Arc::clone(&self.0), ip));
        }
        // The worker is gone without an answer only when the runtime ends or
        // the provider panicked.
        entry.outcome.await.unwrap_or(Err(ProviderError::Stopped))
    }
}

impl IpProvider for Paced {
    fn assign<'a>(&'a self, node: &'a str, ip: IpAddr) -> Answer<'a> {
        Box::pin(self.order(Func::Assign, node, ip))
    }

    fn unassign<'a>(&'a self, node: &'a str, ip: IpAddr) -> Answer<'a> {
        Box::pin(self.order(Func::Unassign, node, ip))
    }
}

/// Empties one lane.
async fn work(shared: Arc<Shared>, ip: IpAddr) {
    let _guard = LaneGuard {
        shared: &shared,
        ip,
    };
    loop {
        let head = shared.lanes().head(ip);
        let Some(order) = head else { return };
        if let Some(outcome) = shared.carry_out(ip, &order).await {
            shared.lanes().finish_head(ip, &outcome);
        }
    }
}

impl Shared {
    /// The outcome of the order at the head, or `None` if it was dropped there
    /// because nobody wants it any more.
    async fn carry_out(&self, ip: IpAddr, order: &Order) -> Option<Outcome> {
        let mut failed = 0;
        loop {
            let outcome = {
                let _slot = self
                    .slots
                    .acquire()
                    .await
                    .expect("the semaphore is never closed");
                if self.lanes().drop_unwanted_head(ip) {
                    return None;
                }
                self.call(ip, order, failed).await
            };
            let (error, pause) = match outcome {
                Ok(()) => return Some(Ok(())),
                Err((error, None)) => return Some(Err(error)),
                Err((error, Some(pause))) => (error, pause),
            };
            failed += 1;
            sleep(pause).await;
            if self.lanes().head_is_outdated(ip) {
                return Some(Err(error));
            }
        }
    }

    /// One call. An error comes with the pause before the next try, if any.
    async fn call(
        &self,
        ip: IpAddr,
        order: &Order,
        failed_before: u32,
    ) -> Result<(), (ProviderError, Option<Duration>)> {
        let started = Instant::now();
        let result = self.provider.call(order.func, &order.node, ip).await;
        let took = started.elapsed();
        let retry_in = result
            .as_ref()
            .err()
            .filter(|error| error.is_transient())
            .and_then(|_| self.backoff.pause(failed_before + 1));
        self.observer.called(&Call {
            func: order.func,
            node: &order.node,
            ip,
            took,
            result: result.as_ref().map(|&()| ()),
            retry_in,
        });
        result.map_err(|error| (error, retry_in))
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // No call in between leaves the lanes half changed.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lane whose worker panicked must not keep others waiting for ever.
struct LaneGuard<'a> {
    shared: &'a Shared,
    ip: IpAddr,
}

impl Drop for LaneGuard<'_> {
    fn drop(&mut self) {
        // After a usual end the lane is gone, or it is a new one already.
        if std::thread::panicking() {
            self.shared.lanes().abandon(self.ip);
        }
    }
}
