//! When a task of the leader may act.

use floe_shell::stop::Stop;
use tokio::sync::watch;

use crate::{leader::Standing, store::Warmth};

/// Whether this process leads and knows everything, which is when the tasks of a
/// leader act.
#[derive(Clone, Debug)]
pub struct Duty {
    standing: watch::Receiver<Standing>,
    warmth: watch::Receiver<Warmth>,
}

impl Duty {
    /// Judged by the standing of this process and the state of its caches.
    pub fn new(standing: watch::Receiver<Standing>, warmth: watch::Receiver<Warmth>) -> Self {
        Self { standing, warmth }
    }

    /// Whether it is on now.
    pub fn is_on(&self) -> bool {
        *self.standing.borrow() == Standing::Leading && self.warmth.borrow().is_warm()
    }

    /// Acts while it is on, term after term, until `stop`. What a term leaves half done is
    /// cut off in the middle; the first look of the next one, here or in another process, has
    /// to find it again. After each term, what only a leader knows is forgotten.
    pub async fn each_term<Act>(mut self, mut stop: Stop, act: impl Fn() -> Act, forget: impl Fn())
    where
        Act: Future<Output = ()>,
    {
        let terms = async {
            loop {
                self.begins().await;
                tokio::select! {
                    () = self.ends() => {}
                    () = act() => {}
                }
                forget();
            }
        };
        tokio::select! {
            () = stop.requested() => {}
            () = terms => {}
        }
    }

    /// Waits until it is on.
    async fn begins(&mut self) {
        self.wait_for(true).await;
    }

    /// Waits until it is off.
    async fn ends(&mut self) {
        self.wait_for(false).await;
    }

    async fn wait_for(&mut self, on: bool) {
        while self.is_on() != on {
            // Without a sender the value stays: then the other one decides, and
            // with none of both nothing ever changes.
            tokio::select! {
                Ok(()) = self.standing.changed() => {}
                Ok(()) = self.warmth.changed() => {}
                else => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn duty_needs_both_the_lead_and_the_caches() {
        let standing = watch::Sender::new(Standing::Unknown);
        let warmth = watch::Sender::new(Warmth::default());
        let mut duty = Duty::new(standing.subscribe(), warmth.subscribe());
        let warm = Warmth {
            records: true,
            pools: true,
            configuration: true,
            pods: true,
            nodes: true,
            workloads: true,
        };
        {
            let mut begins = std::pin::pin!(duty.begins());
            assert!(futures::poll!(begins.as_mut()).is_pending());
            standing.send_replace(Standing::Leading);
            assert!(futures::poll!(begins.as_mut()).is_pending());
            warmth.send_replace(warm);
            begins.await;
        }
        let mut ends = std::pin::pin!(duty.ends());
        assert!(futures::poll!(ends.as_mut()).is_pending());
        standing.send_replace(Standing::Unknown);
        ends.await;
    }

    #[tokio::test]
    async fn without_an_election_duty_never_ends() {
        let standing = watch::channel(Standing::Leading).1;
        let warmth = watch::Sender::new(Warmth::default());
        let mut duty = Duty::new(standing, warmth.subscribe());
        let mut begins = std::pin::pin!(duty.begins());
        assert!(futures::poll!(begins.as_mut()).is_pending());
    }
}
