//! The part that makes the kernel serve what the keeper says: one task that does the last
//! order, tells when it is done, and looks now and then whether it still is.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use floe_core::{
    lease::Moment,
    vip::{VipId, keeper::Role},
};
use tokio::{
    sync::{mpsc, watch},
    task::spawn_blocking,
    time::{Instant, sleep_until},
};
use tracing::{debug, info, warn};

use super::{
    clock::Clock,
    plan::{Finding, Order, Trouble, Unreachable},
};
use ills::{Ill, Ills, Told};

pub use kernel::Kernel;
pub use renewal::Renewal;

mod direct;
mod host;
mod ills;
mod kernel;
mod renewal;

/// The time between two looks while something is served, and while nothing is.
const LOOK: Duration = Duration::from_secs(2);
const LOOK_IDLY: Duration = Duration::from_secs(30);

/// How long no order must have come before what can wait is done: longer than the steps of
/// a move are apart, shorter than renewals.
const QUIET: Duration = Duration::from_millis(400);

/// The pause before what failed is tried again.
const AGAIN: Duration = Duration::from_millis(300);

/// What has come of an order.
pub type Findings = BTreeMap<VipId, Finding>;

/// Whatever serves addresses. Tests have their own.
pub trait Plane: Send + 'static {
    /// Serves exactly this.
    ///
    /// # Guarantees
    /// When it succeeds the kernel has all of it. When it fails, the kernel serves nothing
    /// for longer than it did before.
    fn serve(
        &mut self,
        order: Arc<Order>,
    ) -> impl Future<Output = Result<Findings, PlaneError>> + Send;

    /// Does what comes after serving, unless the next order waits already, with which it is
    /// done, too: the kernel reads a long list for it.
    fn conclude(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Does what can wait until no more orders come for a moment.
    fn settle(&mut self) -> impl Future<Output = Result<(), PlaneError>> + Send {
        std::future::ready(Ok(()))
    }

    /// What renews the deadline beside everything else; `None` if orders alone do.
    fn renewal(&self) -> Option<Renewal> {
        None
    }

    /// Looks whether the last order is still served, and mends what it can.
    fn check(&mut self) -> impl Future<Output = Result<Findings, PlaneError>> + Send;
}

/// Why an order could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PlaneError {
    /// The stable reason.
    pub reason: &'static str,
    /// What happened.
    pub text: String,
}

/// What the plane tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The kernel has the order of this number.
    Served {
        /// Of the serving.
        number: u64,
        /// What was found.
        findings: Findings,
    },
    /// An object cannot be served.
    Unable {
        /// Which.
        id: VipId,
        /// Why.
        trouble: Trouble,
    },
    /// An object is not reached from outside here, though it should be.
    Unreachable {
        /// Which.
        id: VipId,
        /// Why.
        why: Unreachable,
        /// Whether this was not told before.
        is_new: bool,
    },
}

/// The end that gives orders. Only the last one counts.
pub type Orders = watch::Sender<Option<Arc<Order>>>;

/// Does orders until there is nobody to give them.
pub async fn work(
    plane: impl Plane,
    orders: watch::Receiver<Option<Arc<Order>>>,
    news: mpsc::Sender<News>,
    clock: Clock,
) {
    let renewing = renew(plane.renewal(), orders.clone());
    tokio::select! {
        () = serve(plane, orders, news, clock) => {}
        () = renewing => {}
    }
}

/// Renews with each order as far as that is allowed.
async fn renew(renewal: Option<Renewal>, mut orders: watch::Receiver<Option<Arc<Order>>>) {
    let Some(renewal) = renewal else {
        return std::future::pending().await;
    };
    while orders.changed().await.is_ok() {
        let Some(order) = orders.borrow_and_update().clone() else {
            continue;
        };
        let renewal = renewal.clone();
        let renewed = spawn_blocking(move || renewal.renew(&order)).await;
        if let Err(error) = renewed {
            // A panic goes on in the task that waits for the work.
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

async fn serve(
    mut plane: impl Plane,
    mut orders: watch::Receiver<Option<Arc<Order>>>,
    news: mpsc::Sender<News>,
    clock: Clock,
) {
    let mut ills = Ills::default();
    // The last deadline that the kernel may have been told.
    let mut granted: Option<Moment> = None;
    let mut failed: Option<&'static str> = None;
    let mut next: Option<Instant> = None;
    let mut quiet: Option<Instant> = None;
    let renewal = plane.renewal();
    // The last order that was given to the plane. A look must not count as the service of an
    // order that came a moment later.
    let mut current: Option<Arc<Order>> = None;
    loop {
        let is_new = tokio::select! {
            biased;
            changed = orders.changed() => match changed {
                Ok(()) => true,
                Err(_) => return,
            },
            () = pause(quiet) => {
                quiet = None;
                if let Err(error) = plane.settle().await {
                    let reason = error.reason;
                    debug!(reason, %error, "what the kernel has is not noted");
                }
                continue;
            }
            () = pause(next) => failed.is_some(),
        };
        if is_new {
            current.clone_from(&orders.borrow_and_update());
        }
        let Some(order) = current.clone() else {
            continue;
        };
        granted = granted.max(order.serving.deadline);
        let begun = Instant::now();
        let done = if is_new {
            plane.serve(Arc::clone(&order)).await
        } else {
            plane.check().await
        };
        let is_serving = order.serving.deadline.is_some();
        let look = if is_serving { LOOK } else { LOOK_IDLY };
        match done {
            Ok(findings) => {
                if failed.take().is_some() {
                    info!("shared addresses are in the kernel again");
                }
                // Renewals come more often than looks; they must not put them off.
                let ended = Instant::now();
                // What could not be ended keeps its object waiting.
                let lingers = findings.values().any(|it| it.lingers);
                let due = ended + if lingers { AGAIN } else { look };
                quiet = Some(ended + QUIET);
                let (number, took) = (order.serving.number, ended - begun);
                debug!(number, ?took, is_new, "the kernel has it");
                next = Some(next.filter(|it| is_new && *it <= due).unwrap_or(due));
                for told in ills.judge(&findings, &order, !is_new) {
                    if news.send(report(told)).await.is_err() {
                        return;
                    }
                }
                let number = order.serving.number;
                if news.send(News::Served { number, findings }).await.is_err() {
                    return;
                }
                if orders.has_changed().is_ok_and(|it| !it) {
                    plane.conclude().await;
                }
            }
            Err(error) => {
                if failed.replace(error.reason) != Some(error.reason) {
                    let reason = error.reason;
                    warn!(reason, %error, "shared addresses are not as they should be");
                }
                next = Some(Instant::now() + AGAIN);
                for id in ills.fail(&order) {
                    let trouble = Trouble::RulesMissing(error.text.clone());
                    if news.send(News::Unable { id, trouble }).await.is_err() {
                        return;
                    }
                }
                if order.serving.roles.keys().any(|id| is_ours(&order, id)) {
                    continue;
                }
                // Nothing is to be served. Once renewals have ended, whatever the kernel still has
                // ends with the last deadline.
                if let Some(renewal) = &renewal {
                    renewal.end();
                }
                let renewed = renewal.as_ref().and_then(Renewal::granted).map(Moment);
                if granted.max(renewed).is_none_or(|it| it < clock.now()) {
                    let number = order.serving.number;
                    let findings = Findings::new();
                    if news.send(News::Served { number, findings }).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Logs what is wrong with an object, unless that was logged before; the news of it.
fn report(Told { id, ill, is_new }: Told) -> News {
    let object = id.name.as_str();
    match ill {
        Ill::Unable(trouble) => {
            if is_new {
                let reason = trouble.reason();
                warn!(reason, object, error = %trouble, "cannot serve a shared address");
            }
            News::Unable { id, trouble }
        }
        Ill::Unreachable(why) => {
            if is_new {
                let reason = why.reason();
                warn!(reason, object, error = %why, "a shared address is not reachable here");
            }
            News::Unreachable { id, why, is_new }
        }
    }
}

/// Whether this node holds an object, or is prepared to.
fn is_ours(order: &Order, id: &VipId) -> bool {
    let role = order.serving.roles.get(id).map(|it| &it.role);
    matches!(role, Some(Role::Holder(_) | Role::Prepared(_)))
}

async fn pause(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
