//! The labels and annotations of records: those of addresses that are in no entry of the configuration
//! are marked as such, and those that are bound for a node name it, so that each
//! node can watch its own. The annotations are what `kubectl get` shows. Records that galaxy
//! wrote, and reservations made with `kubectl apply`, have none of these. Nor do they say which
//! network their pod was given; the one of the configuration in force is added then.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use floe_core::ipam::ledger::Record;
use floe_shell::stop::Stop;
use futures::{StreamExt as _, stream};
use tokio::{
    sync::{
        broadcast::{self, error::TryRecvError},
        watch,
    },
    task::yield_now,
    time::{Instant, timeout_at},
};
use tracing::{debug, info, warn};

use crate::{
    duty::Duty,
    leader::Standing,
    records::{Records, WriteError},
    store::{Books, News, Store},
};

/// How many records are written at a time.
const PARALLEL: usize = 8;

/// How many records are looked at before others get their turn at the books.
const PIECE: usize = 512;

/// The time to the next look at all records. What is wrong with a mark is told, unless
/// somebody has taken it off; and a look at very many records is felt by others.
const PACE: Duration = Duration::from_mins(5);

/// The same after something was not written.
const SOON: Duration = Duration::from_secs(30);

/// Keeps marks true.
pub struct Marker {
    /// The books.
    pub store: Store,
    /// Writes of records.
    pub records: Records,
    /// Whether this process leads; only a leader acts.
    pub standing: watch::Receiver<Standing>,
}

impl Marker {
    /// Keeps marks true until `stop`.
    pub async fn run(self, stop: Stop) {
        let duty = Duty::new(self.standing.clone(), self.store.warmth());
        duty.each_term(stop, || self.act(), || ()).await;
    }

    async fn act(&self) {
        let mut news = self.store.news();
        let mut look = Look::All;
        let mut again = Instant::now();
        loop {
            let wrong = match look {
                Look::All => {
                    again = Instant::now() + PACE;
                    self.all_wrong().await
                }
                Look::At(addresses) => self.store.read(|books| {
                    let records = addresses.iter().filter_map(|ip| books.ledger().record(*ip));
                    wrong(books, records)
                }),
            };
            if !self.correct(wrong).await {
                again = again.min(Instant::now() + SOON);
            }
            look = wait(&mut news, again).await;
        }
    }

    async fn all_wrong(&self) -> Vec<(Record, bool)> {
        let mut result = Vec::new();
        let mut last = None;
        loop {
            let (piece, end) = self.store.read(|books| {
                let records = || books.ledger().records_after(last, PIECE);
                (wrong(books, records()), records().last().map(|it| it.ip))
            });
            result.extend(piece);
            if end.is_none() {
                return result;
            }
            last = end;
            yield_now().await;
        }
    }

    /// Writes what is right; whether all of it was written.
    async fn correct(&self, wrong: Vec<(Record, bool)>) -> bool {
        if wrong.is_empty() {
            return true;
        }
        info!(records = wrong.len(), "making labels of records true");
        let writes = wrong.into_iter().map(|(record, outside)| async move {
            let written = self.records.mark(&record, outside).await;
            (record.ip, written)
        });
        let results: Vec<_> = stream::iter(writes)
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        let mut failed = results
            .into_iter()
            .filter_map(|(ip, written)| Some((ip, written.err()?)));
        // Whoever was faster has told so, and what failed is tried at the next look.
        let first = failed.find(|(_, error)| !matches!(error, WriteError::Conflict { .. }));
        if let Some((ip, error)) = first {
            let others = failed.count();
            warn!(reason = error.reason(), %ip, others, %error, "record is not marked yet");
            return false;
        }
        debug!("marks are true");
        true
    }
}

/// What to look at.
enum Look {
    All,
    At(BTreeSet<IpAddr>),
}

/// The records whose labels are wrong, and whether each is outside of the
/// configuration. While nothing at all is configured nobody can tell, and it stays
/// as it is marked.
fn wrong<'a>(books: &Books, records: impl Iterator<Item = &'a Record>) -> Vec<(Record, bool)> {
    let ledger = books.ledger();
    let configured = !ledger.topology().config().entries().is_empty();
    let mut wrong = Vec::new();
    for record in records {
        let marked = books.is_marked(record.ip);
        let outside = if configured {
            ledger.is_outside_for(&record.key, record.ip)
        } else {
            marked
        };
        // An address outside has no network that could be told.
        let untold = configured && !outside && books.is_bare(record.ip);
        let is_stale = books.is_misplaced(record.ip) || books.is_unshown(record.ip);
        if marked != outside || is_stale || untold {
            wrong.push((record.clone(), outside));
        }
    }
    wrong
}

/// Waits until then for something that can matter, and takes all that came with it.
async fn wait(news: &mut broadcast::Receiver<News>, end: Instant) -> Look {
    let mut changed = BTreeSet::new();
    loop {
        let told = if changed.is_empty() {
            match timeout_at(end, news.recv()).await {
                Ok(Ok(told)) => told,
                // The time is over, or some were missed.
                Ok(Err(_)) | Err(_) => return Look::All,
            }
        } else {
            match news.try_recv() {
                Ok(told) => told,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Look::At(changed),
                Err(TryRecvError::Lagged(_)) => return Look::All,
            }
        };
        match told {
            News::Changed(ip) => {
                changed.insert(ip);
            }
            News::Configured | News::Relisted => return Look::All,
            News::Freed(_) | News::Pool(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
