//! Who signs: a key that the environment or files have, or a role that a Kubernetes service
//! account may take.

use std::{
    fmt,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use floe_core::nodepool::cloud::{Class, Refusal};
use jiff::Timestamp;
use serde::Deserialize;

use super::{AGENT, Coded, domain, endpoint, form, read, region};
use crate::{
    cloud::query::{self, Environment},
    http::{Http, Secret},
};

/// How long before their end keys are no longer used.
const MARGIN: Duration = Duration::from_mins(5);

/// The version of the API of the token service.
const VERSION: &str = "2011-06-15";

/// Where keys come from.
pub struct Credentials(Source);

enum Source {
    /// Keys of the environment, or in files, which are read for each request: whoever
    /// renews them need not start floe again.
    Given {
        id: Kept,
        secret: Kept,
        token: Option<Kept>,
    },
    /// Keys of a role, which the token service hands out for a token of Kubernetes.
    Role(Box<Role>),
}

/// What a request is signed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The name of the key.
    pub id: String,
    /// The key.
    pub secret: Secret,
    /// What has to be sent along with keys that end.
    pub token: Option<Secret>,
}

enum Kept {
    Here(Secret),
    File { name: String, path: PathBuf },
}

struct Role {
    service: Http,
    arn: String,
    session: String,
    token: Kept,
    /// The last keys, and until when they are good.
    last: Mutex<Option<(Keys, SystemTime)>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

impl Credentials {
    /// Keys that never change.
    pub fn fixed(id: &str, secret: Secret, token: Option<Secret>) -> Self {
        Self(Source::Given {
            id: Kept::Here(Secret::new(id)),
            secret: Kept::Here(secret),
            token: token.map(Kept::Here),
        })
    }

    /// What the environment has: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and
    /// `AWS_SESSION_TOKEN`, each also with `_FILE`; or else `AWS_ROLE_ARN` and
    /// `AWS_WEB_IDENTITY_TOKEN_FILE`.
    ///
    /// # Errors
    /// When half of it is missing, or cannot be used.
    pub fn from_environment(environment: Environment<'_>) -> Result<Option<Self>, String> {
        let id = Kept::find(environment, "AWS_ACCESS_KEY_ID");
        let secret = Kept::find(environment, "AWS_SECRET_ACCESS_KEY");
        match (id, secret) {
            (Some(id), Some(secret)) => {
                let token = Kept::find(environment, "AWS_SESSION_TOKEN");
                return Ok(Some(Self(Source::Given { id, secret, token })));
            }
            (Some(_), None) => {
                return Err("AWS_SECRET_ACCESS_KEY: missing beside AWS_ACCESS_KEY_ID".to_owned());
            }
            (None, Some(_)) => {
                return Err("AWS_ACCESS_KEY_ID: missing beside AWS_SECRET_ACCESS_KEY".to_owned());
            }
            (None, None) => {}
        }
        let name = "AWS_WEB_IDENTITY_TOKEN_FILE".to_owned();
        let path = query::option(environment, &name);
        let (Some(arn), Some(path)) = (query::option(environment, "AWS_ROLE_ARN"), path) else {
            return Ok(None);
        };
        let region = region(environment).unwrap_or_else(|| "us-east-1".to_owned());
        let usual = format!("https://sts.{region}.{}", domain(&region));
        let endpoint = endpoint(environment, "AWS_ENDPOINT_URL_STS", usual);
        let session = query::option(environment, "AWS_ROLE_SESSION_NAME");
        Ok(Some(Self(Source::Role(Box::new(Role {
            service: Http::new(&endpoint, AGENT)?,
            arn,
            session: session.unwrap_or_else(|| "floe".to_owned()),
            token: Kept::File {
                name,
                path: path.into(),
            },
            last: Mutex::default(),
        })))))
    }

    /// The keys for a request that is made now.
    pub async fn keys(&self) -> Result<Keys, Refusal> {
        match &self.0 {
            Source::Given { id, secret, token } => Ok(Keys {
                id: id.read().await?.expose().to_owned(),
                secret: secret.read().await?,
                token: match token {
                    Some(token) => Some(token.read().await?),
                    None => None,
                },
            }),
            Source::Role(role) => role.keys().await,
        }
    }
}

impl Kept {
    fn find(environment: Environment<'_>, name: &str) -> Option<Self> {
        if let Some(value) = query::option(environment, name) {
            return Some(Self::Here(Secret::new(&value)));
        }
        let name = format!("{name}_FILE");
        let path = query::option(environment, &name)?.into();
        Some(Self::File { name, path })
    }

    async fn read(&self) -> Result<Secret, Refusal> {
        let (name, path) = match self {
            Self::Here(secret) => return Ok(secret.clone()),
            Self::File { name, path } => (name, path),
        };
        let refused = |why: &dyn fmt::Display| {
            let words = format!("{name}: cannot read {}: {why}", path.display());
            Refusal::new(Class::Unauthorized, words)
        };
        let text = tokio::fs::read_to_string(path).await;
        let secret = Secret::new(&text.map_err(|error| refused(&error))?);
        if secret.expose().is_empty() {
            return Err(refused(&"it is empty"));
        }
        Ok(secret)
    }
}

/// What the token service answers.
#[derive(Deserialize)]
struct Assumed {
    #[serde(rename = "AssumeRoleWithWebIdentityResult")]
    result: AssumedResult,
}

#[derive(Deserialize)]
struct AssumedResult {
    #[serde(rename = "Credentials")]
    keys: AssumedKeys,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AssumedKeys {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    expiration: String,
}

impl Role {
    async fn keys(&self) -> Result<Keys, Refusal> {
        let last = self.last().clone();
        if let Some((keys, end)) = last
            && SystemTime::now() + MARGIN < end
        {
            return Ok(keys);
        }
        let (keys, end) = self.assume().await?;
        *self.last() = Some((keys.clone(), end));
        Ok(keys)
    }

    /// Nobody panics with the lock; if it happens, keys stay good.
    fn last(&self) -> MutexGuard<'_, Option<(Keys, SystemTime)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for new keys. Two that ask at once get different ones, which are both good.
    async fn assume(&self) -> Result<(Keys, SystemTime), Refusal> {
        let token = self.token.read().await?;
        let request = form(&[
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", VERSION),
            ("RoleArn", &self.arn),
            ("RoleSessionName", &self.session),
            ("WebIdentityToken", token.expose()),
        ]);
        let answer = self.service.send(request).await;
        let answer = answer.map_err(|refusal| harmless(refusal.into()))?;
        let assumed = read::<Assumed>(&answer).map_err(harmless)?;
        let keys = assumed.result.keys;
        let end: Timestamp = keys.expiration.parse().map_err(|_| {
            let words = format!("keys until {:?}, which is no time", keys.expiration);
            Refusal::new(Class::Unavailable, words)
        })?;
        let token = Secret::new(&keys.session_token);
        let keys = Keys {
            id: keys.access_key_id,
            secret: Secret::new(&keys.secret_access_key),
            token: Some(token),
        };
        Ok((keys, end.into()))
    }
}

/// New keys without an answer are no change of anything.
fn harmless(coded: Coded) -> Refusal {
    let mut refusal = coded.of_a_question().refusal;
    refusal.message = format!("no keys for the role: {}", refusal.message);
    refusal
}
