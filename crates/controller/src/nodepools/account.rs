//! An account at a cloud: all pools that use it share one list, and keep still together
//! when the cloud says so.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use floe_core::nodepool::{
    cloud::{Class, Listing, Refusal, Taken},
    records::family_of,
};
use floe_providers::floating::FloatingIps;
use tokio::{
    sync::{Semaphore, watch},
    task::AbortHandle,
    time::{Instant, sleep_until, timeout},
};

use self::seats::Seats;
use super::objects::Id;
use crate::metrics::NodePools;

mod seats;

/// The least time between the beginnings of two lists.
const BETWEEN_LISTS: Duration = Duration::from_secs(1);

/// How old a list may be that somebody else has asked for. Machines ask once a minute when
/// nothing happens, so that all pools of an account share one list a minute.
const SHARED: Duration = Duration::from_secs(50);

/// How many calls are under way at once.
const AT_ONCE: usize = 8;

/// Every client ends its calls sooner; this is for one that does not.
const PATIENCE: Duration = Duration::from_mins(2);

/// How long to keep still when a cloud does not say it.
const STILL: Duration = Duration::from_secs(1);

/// A list of the account.
#[derive(Clone, Debug)]
pub struct Heard {
    /// When it was asked for: what was done later is not in it.
    pub begun: Instant,
    /// The addresses.
    pub all: Arc<Listing>,
}

/// On whose behalf a call is made, for metrics.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The kind of the object.
    pub kind: &'static str,
    /// The object.
    pub id: Id,
}

/// The providers that are in use, by their names.
#[derive(Clone)]
pub struct Accounts {
    metrics: NodePools,
    used: Arc<Mutex<Used>>,
}

#[derive(Default)]
struct Used {
    paces: BTreeMap<String, Arc<Pace>>,
    accounts: BTreeMap<String, Arc<Account>>,
}

impl Accounts {
    /// None is in use yet.
    pub fn new(metrics: NodePools) -> Self {
        Self {
            metrics,
            used: Arc::default(),
        }
    }

    /// The account of a provider.
    pub fn of(&self, name: &str, ips: &Arc<dyn FloatingIps>) -> Arc<Account> {
        let pace = self.pace(name);
        let mut used = lock(&self.used);
        let make = || Account::start(pace, Arc::clone(ips));
        let account = used.accounts.entry(name.to_owned());
        Arc::clone(account.or_insert_with(make))
    }

    /// The pace of a provider, whether it has addresses, zones or both.
    pub fn pace(&self, name: &str) -> Arc<Pace> {
        let mut used = lock(&self.used);
        let make = || {
            Arc::new(Pace {
                name: name.to_owned(),
                metrics: self.metrics.clone(),
                permits: Semaphore::new(AT_ONCE),
                still_until: Mutex::default(),
            })
        };
        Arc::clone(used.paces.entry(name.to_owned()).or_insert_with(make))
    }
}

/// How fast a provider may be called.
pub struct Pace {
    name: String,
    metrics: NodePools,
    permits: Semaphore,
    /// Nobody calls before this.
    still_until: Mutex<Option<Instant>>,
}

impl Pace {
    /// Makes a call, if the provider has not asked to keep still.
    pub async fn call<T>(
        &self,
        func: &'static str,
        caller: Option<&Caller>,
        call: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        let still = lock(&self.still_until).map(|until| until.duration_since(Instant::now()));
        if let Some(wait) = still.filter(|wait| !wait.is_zero()) {
            let message = format!(
                "the provider has asked to wait for {} s",
                wait.as_secs() + 1
            );
            return Err(Refusal::new(Class::RateLimited, message).after(Some(wait)));
        }
        let start = Instant::now();
        let silent = || Refusal::new(Class::Unclear, "no answer from the provider's client");
        let outcome = timeout(PATIENCE, call).await;
        let outcome = outcome.unwrap_or_else(|_| Err(silent()));
        if let Err(refusal) = &outcome
            && refusal.class == Class::RateLimited
        {
            let until = Instant::now() + refusal.retry_after.unwrap_or(STILL);
            *lock(&self.still_until) = Some(until);
        }
        let took = start.elapsed();
        self.metrics
            .called(&self.name, func, caller, outcome.is_ok(), took);
        outcome
    }
}

/// An account at a cloud.
pub struct Account {
    desk: Arc<Desk>,
    task: AbortHandle,
}

impl Drop for Account {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Desk {
    pace: Arc<Pace>,
    ips: Arc<dyn FloatingIps>,
    /// How many lists have begun, and when the last one did.
    begun: Mutex<(u64, Option<Instant>)>,
    /// The number of the list that somebody waits for. One that has begun is not asked for
    /// again, however many have asked.
    asked: watch::Sender<u64>,
    /// The number of the last list, and what came of it.
    answers: watch::Sender<(u64, Option<Result<Heard, Refusal>>)>,
    /// Who may give an address to which server.
    seats: Seats,
}

impl Account {
    fn start(pace: Arc<Pace>, ips: Arc<dyn FloatingIps>) -> Arc<Self> {
        let desk = Arc::new(Desk {
            pace,
            ips,
            begun: Mutex::default(),
            asked: watch::Sender::new(0),
            answers: watch::Sender::new((0, None)),
            seats: Seats::default(),
        });
        let lister = Arc::clone(&desk);
        let task = tokio::spawn(async move { lister.list_when_asked().await });
        Arc::new(Self {
            desk,
            task: task.abort_handle(),
        })
    }

    /// The cloud.
    pub fn ips(&self) -> &Arc<dyn FloatingIps> {
        &self.desk.ips
    }

    /// A list that began after that moment. The last one will do if it is not old, and one
    /// that is under way, so that all who ask about as often share them.
    pub async fn list(&self, since: Instant) -> Result<Heard, Refusal> {
        let mut answers = self.desk.answers.subscribe();
        if let Some(Ok(heard)) = &answers.borrow_and_update().1
            && heard.begun > since
            && heard.begun.elapsed() < SHARED
        {
            return Ok(heard.clone());
        }
        let (number, at) = *lock(&self.desk.begun);
        let is_under_way = number > answers.borrow_and_update().0;
        let wanted = if is_under_way && at.is_some_and(|at| at > since) {
            number
        } else {
            self.desk.ask(number + 1);
            number + 1
        };
        let found = answers.wait_for(|(number, _)| *number >= wanted).await;
        let gone = || Refusal::new(Class::Unavailable, "the account is no longer in use");
        match found {
            Ok(answer) => answer.1.clone().unwrap_or_else(|| Err(gone())),
            Err(_) => Err(gone()),
        }
    }

    /// Puts an address on a server. Where a second one would push the first off without a
    /// word, pools take turns at a server.
    pub async fn assign(
        &self,
        caller: &Caller,
        ip: IpAddr,
        server: &str,
    ) -> Result<Taken, Refusal> {
        let assign = self.desk.ips.assign(ip, server);
        if !self.desk.ips.capabilities().displaces {
            return self.call("AssignIP", caller, assign).await;
        }
        let seat = (server.to_owned(), family_of(ip));
        // Whoever is dropped in the middle does not know whether it was given.
        let taken = self.desk.seats.take(&seat, &caller.id)?;
        let outcome = self.call("AssignIP", caller, assign).await;
        if matches!(&outcome, Err(it) if it.class != Class::Unclear) {
            taken.nothing_was_given();
        }
        outcome
    }

    /// Makes a call, if the cloud has not asked to keep still.
    pub async fn call<T>(
        &self,
        func: &'static str,
        caller: &Caller,
        call: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        self.desk.pace.call(func, Some(caller), call).await
    }
}

impl Desk {
    fn ask(&self, number: u64) {
        self.asked.send_if_modified(|asked| {
            let is_new = *asked < number;
            *asked = number.max(*asked);
            is_new
        });
    }

    async fn list_when_asked(&self) {
        let mut asked = self.asked.subscribe();
        let mut last: Option<Instant> = None;
        loop {
            let begun = lock(&self.begun).0;
            if asked.wait_for(|number| *number > begun).await.is_err() {
                return;
            }
            if let Some(last) = last {
                sleep_until(last + BETWEEN_LISTS).await;
            }
            let begun = Instant::now();
            last = Some(begun);
            let number = {
                let mut last = lock(&self.begun);
                *last = (last.0 + 1, Some(begun));
                last.0
            };
            let listed = self.pace.call("ListIPs", None, self.ips.list()).await;
            let answer = listed.map(|all| Heard {
                begun,
                all: Arc::new(all.into_iter().collect()),
            });
            self.answers.send_replace((number, Some(answer)));
        }
    }
}

/// Nobody holds it across an await, so nobody can have left it half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{
        super::fakes::{FakeCloud, Fault, unavailable},
        *,
    };
    use crate::metrics::Metrics;

    #[tokio::test(start_paused = true)]
    async fn where_addresses_push_each_other_off_pools_take_turns_at_a_server() {
        let cloud = FakeCloud::default();
        cloud.lock().capabilities.displaces = true;
        cloud.lock().capabilities.per_server = None;
        for ip in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
            cloud.has(ip, None);
        }
        let ips: Arc<dyn FloatingIps> = Arc::new(cloud.clone());
        let accounts = Accounts::new(Metrics::default().node_pools().clone());
        let account = accounts.of("fake", &ips);
        let assign = async |name: &str, ip: &str| {
            let caller = Caller {
                kind: "FloatingIPPool",
                id: Id {
                    namespace: "ns".into(),
                    name: name.into(),
                },
            };
            let ip = ip.parse().expect("an address");
            let outcome = account.assign(&caller, ip, "fake://n1").await;
            outcome.map_err(|refusal| refusal.class)
        };
        // One that was refused has given nothing.
        cloud.fault("assign", Fault::Refuse(unavailable()));
        assert_eq!(assign("a", "10.0.0.1").await, Err(Class::Unavailable));
        assert_eq!(assign("b", "10.0.0.2").await, Ok(Taken::Done));
        cloud.fault("assign", Fault::Refuse(unavailable()));
        assert_eq!(assign("b", "10.0.0.3").await, Err(Class::Unavailable));
        assert_eq!(assign("a", "10.0.0.1").await, Err(Class::ServerTaken));
    }
}
