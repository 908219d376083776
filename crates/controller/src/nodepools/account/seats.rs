//! Who may give an address to which server, where addresses push each other off.
//!
//! Machines go by lists of the last seconds, and a cloud may take a while to list what it has
//! done. So a server to which a pool gives an address is that pool's for a while.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use floe_core::{
    ipam::families::Family,
    nodepool::cloud::{Class, Refusal},
};
use tokio::time::Instant;

use super::Id;

/// How long a server that was given an address belongs to that pool.
const SEATED: Duration = Duration::from_secs(30);

/// A server, and the family of the address.
pub type Seat = (String, Family);

/// All that are taken.
#[derive(Default)]
pub struct Seats(Mutex<BTreeMap<Seat, Sitter>>);

struct Sitter {
    pool: Id,
    /// How many orders are under way.
    orders: usize,
    /// Until when nobody else may, for what was given before.
    until: Option<Instant>,
}

impl Sitter {
    fn stays(&self, now: Instant) -> bool {
        self.orders > 0 || self.until.is_some_and(|until| until > now)
    }
}

/// An order of a pool for a seat. It has given something when it ends, unless somebody
/// knows better.
pub struct Taken<'a> {
    seats: &'a Seats,
    seat: Seat,
    gave: bool,
}

impl Seats {
    /// Takes a seat for an order.
    ///
    /// # Errors
    /// When it is another pool's.
    pub fn take(&self, seat: &Seat, pool: &Id) -> Result<Taken<'_>, Refusal> {
        let now = Instant::now();
        let mut seats = self.lock();
        seats.retain(|_, it| it.stays(now));
        let sitter = seats.entry(seat.clone()).or_insert_with(|| Sitter {
            pool: pool.clone(),
            orders: 0,
            until: None,
        });
        if sitter.pool != *pool {
            let Id { namespace, name } = &sitter.pool;
            let words = format!("FloatingIPPool {namespace}/{name} gives it another address");
            return Err(Refusal::new(Class::ServerTaken, words));
        }
        sitter.orders += 1;
        Ok(Taken {
            seats: self,
            seat: seat.clone(),
            gave: true,
        })
    }

    /// Nobody holds it across an await, so nobody can have left it half written.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Seat, Sitter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken<'_> {
    /// It was refused: the seat is as it was before.
    pub fn nothing_was_given(mut self) {
        self.gave = false;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut seats = self.seats.lock();
        if let Some(sitter) = seats.get_mut(&self.seat) {
            sitter.orders -= 1;
            if self.gave {
                sitter.until = Some(Instant::now() + SEATED);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str) -> Id {
        Id {
            namespace: "ns".into(),
            name: name.into(),
        }
    }

    fn seat() -> Seat {
        ("fake://n1".to_owned(), Family::V4)
    }

    /// Whether the pool gets it, and gives nothing.
    fn may(seats: &Seats, name: &str) -> bool {
        let taken = seats.take(&seat(), &pool(name));
        taken.map(Taken::nothing_was_given).is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_takes_nobody_off_a_seat_that_an_earlier_gift_has_taken() {
        let seats = Seats::default();
        assert!(may(&seats, "a"), "it has given nothing");
        drop(seats.take(&seat(), &pool("b")).expect("it is free"));
        assert!(may(&seats, "b"));
        assert!(!may(&seats, "a"), "b has given it an address");
        let other = ("fake://n1".to_owned(), Family::V6);
        assert!(seats.take(&other, &pool("a")).is_ok(), "another family");
        tokio::time::sleep(SEATED).await;
        assert!(may(&seats, "a"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_under_way_keeps_it_whatever_becomes_of_another_one() {
        let seats = Seats::default();
        let long = seats.take(&seat(), &pool("a")).expect("it is free");
        tokio::time::sleep(SEATED * 9).await;
        assert!(may(&seats, "a"));
        assert!(!may(&seats, "b"), "the first one is not over");
        long.nothing_was_given();
        assert!(may(&seats, "b"));
    }
}
