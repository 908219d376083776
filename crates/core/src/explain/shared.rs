//! Who has a shared address, why it moved last, and what would move it; or why nobody
//! has it.

use std::{fmt, net::IpAddr};

use jiff::Timestamp;

use self::words::{conditions, last_move, places, reason};
use crate::vip::{VipId, elect::Failover, node_as_pod};

mod words;

/// What is known about a `VirtualIP`.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Which.
    pub id: VipId,
    /// Whether it is being deleted.
    pub is_going: bool,
    /// The addresses that are granted.
    pub addresses: &'a [IpAddr],
    /// Whether the addresses are granted, as the controller says.
    pub accepted: Option<Told<'a>>,
    /// Whether they are answered, as the holder's agent says.
    pub serving: Option<Told<'a>>,
    /// Whether they are announced outside of the cluster, as the holder's agent says.
    pub reachable: Option<Told<'a>>,
    /// The pod that has them.
    pub holder: Option<Place<'a>>,
    /// Since when it has them.
    pub since: Option<Timestamp>,
    /// The pod that is to have them next, and why.
    pub successor: Option<(Place<'a>, &'a str)>,
    /// The pods that could have them.
    pub candidates: Vec<Place<'a>>,
    /// How often they have moved.
    pub moves: i64,
    /// The last move.
    pub last_move: Option<Move<'a>>,
    /// When they move.
    pub failover: Failover,
    /// The pod that somebody wishes them to move to.
    pub wish: Option<&'a str>,
}

/// A condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told<'a> {
    /// Whether it holds: `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// Why, in one word.
    pub reason: &'a str,
    /// The same for people.
    pub message: &'a str,
}

/// A pod and its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The pod's name.
    pub pod: &'a str,
    /// The pod's uid.
    pub uid: &'a str,
    /// The node's name.
    pub node: &'a str,
}

/// A move that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move<'a> {
    /// When.
    pub at: Timestamp,
    /// Why, in one word.
    pub reason: &'a str,
    /// The pod that had them; empty for none.
    pub from: &'a str,
    /// The pod that got them; empty for none.
    pub to: &'a str,
}

/// What a `VirtualIP` is doing, in one word for lists and figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// A pod has its addresses.
    Held,
    /// No pod has them.
    Vacant,
    /// No pod has them, and not all that it asks for is granted.
    Refused,
    /// It is being deleted.
    Deleting,
}

/// Why a shared address is where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A pod has it.
    Held,
    /// Its `VirtualIP` is being deleted.
    Deleting,
    /// Its `VirtualIP` has no right to it, or no use for it, any more.
    LetGo,
    /// The `VirtualIP` is granted no address.
    NotGranted,
    /// The controller has not looked at the `VirtualIP` yet.
    NotLookedAt,
    /// No pod could have it.
    NoCandidate,
    /// Pods could have it, and none has taken it yet.
    NotTaken,
}

/// What would move a shared address to another pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mover {
    /// A node has it, and whoever named that one names another.
    Pool,
    /// The end of its pod, or of what is heard from the pod's node.
    End,
    /// Its pod, if it is unready for so many seconds.
    Unready {
        /// How long it must be unready.
        grace: u64,
        /// How long after the last move it does not count.
        pause: u64,
    },
    /// A preferred pod that comes before the holder, once it could have it.
    Preferred(Vec<String>),
    /// Somebody who asks for it.
    Wish,
}

/// Why a shared address is where it is, and what would move it.
#[derive(Clone, Debug)]
pub struct Account<'a> {
    /// Why it is where it is.
    pub why: Why,
    /// What would move it; nothing while nobody has it, or nobody else could.
    pub movers: Vec<Mover>,
    facts: &'a Facts<'a>,
}

impl<'a> Account<'a> {
    /// The account of all addresses of a `VirtualIP`.
    pub fn of(facts: &'a Facts<'a>) -> Self {
        let why = if facts.is_going {
            Why::Deleting
        } else if facts.holder.is_some() {
            Why::Held
        } else if facts.accepted.is_none() {
            Why::NotLookedAt
        } else if facts.addresses.is_empty() {
            Why::NotGranted
        } else if facts.candidates.is_empty() {
            Why::NoCandidate
        } else {
            Why::NotTaken
        };
        let movers = if why == Why::Held {
            movers(facts)
        } else {
            Vec::new()
        };
        Self { why, movers, facts }
    }

    /// The account of one address, whose record names the `VirtualIP`.
    pub fn of_address(facts: &'a Facts<'a>, ip: IpAddr) -> Self {
        let account = Self::of(facts);
        if facts.is_going || facts.addresses.contains(&ip) {
            return account;
        }
        Self {
            why: Why::LetGo,
            movers: Vec::new(),
            facts,
        }
    }

    /// The account in a few sentences, the most important one first.
    pub fn sentences(&self) -> Vec<String> {
        let facts = self.facts;
        let mut told = vec![self.first()];
        if self.why == Why::LetGo {
            return told;
        }
        if facts.holder.is_some() {
            told.extend(conditions(facts));
        }
        // Those that are granted have another story.
        if let Some(it) = refused(facts)
            && self.why != Why::NotGranted
        {
            told.push(format!("Not all that it asks for is granted: {it}."));
        }
        if let Some((next, why)) = facts.successor {
            let (next, why) = (next.told(), reason(why));
            told.push(format!("It is being handed over to {next}: {why}."));
        }
        if let Some(pod) = facts.wish {
            told.push(format!(
                "Somebody asks for a move to pod {pod}; the controller has not answered yet."
            ));
        }
        told.extend(last_move(facts));
        if !facts.candidates.is_empty() {
            told.push(format!("It could be at {}.", places(&facts.candidates)));
        }
        if self.why == Why::Held {
            told.push(self.what_moves());
        }
        told
    }

    fn first(&self) -> String {
        let VipId { namespace, name } = &self.facts.id;
        let vip = format!("VirtualIP {namespace}/{name}");
        let holder = self.facts.holder.map(Place::told);
        match self.why {
            Why::Held => {
                let holder = holder.unwrap_or_default();
                let since = self.facts.since.map(|since| format!(" since {since}"));
                format!("It is at {holder}{}.", since.unwrap_or_default())
            }
            Why::Deleting => match holder {
                Some(holder) => {
                    format!("{vip} is being deleted, and {holder} has not let go of it yet.")
                }
                None => format!("{vip} is being deleted, and its addresses are about to be free."),
            },
            Why::LetGo => format!(
                "{vip} has no right to it or no use for it any more: it is free as soon as its \
                 holder has let go of it."
            ),
            Why::NotGranted => match refused(self.facts) {
                Some(why) => format!("Nobody has it: {why}."),
                None => "Nobody has it: no address is granted.".into(),
            },
            Why::NotLookedAt => {
                format!("Nobody has it: the controller has not looked at {vip} yet.")
            }
            Why::NoCandidate => {
                "Nobody has it: no pod that shares it runs, is ready, is not being deleted, and \
                 is on a ready node with a live agent."
                    .into()
            }
            Why::NotTaken => {
                "Nobody has it now: the agent of a node that could is about to take it.".into()
            }
        }
    }

    fn what_moves(&self) -> String {
        if self.movers.is_empty() {
            return "What would move it: nothing now, for no other pod could have it.".into();
        }
        let movers: Vec<String> = self.movers.iter().map(ToString::to_string).collect();
        format!("What would move it: {}.", movers.join("; "))
    }
}

impl Facts<'_> {
    /// What the `VirtualIP` is doing, in one word.
    pub fn state(&self) -> State {
        if self.is_going {
            State::Deleting
        } else if self.holder.is_some() {
            State::Held
        } else if refused(self).is_some() {
            State::Refused
        } else {
            State::Vacant
        }
    }
}

impl State {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Held, Self::Vacant, Self::Refused, Self::Deleting];

    /// The stable word for lists and metrics.
    pub fn text(self) -> &'static str {
        match self {
            Self::Held => "Held",
            Self::Vacant => "Vacant",
            Self::Refused => "Refused",
            Self::Deleting => "Deleting",
        }
    }
}

impl Why {
    /// The stable reason for answers.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Held => "Held",
            Self::Deleting => "Deleting",
            Self::LetGo => "LetGo",
            Self::NotGranted => "NotGranted",
            Self::NotLookedAt => "NotLookedAt",
            Self::NoCandidate => "NoCandidate",
            Self::NotTaken => "NotTaken",
        }
    }
}

impl Place<'_> {
    fn told(self) -> String {
        if self.is_node() {
            return format!("node {}", self.node);
        }
        format!("pod {} on node {}", self.pod, self.node)
    }

    /// Whether it is the node itself, as of a pool without a cloud.
    fn is_node(self) -> bool {
        self.pod == node_as_pod(self.node)
    }
}

impl fmt::Display for Mover {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End => out.write_str("the end of its pod, or silence of the pod's node"),
            Self::Pool => out.write_str("its pool, when that names another node"),
            Self::Unready { grace, pause } => {
                match grace {
                    0 => out.write_str("a pod that is not ready")?,
                    grace => write!(out, "a pod that is not ready for {grace} s")?,
                }
                match pause {
                    0 => Ok(()),
                    pause => write!(out, ", but not within {pause} s after a move"),
                }
            }
            Self::Preferred(pods) => {
                write!(out, "a preferred pod that can have it: {}", pods.join(", "))
            }
            Self::Wish => out.write_str("somebody who asks for it"),
        }
    }
}

fn movers(facts: &Facts<'_>) -> Vec<Mover> {
    let Some(holder) = facts.holder else {
        return Vec::new();
    };
    let others = facts.candidates.iter();
    let others: Vec<&Place<'_>> = others.filter(|it| it.uid != holder.uid).collect();
    let failover = &facts.failover;
    let mut movers = Vec::new();
    if holder.is_node() {
        return vec![Mover::Pool];
    }
    if !others.is_empty() {
        movers.push(Mover::End);
        movers.push(Mover::Unready {
            grace: failover.unready_grace.as_secs(),
            pause: failover.between_moves.as_secs(),
        });
    }
    if failover.failback {
        let better = failover.preferred.iter();
        let better: Vec<String> = better
            .take_while(|pod| *pod != holder.pod)
            .cloned()
            .collect();
        if !better.is_empty() {
            movers.push(Mover::Preferred(better));
        }
    }
    if !others.is_empty() {
        movers.push(Mover::Wish);
    }
    movers
}

fn refused<'a>(facts: &Facts<'a>) -> Option<Told<'a>> {
    facts.accepted.filter(|it| it.status != "True")
}

#[cfg(test)]
mod tests;
