//! The orders that wait, one lane for each address.
//!
//! The order at the head of a lane is the one under way. It stays there until
//! it is answered, so that the same order given again can join it.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
};

use tokio::sync::oneshot;

use crate::port::{Func, ProviderError};

/// The end of an order.
pub type Outcome = Result<(), ProviderError>;

/// What is to be done with the address of the lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub func: Func,
    pub node: String,
}

/// All lanes in which something waits or is under way.
#[derive(Default)]
pub struct Lanes(BTreeMap<IpAddr, VecDeque<Job>>);

struct Job {
    order: Order,
    waiters: Vec<oneshot::Sender<Outcome>>,
}

/// A new end of the lane, and whether the lane itself is new and needs a worker.
pub struct Entry {
    pub outcome: oneshot::Receiver<Outcome>,
    pub lane_is_new: bool,
}

impl Lanes {
    /// Puts an order at the end of the lane of `ip`. If the last one there is
    /// the same, both get its outcome: nothing came between them.
    pub fn enter(&mut self, ip: IpAddr, order: Order) -> Entry {
        let (waiter, outcome) = oneshot::channel();
        let lane = self.0.entry(ip).or_default();
        let lane_is_new = lane.is_empty();
        match lane.back_mut() {
            Some(last) if last.order == order => last.waiters.push(waiter),
            _ => lane.push_back(Job {
                order,
                waiters: vec![waiter],
            }),
        }
        Entry {
            outcome,
            lane_is_new,
        }
    }

    /// The order to carry out now. Without one the lane is gone, and its worker
    /// has to go as well.
    pub fn head(&mut self, ip: IpAddr) -> Option<Order> {
        let order = self
            .0
            .get(&ip)
            .and_then(VecDeque::front)
            .map(|job| job.order.clone());
        if order.is_none() {
            self.0.remove(&ip);
        }
        order
    }

    /// Takes the head away if nobody waits for it any more. Asking and taking
    /// are one step, so that nobody can join in between and get no answer.
    pub fn drop_unwanted_head(&mut self, ip: IpAddr) -> bool {
        let Some(lane) = self.0.get_mut(&ip) else {
            return true;
        };
        let unwanted = lane
            .front()
            .is_none_or(|job| job.waiters.iter().all(oneshot::Sender::is_closed));
        if unwanted {
            lane.pop_front();
        }
        unwanted
    }

    /// Whether an assign at the head has become pointless: a newer order waits.
    /// An unassign never does, or the address could stay on its old node.
    pub fn head_is_outdated(&self, ip: IpAddr) -> bool {
        self.0.get(&ip).is_some_and(|lane| {
            lane.len() > 1
                && lane
                    .front()
                    .is_some_and(|job| job.order.func == Func::Assign)
        })
    }

    /// Answers all who wait for the head.
    pub fn finish_head(&mut self, ip: IpAddr, outcome: &Outcome) {
        if let Some(job) = self.0.get_mut(&ip).and_then(VecDeque::pop_front) {
            for waiter in job.waiters {
                // Who has gone does not want to know.
                let _ = waiter.send(outcome.clone());
            }
        }
    }

    /// Gives up a whole lane; who waits in it is told that it stopped.
    pub fn abandon(&mut self, ip: IpAddr) {
        self.0.remove(&ip);
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
