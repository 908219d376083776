//! What this process knows of the cluster: one owner of the mutable state, fed
//! by watches.
//!
//! - [`books`]: records, pools and the configuration, always consistent.
//! - [`named`]: which addresses the pods of a name have.
//! - [`order`]: which of two statements about an object is the newer one.
//! - [`feed`](mod@feed): the watches that keep the books current.
//! - [`rewind`]: what happens when the API server goes back in time.
//!
//! Readers and writers see the books inside of a closure, so no guard of the
//! lock can live across an await.

use std::sync::{Arc, Mutex, PoisonError};

pub use floe_shell::Seen;
use serde::Serialize;
use tokio::sync::{broadcast, watch};

pub use self::{
    books::{Books, Changed, EVERYWHERE, News, UNREADABLE_RECORD},
    feed::{Feeds, feed},
    order::{Order, Stamp},
};

mod books;
mod feed;
mod named;
mod order;
pub mod rewind;

/// Shared access to the books.
#[derive(Clone, Debug)]
pub struct Store {
    books: Arc<Mutex<Books>>,
    warmth: Arc<watch::Sender<Warmth>>,
    news: broadcast::Sender<News>,
    rewinds: Arc<watch::Sender<u64>>,
}

/// Why nothing is handed out while [`Books::serves`] says no, in words for people.
pub const NOT_READY: &str = "running pods come first, and not all of them were looked at yet";

/// How many news a reader may lag behind.
const NEWS: usize = 4096;

impl Default for Store {
    fn default() -> Self {
        let news = broadcast::Sender::new(NEWS);
        Self {
            books: Arc::new(Mutex::new(Books::telling(news.clone()))),
            warmth: Arc::default(),
            news,
            rewinds: Arc::default(),
        }
    }
}

/// Which of the first lists are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each list is in or not, whatever the others are"
)]
pub struct Warmth {
    /// All records of addresses.
    pub records: bool,
    /// All pools.
    pub pools: bool,
    /// The look for an address configuration; not that there is one.
    pub configuration: bool,
    /// All pods.
    pub pods: bool,
    /// All nodes.
    pub nodes: bool,
    /// All Deployments, `ReplicaSets` and `StatefulSets`.
    pub workloads: bool,
}

impl Warmth {
    /// Whether all of them are in.
    pub fn is_warm(self) -> bool {
        self.missing().is_empty()
    }

    /// What is not in yet, in words for people.
    pub fn missing(self) -> Vec<&'static str> {
        let all = [
            (self.records, "FloatingIP records"),
            (self.pools, "Pools"),
            (self.configuration, "the address configuration"),
            (self.pods, "Pods"),
            (self.nodes, "Nodes"),
            (self.workloads, "workloads"),
        ];
        let missing = all.into_iter().filter(|(known, _)| !known);
        missing.map(|(_, name)| name).collect()
    }
}

impl Store {
    /// Looks at the books.
    pub fn read<R>(&self, look: impl FnOnce(&Books) -> R) -> R {
        self.change(|books| look(books))
    }

    /// Changes the books.
    pub fn change<R>(&self, change: impl FnOnce(&mut Books) -> R) -> R {
        // A panic in any task ends the process; until then the books are as
        // good for the others as they were.
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut books)
    }

    /// Where it is told what changes in the books from now on. Whoever lags behind
    /// misses some, learns that, and looks at everything.
    pub fn news(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }

    /// Where others learn which lists are in.
    pub fn warmth(&self) -> watch::Receiver<Warmth> {
        self.warmth.subscribe()
    }

    /// Waits until addresses may be handed out, see [`Books::serves`].
    pub async fn until_it_serves(&self) {
        let mut serving = self.read(Books::serving);
        // An error means that the books are gone, and this store has them.
        let _ = serving.wait_for(|serves| *serves).await;
    }

    /// Where others learn that the API server has gone back in time.
    pub fn rewinds(&self) -> watch::Receiver<u64> {
        self.rewinds.subscribe()
    }

    /// Notes that the API server has gone back in time.
    pub fn rewound(&self) {
        self.rewinds.send_modify(|count| *count += 1);
    }

    /// Notes that a list is in.
    pub fn warm(&self, note: impl FnOnce(&mut Warmth)) {
        self.warmth.send_if_modified(|warmth| {
            let before = *warmth;
            note(warmth);
            *warmth != before
        });
    }
}
