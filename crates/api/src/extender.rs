//! What kube-scheduler asks its extender, and what it is answered.
//!
//! Every current scheduler writes member names with a capital, older ones
//! without, and Go reads either: so the requests here match names in any case.
//! The answers have galaxy's casing. With `nodeCacheCapable` a scheduler sends
//! names of nodes, else whole objects; [`Nodes`] is both, and answers in kind.
//!
//! Nothing in a body is trusted: whoever reaches the port can write one. Of the
//! pod only what identifies it is read, for looking it up. Node objects go back
//! as the very text that came, since typed decoding would drop what the types
//! do not know.

use floe_core::json::{self, JsonError, Names};
use serde::{Deserialize, Serialize};

pub use bind::{BindAnswer, BindRequest};
pub use filter::{FilterAnswer, Text, Verdict};
pub use nodes::{NodeObject, Nodes};
pub use preempt::{PreemptAnswer, PreemptRequest, Victims};

mod bind;
mod filter;
mod fold;
mod nodes;
mod preempt;

/// Reads a request.
pub fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, MalformedBody> {
    json::decode(body, Names::Go).map_err(MalformedBody)
}

/// The body of a call is not what the scheduler sends.
#[derive(Debug, thiserror::Error)]
#[error("malformed body: {0}")]
pub struct MalformedBody(JsonError);

impl MalformedBody {
    /// The stable reason for answers, logs and metrics.
    pub fn reason(&self) -> &'static str {
        "MalformedBody"
    }
}

/// Which pod a request is about, to be looked up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct PodRef {
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, which tells it from others that had the name.
    #[serde(default)]
    pub uid: String,
}

/// The question of both filter and prioritize: which of these nodes suit?
#[derive(Debug)]
pub struct Offer<'a> {
    /// The pod that is to be placed.
    pub pod: PodRef,
    /// The nodes that are left.
    pub nodes: Nodes<'a>,
}

/// The highest score of a node; the scheduler weighs it against others.
pub const MAX_SCORE: i64 = 10;

/// How well a node suits. The answer to prioritize is a list of these; a node that it does
/// not name has 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HostScore<'a> {
    /// The name of the node.
    pub host: &'a str,
    /// From 0 to [`MAX_SCORE`].
    pub score: i64,
}

/// The part of a pod object that is read.
#[derive(Deserialize)]
struct PodObject {
    metadata: PodRef,
}

#[cfg(test)]
mod tests;
