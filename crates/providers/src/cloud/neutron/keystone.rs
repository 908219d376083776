//! Getting in: a token of Keystone, and where Neutron is.
//!
//! A token is renewed before its end, by Keystone's own times, so that clocks need not
//! agree; and once more when Neutron does not believe it any longer.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use floe_core::nodepool::cloud::{Class, Refusal};
use http::{HeaderName, Method};
use jiff::Timestamp;
use serde::Deserialize;
use tokio::time::Instant;

use super::settings::{Account, Entry};
use crate::http::{Http, Request, Response, Secret};

const AGENT: &str = concat!("floe/", env!("CARGO_PKG_VERSION"));

/// How long before its end a token is not used any more.
const MARGIN: Duration = Duration::from_mins(5);

const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
const SUBJECT_TOKEN: &str = "x-subject-token";

/// Neutron, for as long as it lets us in.
#[derive(Clone, Debug)]
pub struct Session {
    /// Neutron, with the token in each request.
    pub http: Http,
    /// Whose addresses are meant.
    pub project: Option<String>,
    /// When another one is needed.
    until: Option<Instant>,
}

/// Where sessions come from.
#[derive(Debug)]
pub struct Door {
    entry: Entry,
    keystone: Option<Http>,
    current: Mutex<Option<Arc<Session>>>,
}

#[derive(Deserialize)]
struct Granted {
    token: Token,
}

#[derive(Deserialize)]
struct Token {
    expires_at: String,
    issued_at: Option<String>,
    project: Option<Project>,
    #[serde(default)]
    catalog: Vec<Service>,
}

#[derive(Deserialize)]
struct Project {
    id: String,
}

#[derive(Deserialize)]
struct Service {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    interface: String,
    region: Option<String>,
    region_id: Option<String>,
    url: String,
}

#[derive(Deserialize)]
struct Refused {
    error: Words,
}

#[derive(Deserialize)]
struct Words {
    message: String,
}

impl Door {
    /// A door that nobody has gone through yet.
    ///
    /// # Errors
    /// When an address cannot be used.
    pub fn new(entry: Entry) -> Result<Self, String> {
        let (keystone, current) = match &entry {
            Entry::Keystone(account) => (Some(Http::new(&account.url, AGENT)?), None),
            Entry::Open { endpoint, project } => {
                let http = Http::new(unversioned(endpoint), AGENT)?
                    .with_secret(HeaderName::from_static("x-project-id"), project)?
                    .with_secret(HeaderName::from_static("x-roles"), "admin")?;
                let session = Session {
                    http,
                    project: Some(project.clone()),
                    until: None,
                };
                (None, Some(Arc::new(session)))
            }
        };
        Ok(Self {
            entry,
            keystone,
            current: Mutex::new(current),
        })
    }

    /// The session of now, or a new one. Two calls at once may both ask for a token, and
    /// both are good.
    pub async fn session(&self) -> Result<Arc<Session>, Refusal> {
        let current = self.current().clone();
        if let Some(session) = current.filter(|session| session.is_good(Instant::now())) {
            return Ok(session);
        }
        let session = Arc::new(self.enter().await?);
        *self.current() = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Forgets a session that Neutron does not believe. Says whether another one can be had.
    pub fn forget(&self, session: &Arc<Session>) -> bool {
        if session.until.is_none() {
            return false;
        }
        let mut current = self.current();
        if current
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, session))
        {
            *current = None;
        }
        true
    }

    async fn enter(&self) -> Result<Session, Refusal> {
        let (Entry::Keystone(account), Some(keystone)) = (&self.entry, &self.keystone) else {
            let words = "there is nobody to ask for a token";
            return Err(Refusal::new(Class::Unauthorized, words));
        };
        let asked = Instant::now();
        let request =
            Request::new(Method::POST, "/v3/auth/tokens").json(&account.identity.request());
        let answer = keystone.send(request).await.map_err(unchanged)?;
        if !answer.status.is_success() {
            return Err(refused(&answer));
        }
        let granted: Granted = answer.json().map_err(unchanged)?;
        let token = answer
            .headers
            .get(SUBJECT_TOKEN)
            .and_then(|value| value.to_str().ok())
            .map(Secret::new);
        let Some(token) = token else {
            let words = "Keystone answered without a token";
            return Err(Refusal::new(Class::Unavailable, words));
        };
        let endpoint = endpoint(&granted.token.catalog, account)?;
        let cannot = |words| Refusal::new(Class::Unavailable, words);
        let http = Http::new(unversioned(endpoint), AGENT)
            .and_then(|http| http.with_secret(AUTH_TOKEN, token.expose()))
            .map_err(cannot)?;
        let life = granted.token.life();
        Ok(Session {
            http,
            project: granted.token.project.map(|project| project.id),
            until: Some(asked + life.saturating_sub(MARGIN.min(life / 2))),
        })
    }

    /// Nobody panics with the lock; if it happens, a session stays one.
    fn current(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn is_good(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

impl Token {
    /// From Keystone's own clock, where it says when it began. A token without an end that
    /// can be read is good for one call.
    fn life(&self) -> Duration {
        let begun = self.issued_at.as_ref().and_then(|text| text.parse().ok());
        let begun: Timestamp = begun.unwrap_or_else(Timestamp::now);
        let Ok(end) = self.expires_at.parse::<Timestamp>() else {
            return Duration::ZERO;
        };
        Duration::try_from(end.duration_since(begun)).unwrap_or_default()
    }
}

/// Where the catalogue says that Neutron is.
fn endpoint<'a>(catalog: &'a [Service], account: &Account) -> Result<&'a str, Refusal> {
    let of_network = catalog.iter().filter(|service| service.kind == "network");
    let mut fitting = of_network
        .flat_map(|service| &service.endpoints)
        .filter(|endpoint| endpoint.interface == account.interface)
        .filter(|endpoint| {
            let own = |region: &Option<String>| *region == account.region;
            account.region.is_none() || own(&endpoint.region) || own(&endpoint.region_id)
        });
    let invalid = |words: String| Refusal::new(Class::Invalid, words);
    let Some(first) = fitting.next() else {
        return Err(invalid(format!(
            "the catalogue of Keystone has no network service with interface {} in {}",
            account.interface,
            account.region.as_deref().unwrap_or("any region"),
        )));
    };
    if fitting.any(|other| other.url != first.url) {
        return Err(invalid(
            "the catalogue of Keystone has several regions: set OS_REGION_NAME".to_owned(),
        ));
    }
    Ok(&first.url)
}

/// Addresses of Neutron come with its version or without.
fn unversioned(endpoint: &str) -> &str {
    let endpoint = endpoint.trim_end_matches('/');
    endpoint.strip_suffix("/v2.0").unwrap_or(endpoint)
}

/// A token that was granted without an answer changes nothing for anybody.
fn unchanged(refusal: Refusal) -> Refusal {
    match refusal.class {
        Class::Unclear => Refusal {
            class: Class::Unavailable,
            ..refusal
        },
        Class::ServerTaken
        | Class::HeldElsewhere
        | Class::AddressUnknown
        | Class::ServerUnknown
        | Class::ZoneUnknown
        | Class::Quota
        | Class::RateLimited
        | Class::Busy
        | Class::Unauthorized
        | Class::Invalid
        | Class::Unavailable
        | Class::NotStored
        | Class::NotPermitted => refusal,
    }
}

fn refused(answer: &Response) -> Refusal {
    let words = serde_json::from_slice::<Refused>(&answer.body)
        .map_or_else(|_| String::new(), |refused| refused.error.message);
    let refusal = unchanged(answer.refusal(&format!("Keystone: {words}")));
    match refusal.class {
        // Neither the address of an IP nor that of Keystone is known here.
        Class::AddressUnknown => Refusal {
            class: Class::Invalid,
            ..refusal
        },
        Class::ServerTaken
        | Class::HeldElsewhere
        | Class::ServerUnknown
        | Class::ZoneUnknown
        | Class::Quota
        | Class::RateLimited
        | Class::Busy
        | Class::Unauthorized
        | Class::Invalid
        | Class::Unavailable
        | Class::Unclear
        | Class::NotStored
        | Class::NotPermitted => refusal,
    }
}
