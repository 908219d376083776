//! Something that all callers share, and of which each may have a part only.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So much for all, and so much for each.
#[derive(Clone)]
pub struct Shares {
    all: Arc<Semaphore>,
    each: usize,
    /// What those have left who have something now.
    left: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
}

/// What somebody has, until it is dropped.
pub struct Share {
    places: Vec<Arc<Semaphore>>,
    /// Of each place.
    permits: Vec<OwnedSemaphorePermit>,
}

impl Shares {
    /// So much for all, and so much for each.
    pub fn new(all: usize, each: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            each,
            left: Arc::default(),
        }
    }

    /// Nothing yet, for this caller. Who has no name is limited by what is there for all.
    pub fn of(&self, caller: Option<&str>) -> Share {
        let mut places = vec![Arc::clone(&self.all)];
        if let Some(caller) = caller {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            // Those of callers who have nothing any more.
            left.retain(|_, share| Arc::strong_count(share) > 1);
            let share = left.entry(caller.to_owned());
            let share = share.or_insert_with(|| Arc::new(Semaphore::new(self.each)));
            places.push(Arc::clone(share));
        }
        Share {
            places,
            permits: Vec::new(),
        }
    }
}

impl Share {
    /// Takes what lacks to have so much; `None` if there is not so much left.
    pub fn up_to(&mut self, amount: usize) -> Option<()> {
        for (index, place) in self.places.iter().enumerate() {
            let had = self
                .permits
                .get(index)
                .map_or(0, OwnedSemaphorePermit::num_permits);
            let more = u32::try_from(amount.saturating_sub(had)).ok()?;
            let more = Arc::clone(place).try_acquire_many_owned(more).ok()?;
            match self.permits.get_mut(index) {
                Some(held) => held.merge(more),
                None => self.permits.push(more),
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_his_part_and_all_together_no_more_than_there_is() {
        let shares = Shares::new(10, 4);
        let mut ada = shares.of(Some("ada"));
        assert!(ada.up_to(3).is_some() && ada.up_to(4).is_some());
        let mut more = shares.of(Some("ada"));
        assert!(more.up_to(1).is_none(), "she has all of her part");
        drop(more);
        let mut bob = shares.of(Some("bob"));
        assert!(bob.up_to(4).is_some());
        let mut eve = shares.of(Some("eve"));
        assert!(eve.up_to(3).is_none(), "two are left");
        let mut nobody = shares.of(None);
        assert!(nobody.up_to(2).is_some());
        drop(ada);
        assert!(nobody.up_to(6).is_some());
        drop((bob, eve, nobody));
        assert!(shares.of(Some("ada")).up_to(4).is_some());
        assert_eq!(shares.left.lock().unwrap().len(), 1, "others are forgotten");
    }
}
