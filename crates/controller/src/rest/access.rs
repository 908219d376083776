//! Who calls, and what he may do.
//!
//! A handler asks for what it touches before it does anything, by
//! [`Caller::may`]. The caller is an extension of the request, put there by
//! [`front`](super::front); a request without one is refused.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use floe_api::{floe, galaxy};

mod cache;
mod review;

pub use review::{Person, Reviewer};

/// What a call touches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    /// The verb of Kubernetes.
    pub verb: &'static str,
    /// The API group of the resource.
    pub group: &'static str,
    /// The resource.
    pub resource: &'static str,
    /// The namespace; empty for resources without one, and for all of them.
    pub namespace: String,
    /// The object; empty for all of them.
    pub name: String,
}

impl Access {
    /// To do this to records of addresses.
    pub fn ips(verb: &'static str) -> Self {
        Self {
            verb,
            group: galaxy::GROUP,
            resource: "floatingips",
            namespace: String::new(),
            name: String::new(),
        }
    }

    /// To do this to a pool; an empty name means all of the namespace.
    pub fn pool(verb: &'static str, namespace: &str, name: &str) -> Self {
        Self {
            verb,
            group: galaxy::GROUP,
            resource: "pools",
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// To do this to a `VirtualIP`; an empty name means all of the namespace.
    pub fn vip(verb: &'static str, namespace: &str, name: &str) -> Self {
        Self {
            verb,
            group: floe::GROUP,
            resource: "virtualips",
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// To do this to a pod.
    pub fn pod(verb: &'static str, namespace: &str, name: &str) -> Self {
        Self {
            verb,
            group: "",
            resource: "pods",
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The same for people, as `pools.galaxy.k8s.io "web" in namespace "shop"`.
    pub fn told(&self) -> String {
        let mut told = self.resource.to_owned();
        if !self.group.is_empty() {
            told = format!("{told}.{}", self.group);
        }
        if !self.name.is_empty() {
            told = format!("{told} {:?}", self.name);
        }
        if !self.namespace.is_empty() {
            told = format!("{told} in namespace {:?}", self.namespace);
        }
        told
    }
}

/// Why a call is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nobody knows who calls.
    #[error("{0}")]
    Unauthenticated(String),
    /// He may not do that.
    #[error("{user} may not {verb} {resource}")]
    Forbidden {
        /// Who calls.
        user: String,
        /// What he wants to do.
        verb: &'static str,
        /// With what.
        resource: String,
    },
    /// The API server does not say whether he may.
    #[error("cannot ask the API server for the caller's rights: {0}")]
    Undecided(String),
}

impl Denied {
    /// The stable reason for answers, logs and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unauthenticated(_) => "Unauthenticated",
            Self::Forbidden { .. } => "Forbidden",
            Self::Undecided(_) => "AccessUndecided",
        }
    }

    /// The status of HTTP.
    pub fn status(&self) -> u16 {
        match self {
            Self::Unauthenticated(_) => 401,
            Self::Forbidden { .. } => 403,
            Self::Undecided(_) => 503,
        }
    }
}

/// Who calls.
#[derive(Clone)]
pub struct Caller(Rights);

#[derive(Clone)]
enum Rights {
    /// Everybody may do everything: `--api-auth=none`.
    All,
    /// The API server says.
    Of(Known),
}

/// Somebody whose rights the API server knows. It cannot be printed, for his token is
/// in it.
#[derive(Clone)]
struct Known {
    person: Arc<Person>,
    /// Kept for calls that last longer than it may be good.
    token: Arc<str>,
    reviewer: Reviewer,
}

impl Caller {
    /// A caller of an API that is open to everybody.
    pub fn anybody() -> Self {
        Self(Rights::All)
    }

    /// Whoever has this token, if the API server knows him.
    pub async fn with_token(token: &str, reviewer: Reviewer) -> Result<Self, Denied> {
        let person = reviewer.who(token).await?;
        Ok(Self(Rights::Of(Known {
            person,
            token: token.into(),
            reviewer,
        })))
    }

    /// His name; none if nobody has asked for it.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Rights::All => None,
            Rights::Of(known) => Some(known.person.name()),
        }
    }

    /// Whether he may do this.
    pub async fn may(&self, access: &Access) -> Result<(), Denied> {
        match &self.0 {
            Rights::All => Ok(()),
            Rights::Of(known) => known.reviewer.may(&known.person, access).await,
        }
    }

    /// Whether his token is still good, and he still may do this: for calls that last.
    pub async fn still_may(&self, access: &Access) -> Result<(), Denied> {
        match &self.0 {
            Rights::All => Ok(()),
            Rights::Of(known) => {
                // He may be in other groups by now.
                let person = known.reviewer.who(&known.token).await?;
                known.reviewer.may(&person, access).await
            }
        }
    }
}

/// No front, no answer: a route can never be open by mistake.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = axum::http::StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or(axum::http::StatusCode::UNAUTHORIZED)
    }
}

#[cfg(test)]
pub mod tests;
