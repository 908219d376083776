//! The API server says who a caller is, and what he may do.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use floe_shell::logs;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::Semaphore,
    time::{error::Elapsed, timeout},
};

use super::{Access, Denied, cache::Cache};

/// How long the API server may take for an answer.
const LIMIT: Duration = Duration::from_secs(5);

/// How long a good token is believed without asking again.
const KNOWN: Duration = Duration::from_mins(1);

/// How long a right is believed.
const ALLOWED: Duration = Duration::from_secs(10);

/// How long a refusal of either kind is believed: short, because somebody is
/// trying to get it right.
const REFUSED: Duration = Duration::from_secs(5);

/// How many answers of each kind are remembered.
const MOST: usize = 4096;

/// How many questions are asked at once, so that a flood of tokens floods nobody else.
const QUESTIONS: usize = 32;

/// The longest token; the API server's own are below two kilobytes.
const LONGEST_TOKEN: usize = 16 * 1024;

type Digest = [u8; 32];

/// Asks the API server, and remembers its answers for a while.
#[derive(Clone)]
pub struct Reviewer(Arc<Shared>);

struct Shared {
    tokens: Api<TokenReview>,
    rights: Api<SubjectAccessReview>,
    questions: Semaphore,
    /// Kept apart, so that a flood of bad tokens forgets no good one.
    known: Mutex<Cache<Digest, Arc<Person>>>,
    unknown: Mutex<Cache<Digest, ()>>,
    allowed: Mutex<Cache<(Digest, Access), bool>>,
}

/// Somebody the API server knows.
pub struct Person {
    user: UserInfo,
    /// Of all that the API server says of him.
    digest: Digest,
}

impl Person {
    /// His name.
    pub fn name(&self) -> &str {
        self.user.username.as_deref().unwrap_or_default()
    }
}

/// Only the name: the rest is nobody's business.
impl fmt::Debug for Person {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Person").field(&self.name()).finish()
    }
}

impl Reviewer {
    /// Asks this API server.
    pub fn new(client: Client) -> Self {
        Self(Arc::new(Shared {
            tokens: Api::all(client.clone()),
            rights: Api::all(client),
            questions: Semaphore::new(QUESTIONS),
            known: Mutex::new(Cache::new(MOST)),
            unknown: Mutex::new(Cache::new(MOST)),
            allowed: Mutex::new(Cache::new(MOST)),
        }))
    }

    /// Who has this token.
    pub async fn who(&self, token: &str) -> Result<Arc<Person>, Denied> {
        let stranger = || Denied::Unauthenticated("the token is not valid".to_owned());
        if token.is_empty() || token.len() > LONGEST_TOKEN {
            return Err(stranger());
        }
        let digest: Digest = Sha256::digest(token.as_bytes()).into();
        if let Some(person) = held(&self.0.known).get(&digest) {
            return Ok(person);
        }
        if held(&self.0.unknown).get(&digest).is_some() {
            return Err(stranger());
        }
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let answer = self.ask(&self.0.tokens, &review).await?;
        let status = answer.status.unwrap_or_default();
        let user = status.user.filter(|user| {
            let named = user
                .username
                .as_deref()
                .is_some_and(|name| !name.is_empty());
            named && status.authenticated == Some(true)
        });
        let Some(user) = user else {
            held(&self.0.unknown).put(digest, (), REFUSED);
            return Err(stranger());
        };
        let all =
            serde_json::to_vec(&user).map_err(|error| Denied::Undecided(error.to_string()))?;
        let person = Arc::new(Person {
            user,
            digest: Sha256::digest(all).into(),
        });
        held(&self.0.known).put(digest, Arc::clone(&person), KNOWN);
        Ok(person)
    }

    /// Whether somebody may do this.
    pub async fn may(&self, person: &Person, access: &Access) -> Result<(), Denied> {
        let key = (person.digest, access.clone());
        let known = held(&self.0.allowed).get(&key);
        let allowed = if let Some(allowed) = known {
            allowed
        } else {
            let answer = self.ask(&self.0.rights, &question(person, access)).await?;
            let status = answer.status.unwrap_or_default();
            let allowed = status.allowed && status.denied != Some(true);
            let life = if allowed { ALLOWED } else { REFUSED };
            held(&self.0.allowed).put(key, allowed, life);
            allowed
        };
        if allowed {
            return Ok(());
        }
        Err(Denied::Forbidden {
            user: person.name().to_owned(),
            verb: access.verb,
            resource: access.told(),
        })
    }

    async fn ask<K>(&self, api: &Api<K>, question: &K) -> Result<K, Denied>
    where
        K: Clone + serde::Serialize + serde::de::DeserializeOwned + fmt::Debug,
    {
        let asked = async {
            // It is never closed, so that there is always a permit in the end.
            let _permit = self.0.questions.acquire().await.ok();
            api.create(&PostParams::default(), question).await
        };
        let silent = |_: Elapsed| Denied::Undecided(format!("no answer within {LIMIT:?}"));
        let answer = timeout(LIMIT, asked).await.map_err(silent)?;
        // The question has the token in it, the error has not.
        answer.map_err(|error| Denied::Undecided(logs::with_causes(&error)))
    }
}

fn question(person: &Person, access: &Access) -> SubjectAccessReview {
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let user = person.user.clone();
    let extra: Option<BTreeMap<_, _>> = user.extra;
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            groups: user.groups,
            uid: user.uid,
            extra,
            resource_attributes: Some(ResourceAttributes {
                verb: filled(access.verb),
                group: filled(access.group),
                resource: filled(access.resource),
                namespace: filled(&access.namespace),
                name: filled(&access.name),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

/// What is held for the length of a statement only.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
