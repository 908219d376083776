//! Why the scheduler gets no decision now. All of it passes: try again.

use floe_shell::logs;

use super::forward::ForwardError;

/// Why nobody decides now.
#[derive(Debug, thiserror::Error)]
pub enum Excuse {
    /// The lease is free.
    #[error("no replica leads at the moment")]
    NoLeader,
    /// The lease was not read yet.
    #[error("this replica does not know yet who leads")]
    StandingUnknown,
    /// The one who forwarded the call took this replica for the leader.
    #[error("the call was forwarded to a replica that does not lead")]
    Misdirected,
    /// Another one leads, but not where.
    #[error("the leader {holder} does not tell in its lease where it answers")]
    NoAddress {
        /// The leader.
        holder: String,
    },
    /// The leader gave no answer.
    #[error("the leader at {leader} does not answer: {}", logs::with_causes(error))]
    Unreachable {
        /// Its address.
        leader: String,
        /// What happened.
        error: ForwardError,
    },
    /// This replica leads, but does not know all yet.
    #[error("the leader has not read all of the cluster yet: {}", .0.join(", "))]
    NotReady(Vec<&'static str>),
    /// It takes too long. A bind goes on.
    #[error("there was no answer in time")]
    Late,
    /// The code that answers has failed.
    #[error("answering has failed, see the log of the controller")]
    Failed,
}

impl Excuse {
    /// The stable reason for answers and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoLeader | Self::StandingUnknown | Self::Misdirected => "NoLeader",
            Self::NoAddress { .. } | Self::Unreachable { .. } => "LeaderUnreachable",
            Self::NotReady(_) => "NotReady",
            Self::Late => "DeadlinePassed",
            Self::Failed => "InternalError",
        }
    }

    /// The text for the scheduler.
    pub fn told(&self) -> String {
        format!("{}: {self}", self.reason())
    }
}
