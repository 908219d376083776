//! Which callers are taken for the scheduler.
//!
//! A caller of bind chooses the node of a pending pod, and a filter sets addresses aside. So
//! all four calls need the same proof: what the scheduler itself has to show, or the signature
//! of a replica to which it has shown that ([`proof`]).

use std::{
    collections::BTreeSet,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::http::{HeaderMap, header};
use floe_core::schedule::caller::Source;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::Value;
use tokio::sync::watch;
use tracing::{debug, warn};

use super::{call::Call, proof};
use crate::{
    cluster::Cluster,
    metrics::Metrics,
    shared_key::{Place, Shared},
    transport::FORWARDED,
};

mod api_servers;
mod token;

pub use api_servers::{ApiServers, follow_api_servers};
pub use token::{TokenError, TokenFile};

/// How many refused sources are remembered, so that each is logged once.
const SOURCES: usize = 64;

/// The Secret with the key by which replicas know each other.
pub fn peers(namespace: String) -> Place {
    Place {
        namespace,
        name: "floe-extender-peers",
        purpose: "calls that replicas forward",
        without: "replicas that do not lead forward the scheduler's calls unsigned, and the leader \
                  refuses them (CallerNotAllowed)",
    }
}

/// Decides which calls are accepted.
#[derive(Clone)]
pub struct Callers {
    /// From where calls are accepted; one entry has to match.
    pub sources: Arc<[Source]>,
    /// The digest of the token that callers have to send; `None`: they need none.
    pub token: Option<watch::Receiver<String>>,
    /// Knows the addresses of control-plane nodes.
    pub cluster: Cluster,
    /// The addresses of API servers.
    pub api_servers: watch::Receiver<ApiServers>,
    /// The key by which replicas know each other.
    pub key: watch::Receiver<Shared>,
    /// Counts refused calls.
    pub metrics: Metrics,
    /// The sources whose refusal was logged.
    pub logged: Arc<Mutex<BTreeSet<IpAddr>>>,
}

/// Why a call is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The caller itself has shown what is needed.
    Directly,
    /// Another replica has forwarded it. The body must have this digest.
    Forwarded { digest: String },
}

/// Why a call is refused. None of it tells a stranger more than the documentation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// The address is not in the list.
    #[error(
        "floe-controller does not accept calls from {from}: --extender-allow-from (chart: \
         controller.extender.allowFrom) does not list it, and it is no known address of the \
         control plane. If a scheduler calls from {from}, add the address, for example \
         --extender-allow-from=control-plane,{from}, or use --extender-token-file"
    )]
    Source {
        /// The address of the caller.
        from: IpAddr,
    },
    /// The token is missing or wrong.
    #[error(
        "the call from {from} lacks the token of --extender-token-file (chart: \
         controller.extender.tokenSecret) of floe-controller; a scheduler sends it with urlPrefix \
         http://floe:TOKEN@ADDRESS:9040/v1"
    )]
    Token {
        /// The address of the caller, if it is known.
        from: String,
    },
    /// Another replica forwarded the call, but does not prove that it is one.
    #[error(
        "the replica at {from} forwarded a call without a valid signature: all replicas of \
         floe-controller have to read the same Secret floe-extender-peers, and their clocks \
         must not differ by more than {skew:#}",
        skew = proof::SKEW
    )]
    Unsigned {
        /// The address of the other replica.
        from: IpAddr,
    },
    /// The body is not the one that was signed.
    #[error("the body of a forwarded call is not the one that was signed")]
    Body,
    /// The transport does not know the address.
    #[error("the address of the caller is unknown")]
    Unknown,
}

impl NotAllowed {
    /// The stable reason for answers, logs and metrics.
    pub const REASON: &str = "CallerNotAllowed";

    /// The text of the answer.
    pub fn told(&self) -> String {
        format!("{}: {self}", Self::REASON)
    }
}

impl Callers {
    /// Decides about a call by what is known before its body.
    pub fn admit(
        &self,
        call: Call,
        from: Option<IpAddr>,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Accepted, NotAllowed> {
        let key = self.key.borrow().clone();
        let digest = key.and_then(|key| proof::verify(&key.0, call, headers, now));
        if let Some(digest) = digest {
            return Ok(Accepted::Forwarded { digest });
        }
        let refused = match self.admit_directly(from, headers) {
            Ok(()) => return Ok(Accepted::Directly),
            Err(refused) => refused,
        };
        Err(match from {
            Some(from) if headers.contains_key(FORWARDED) => NotAllowed::Unsigned { from },
            _ => refused,
        })
    }

    fn admit_directly(&self, from: Option<IpAddr>, headers: &HeaderMap) -> Result<(), NotAllowed> {
        let mut sources = self.sources.iter();
        let allowed = sources.any(|source| match from {
            Some(from) => source.allows(from, |from| self.is_control_plane(from)),
            None => *source == Source::Any,
        });
        if !allowed {
            return Err(from.map_or(NotAllowed::Unknown, |from| NotAllowed::Source { from }));
        }
        match &self.token {
            Some(token) if !is_sent(headers, &token.borrow()) => {
                let from =
                    from.map_or_else(|| "an unknown address".to_owned(), |it| it.to_string());
                Err(NotAllowed::Token { from })
            }
            _ => Ok(()),
        }
    }

    /// Whether it is known which addresses the control plane has, as far as that matters.
    pub fn are_known(&self, nodes_are_listed: bool) -> bool {
        !self.sources.contains(&Source::ControlPlane)
            || nodes_are_listed && self.api_servers.borrow().is_some()
    }

    fn is_control_plane(&self, from: IpAddr) -> bool {
        let api_servers = self.api_servers.borrow();
        let is_api_server = api_servers.as_ref().is_some_and(|all| all.contains(&from));
        is_api_server || self.cluster.is_control_plane(from)
    }

    /// Counts a refused call, and logs the first one of each source.
    pub fn note(&self, call: Call, from: Option<IpAddr>, refused: &NotAllowed) {
        self.metrics.call_refused(NotAllowed::REASON);
        let reason = NotAllowed::REASON;
        let from = from.map(|from| from.to_string()).unwrap_or_default();
        if self.is_new(&from) {
            warn!(reason, from, ?call, error = %refused, "call of the scheduler extender refused");
        } else {
            debug!(reason, from, ?call, error = %refused, "call of the scheduler extender refused");
        }
    }

    fn is_new(&self, from: &str) -> bool {
        let Ok(from) = from.parse() else {
            return false;
        };
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.len() < SOURCES && logged.insert(from)
    }
}

/// Whether a request carries the token, of which only the digest is known: as bearer token, or
/// as password of any user. Digests are compared, so the time of the comparison reveals nothing
/// of the token.
fn is_sent(headers: &HeaderMap, digest: &str) -> bool {
    let value = headers.get(header::AUTHORIZATION);
    let Some((scheme, rest)) = value
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
    else {
        return false;
    };
    let sent = match scheme.to_ascii_lowercase().as_str() {
        "bearer" => Some(rest.trim().as_bytes().to_vec()),
        "basic" => password(rest.trim()),
        _ => None,
    };
    sent.is_some_and(|sent| proof::digest_of(&sent) == digest)
}

/// The password of basic authentication, RFC 7617.
fn password(text: &str) -> Option<Vec<u8>> {
    let ByteString(pair) = serde_json::from_value(Value::from(text)).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}
