//! The clock by which an agent counts: one that runs on while the machine sleeps.

use std::{fmt, sync::Arc};

use floe_core::lease::Moment;
use floe_net::boottime;

/// A clock. Tests have their own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Moment + Send + Sync>);

impl Clock {
    /// The clock of this machine.
    pub fn of_machine() -> Self {
        Self::new(|| Moment(boottime::now()))
    }

    /// A clock that shows what a function says.
    pub fn new(now: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// What it shows.
    pub fn now(&self) -> Moment {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Clock({:?})", self.now())
    }
}
