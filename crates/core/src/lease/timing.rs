//! The periods of an election.

use std::time::Duration;

/// How much longer than the retry period a follower may pause, as a factor of
/// that period. The renew deadline must exceed the retry period times this.
pub const JITTER: f64 = 1.2;

/// The longest pause of a follower between the sight of a release and its try.
pub const LONGEST_WAKE_PAUSE: Duration = Duration::from_millis(100);

/// The three periods of an election; only valid combinations exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Default for Timing {
    /// 15 s, 10 s and 2 s, as all Kubernetes components have it.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Checks that the periods fit together.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, TimingError> {
        if retry_period.is_zero() {
            return Err(TimingError::NoRetryPeriod);
        }
        // Others read whole seconds from the record. A fraction would be lost
        // there and could make the lease shorter than the renew deadline.
        if lease_duration.subsec_nanos() != 0
            || lease_duration.is_zero()
            || i32::try_from(lease_duration.as_secs()).is_err()
        {
            return Err(TimingError::NotWholeSeconds(lease_duration));
        }
        if lease_duration <= renew_deadline {
            return Err(TimingError::LeaseTooShort {
                lease_duration,
                renew_deadline,
            });
        }
        if renew_deadline.as_secs_f64() <= retry_period.as_secs_f64() * JITTER {
            return Err(TimingError::DeadlineTooShort {
                renew_deadline,
                retry_period,
            });
        }
        Ok(Self {
            lease_duration,
            renew_deadline,
            retry_period,
        })
    }

    /// How long others wait for a silent holder.
    pub fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// How long a holder leads after its last accepted renewal was sent.
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// The pause of a leader between two rounds.
    pub fn retry_period(&self) -> Duration {
        self.retry_period
    }

    /// The pause of a follower between two rounds: the retry period and up to
    /// [`JITTER`] times more, so that candidates do not all write at once.
    /// `dice` is a random number from 0 to 1.
    pub fn follower_pause(&self, dice: f64) -> Duration {
        let dice = dice.clamp(0.0, 1.0);
        self.retry_period + self.retry_period.mul_f64(JITTER * dice)
    }

    /// The pause of a follower that was woken by a release: up to
    /// [`LONGEST_WAKE_PAUSE`], and no longer than its usual pause. All followers
    /// wake at once; who comes later finds the lease taken and writes nothing.
    /// `dice` is a random number from 0 to 1.
    pub fn wake_pause(&self, dice: f64) -> Duration {
        let longest = LONGEST_WAKE_PAUSE.min(self.retry_period);
        longest.mul_f64(dice.clamp(0.0, 1.0))
    }

    /// The lease duration as the record holds it.
    pub(super) fn record_seconds(&self) -> u32 {
        u32::try_from(self.lease_duration.as_secs())
            .expect("the constructor has checked that the seconds fit an i32")
    }
}

/// Why periods do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// A pause of zero would never let go of the API server.
    #[error("the retry period must be greater than zero")]
    NoRetryPeriod,
    /// The record cannot hold this duration.
    #[error("the lease duration must be a whole number of seconds from 1 to 2147483647, not {0:?}")]
    NotWholeSeconds(Duration),
    /// A holder would lead on when others already take the lease.
    #[error(
        "the lease duration ({lease_duration:?}) must be greater than the renew deadline ({renew_deadline:?})"
    )]
    LeaseTooShort {
        /// The refused lease duration.
        lease_duration: Duration,
        /// The renew deadline it was compared with.
        renew_deadline: Duration,
    },
    /// One late round would already end a term.
    #[error(
        "the renew deadline ({renew_deadline:?}) must be greater than {JITTER} times the retry period ({retry_period:?})"
    )]
    DeadlineTooShort {
        /// The refused renew deadline.
        renew_deadline: Duration,
        /// The retry period it was compared with.
        retry_period: Duration,
    },
}
