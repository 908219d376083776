//! Shared floating IPs on this node: gather, decide in [`floe_core::vip::keeper`], apply,
//! report.
//!
//! ```text
//!   VirtualIPs, registers,
//!   leases ─────────────── inbox ─┐                 ┌── calls ──► API server
//!   pods of the node ─────────────┤                 ├── promise ──► other agents (UDP)
//!   promises of others ───────────┼──► driver ──────┤
//!   answers, timers ──────────────┘   (the keeper)  └── plane ──► rules, answers on
//!                                          ▲               │      links, routes, pods
//!                                          └── what is so ─┘
//! ```
//!
//! - `driver` owns the keeper. Nothing else decides.
//! - A register says who has an address, and all that changes in one register at a moment is
//!   one write. The status of a `VirtualIP` shows it, when there is time.
//! - `plane` does the last order only, and says when the kernel has it. What the kernel has
//!   ends by itself when nobody renews it, so nothing here has to be alive for that.
//! - An agent that is told to stop hands over what others can have. The rest it leaves as it
//!   is: its next process takes it over, or its time runs out.

use floe_core::vip::Timing;
use floe_shell::stop::Stop;
use kube::Client;
use tokio::sync::{mpsc, watch};
use tracing::info;

use crate::{cri::Cri, events::Events, metrics::Metrics, pods::Pods};
use calls::Calls;
use clock::Clock;
use driver::{Driver, Ends};
use inbox::Inbox;
use plane::{Kernel, Plane};
use promise::{Keys, Post};

mod answer;
mod calls;
mod clock;
mod conditions;
mod doubts;
mod driver;
mod health;
mod inbox;
mod objects;
mod order;
mod plan;
mod plane;
mod promise;
mod teller;

/// How much news of the kernel's part may wait.
const NEWS: usize = 64;

/// The task that serves shared addresses.
pub struct Vips {
    /// A client of the API server.
    pub client: Client,
    /// This node.
    pub node: String,
    /// Its pods.
    pub pods: Pods,
    /// The port at which agents reach each other.
    pub port: u16,
    /// Changes when the API server answers again after it did not.
    pub doubts: watch::Receiver<u64>,
    /// To be called when it answers again and only this part has noticed: then `doubts`
    /// changes, too.
    pub regained: Box<dyn Fn() + Send + Sync>,
    /// Where it is told what people should know.
    pub events: Events,
    /// Where it is counted.
    pub metrics: Metrics,
}

impl Vips {
    /// Serves until `stop`, and then until everything is handed over that others can have.
    pub async fn run(self, cri: Cri, stop: Stop) {
        let (keys, known) = watch::channel(Keys::default());
        let (heard, incoming) = mpsc::channel(promise::QUEUE);
        let (says, said) = mpsc::channel(promise::QUEUE);
        let post = Post {
            node: self.node.clone(),
            port: self.port,
            keys: known,
            heard,
            said,
        };
        let reading = promise::read_keys(self.client.clone(), keys);
        let talking = async { tokio::join!(reading, post.run()) };
        let work = self.work(
            Kernel::new(cri),
            Clock::of_machine(),
            Timing {
                first_term: clock::first_term(),
                ..Timing::default()
            },
            (says, incoming),
            stop,
        );
        tokio::select! {
            () = work => {}
            _ = talking => {}
        }
        info!("shared addresses are not looked after any more");
    }

    async fn work(
        self,
        plane: impl Plane,
        clock: Clock,
        timing: Timing,
        (said, heard): (mpsc::Sender<promise::Said>, mpsc::Receiver<promise::Heard>),
        stop: Stop,
    ) {
        let inbox = Inbox::default();
        let (orders, ordered) = watch::channel(None);
        let (tells, news) = mpsc::channel(NEWS);
        let ends = Ends {
            inbox: inbox.clone(),
            pods: self.pods,
            orders,
            news,
            heard,
            said,
            regained: self.regained,
            metrics: self.metrics.clone(),
        };
        let calls = Calls::new(
            self.client.clone(),
            self.node.clone(),
            timing.duration,
            self.events,
            self.metrics,
        );
        let driver = Driver::new(self.node, timing, clock.clone(), calls, ends);
        // The kernel's part ends when nobody can give it an order any more.
        let serving =
            async { tokio::join!(driver.run(stop), plane::work(plane, ordered, tells, clock)) };
        tokio::select! {
            _ = serving => {}
            () = inbox.fill(self.client, self.doubts) => {}
        }
    }
}

#[cfg(test)]
mod tests;
