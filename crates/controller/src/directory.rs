//! Lists and searches of all addresses, beside the books so that a long search never
//! holds up a decision.

use std::{
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

use floe_core::{
    catalogue::{Catalogue, Item, Page, Query},
    config::AddressConfig,
    ipam::ledger::Record,
};

use crate::store::{Books, Changed, Store};

/// All addresses with their holders. It is built when it is first asked for, and
/// what it answers is as new as the books.
///
/// It is the one reader of the books' changes: of one store there is one directory,
/// and its clones.
#[derive(Clone, Debug)]
pub struct Directory {
    store: Store,
    catalogue: Arc<RwLock<Catalogue>>,
}

/// How many records are copied while the books are locked.
const PIECE: usize = 1024;

/// What the books say by now about what has changed in them.
struct Update {
    config: Option<AddressConfig>,
    records: Copied,
}

/// The copies of records.
enum Copied {
    These(Vec<(IpAddr, Option<Record>)>),
    /// There are too many to copy all at once.
    All,
}

impl Directory {
    /// The directory of these books.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            catalogue: Arc::default(),
        }
    }

    /// Some addresses of a list.
    pub fn page(&self, query: &Query) -> Page {
        self.look(|catalogue| catalogue.page(query))
    }

    /// One address, if it has a record or is in the configuration.
    pub fn get(&self, ip: IpAddr) -> Option<Item> {
        self.look(|catalogue| catalogue.get(ip))
    }

    /// Looks at all addresses. Nobody else is told of a change meanwhile, so a look is
    /// short.
    pub fn look<R>(&self, look: impl FnOnce(&Catalogue) -> R) -> R {
        self.catch_up();
        // A panic in any task ends the process.
        look(
            &self
                .catalogue
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Makes the catalogue as new as the books are now. Changes are taken only by
    /// whoever has the catalogue to itself: so if there are none to take, the last
    /// ones are in it before anybody else can look.
    fn catch_up(&self) {
        if !self.store.read(Books::has_changes) {
            return;
        }
        let mut catalogue = (self.catalogue.write()).unwrap_or_else(PoisonError::into_inner);
        loop {
            let update = self.store.change(Update::take);
            if let Some(config) = update.config {
                catalogue.configure(config);
            }
            match update.records {
                Copied::These(records) => {
                    let records: Vec<_> = (records.iter())
                        .map(|(ip, record)| (*ip, record.as_ref()))
                        .collect();
                    catalogue.update(&records);
                    return;
                }
                // What changes meanwhile is among the next changes.
                Copied::All => catalogue.replace(self.all().iter()),
            }
        }
    }

    /// All records, copied in pieces so that nobody waits long for the books.
    fn all(&self) -> Vec<Record> {
        let mut all: Vec<Record> = Vec::new();
        loop {
            let last = all.last().map(|record| record.ip);
            let piece: Vec<Record> = self.store.read(|books| {
                let records = books.ledger().records_after(last, PIECE);
                records.cloned().collect()
            });
            let is_last = piece.len() < PIECE;
            all.extend(piece);
            if is_last {
                return all;
            }
        }
    }
}

impl Update {
    fn take(books: &mut Books) -> Self {
        let changes = books.take_changes();
        let ledger = books.ledger();
        let config = changes.configuration.then(|| ledger.topology().config());
        Self {
            config: config.cloned(),
            records: match changes.records {
                Changed::All => Copied::All,
                Changed::These(addresses) => {
                    let addresses = addresses.into_iter();
                    Copied::These(
                        addresses
                            .map(|ip| (ip, ledger.record(ip).cloned()))
                            .collect(),
                    )
                }
            },
        }
    }
}

#[cfg(test)]
mod tests;
