//! What a Deployment says about its updates.

use std::str::FromStr;

use thiserror::Error;

/// What is to be done about new pods that wait for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// Take an old pod away, and hand its address over.
    Handover,
    /// Nothing: the Deployment has addresses for the pods beside its replicas.
    Surge,
    /// Nothing.
    Wait {
        /// Whether so it was written, rather than implied by the strategy.
        written: bool,
    },
}

/// The annotation says something else than it may.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("floe.dev/rollout is {text:?}, and has to be handover, surge or wait")]
pub struct InvalidRollout {
    /// What it says.
    pub text: String,
}

/// The longest text that is repeated to people.
const LONGEST: usize = 60;

impl InvalidRollout {
    /// The stable reason for Events, logs, metrics and answers.
    pub const REASON: &'static str = "InvalidRollout";
}

impl Handling {
    /// What the annotation `floe.dev/rollout` asks for, or, without one, what the strategy
    /// implies: who has written that no pod may be missing has said that none is to be
    /// taken away. The API server fills in 25 % where nothing was written, so a zero was.
    pub fn of(annotation: Option<&str>, strategy: Strategy) -> Result<Self, InvalidRollout> {
        match annotation {
            Some("handover") => Ok(Self::Handover),
            Some("surge") => Ok(Self::Surge),
            Some("wait") => Ok(Self::Wait { written: true }),
            Some(text) => Err(InvalidRollout {
                text: text.chars().take(LONGEST).collect(),
            }),
            None if strategy.forbids_missing_pods() => Ok(Self::Wait { written: false }),
            None => Ok(Self::Handover),
        }
    }
}

/// A number of pods, or a part of the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Pods(u32),
    /// So many of a hundred.
    Percent(u32),
}

/// An amount is neither a number nor a percentage.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is neither a number nor a percentage")]
pub struct InvalidAmount(pub String);

impl FromStr for Amount {
    type Err = InvalidAmount;

    /// Compat: a text has to be a percentage. The API server refuses all others.
    fn from_str(text: &str) -> Result<Self, InvalidAmount> {
        let number = text.strip_suffix('%').filter(|it| !it.starts_with('+'));
        let number = number.and_then(|number| number.parse().ok());
        number
            .map(Self::Percent)
            .ok_or_else(|| InvalidAmount(text.into()))
    }
}

impl Amount {
    fn is_zero(self) -> bool {
        matches!(self, Self::Pods(0) | Self::Percent(0))
    }

    /// Compat: as the Deployment controller rounds.
    fn up(self, replicas: u32) -> u32 {
        match self {
            Self::Pods(pods) => pods,
            Self::Percent(part) => hundredths(replicas, part, 99),
        }
    }

    fn down(self, replicas: u32) -> u32 {
        match self {
            Self::Pods(pods) => pods,
            Self::Percent(part) => hundredths(replicas, part, 0),
        }
    }
}

fn hundredths(replicas: u32, part: u32, extra: u64) -> u32 {
    let pods = (u64::from(replicas) * u64::from(part) + extra) / 100;
    u32::try_from(pods).unwrap_or(u32::MAX)
}

/// How a Deployment replaces its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// All old ones go first.
    Recreate,
    /// Some at a time.
    Rolling {
        /// How many may be missing.
        max_unavailable: Amount,
        /// How many there may be beside the replicas.
        max_surge: Amount,
    },
}

/// Compat: what the API server fills in.
const QUARTER: Amount = Amount::Percent(25);

impl Default for Strategy {
    fn default() -> Self {
        Self::Rolling {
            max_unavailable: QUARTER,
            max_surge: QUARTER,
        }
    }
}

impl Strategy {
    /// One that replaces some pods at a time; what is not said is what the API server
    /// would fill in.
    pub fn rolling(max_unavailable: Option<Amount>, max_surge: Option<Amount>) -> Self {
        Self::Rolling {
            max_unavailable: max_unavailable.unwrap_or(QUARTER),
            max_surge: max_surge.unwrap_or(QUARTER),
        }
    }

    /// Whether new pods come before all old ones are gone.
    pub fn is_rolling(self) -> bool {
        matches!(self, Self::Rolling { .. })
    }

    /// How many pods there may be beside the replicas. A Deployment without replicas
    /// starts none.
    pub fn surge(self, replicas: u32) -> u32 {
        match self {
            Self::Rolling { max_surge, .. } if replicas > 0 => max_surge.up(replicas),
            Self::Rolling { .. } | Self::Recreate => 0,
        }
    }

    /// How many pods may be missing. Compat: never none together with no surge, because
    /// then nothing could ever move.
    pub fn unavailable(self, replicas: u32) -> u32 {
        match self {
            Self::Recreate => replicas,
            Self::Rolling {
                max_unavailable,
                max_surge,
            } => {
                let missing = max_unavailable.down(replicas);
                if missing == 0 && max_surge.up(replicas) == 0 {
                    return 1;
                }
                missing.min(replicas)
            }
        }
    }

    fn forbids_missing_pods(self) -> bool {
        match self {
            Self::Rolling {
                max_unavailable, ..
            } => max_unavailable.is_zero(),
            Self::Recreate => false,
        }
    }
}

/// How many pods of a Deployment may have addresses at a time.
pub fn owned(replicas: u32, handling: Handling, strategy: Strategy) -> u32 {
    match handling {
        Handling::Surge => replicas.saturating_add(strategy.surge(replicas)),
        Handling::Handover | Handling::Wait { .. } => replicas,
    }
}

/// What whoever applies such a Deployment should know: with one replica, the old pod goes
/// before the new one runs. `keeps` says whether its pods keep their addresses.
pub fn outage_ahead(
    replicas: u32,
    handling: Handling,
    strategy: Strategy,
    keeps: bool,
) -> Option<&'static str> {
    let hands_over = handling == Handling::Handover && strategy.is_rolling();
    let is_told = keeps && hands_over && replicas == 1 && strategy.unavailable(1) == 0;
    is_told.then_some(ONE_REPLICA)
}

/// Why an update of a single replica has an outage.
pub const ONE_REPLICA: &str = "one replica with one address: in an update the old pod goes before the new one \
    runs, which is a short outage; floe.dev/rollout: surge gives it an address more";
