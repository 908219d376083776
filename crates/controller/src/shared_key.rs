//! A random key in a Secret, for processes that authenticate each other's messages. Any
//! replica fills the Secret where it has no key, and no replica ever changes a key.
//!
//! Guarantees: a Secret without floe's label is not touched. The key appears in no log.

use std::time::Duration;

use floe_shell::{logs, stop::Stop};
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, api::PostParams};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use crate::installation::Installation;

/// The member with the key, 32 random bytes.
pub const KEY: &str = "key";

/// A shorter value is no key.
const SHORTEST: usize = 16;

/// The label of Secrets that floe may fill.
const MADE_BY: (&str, &str) = ("floe.dev/made-by", "floe-controller");

/// How often the Secret is read, and how soon again after a failure.
const PACE: Duration = Duration::from_mins(5);
const SOON: Duration = Duration::from_secs(5);

/// The longest pause between two refused writes.
const LONGEST_WRITE_PAUSE: Duration = Duration::from_mins(1);

/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A key that several processes share; `None` until it was read.
pub type Shared = Option<ByteString>;

/// Which Secret has a key, and what for.
#[derive(Clone, Debug)]
pub struct Place {
    /// The namespace of the Secret.
    pub namespace: String,
    /// Its name.
    pub name: &'static str,
    /// Which processes use it, for logs.
    pub purpose: &'static str,
    /// What does not work without it, for administrators.
    pub without: &'static str,
}

impl Place {
    /// What is wrong, what does not work, and what to do about it.
    fn problem(&self, error: &KeyError) -> String {
        let (cause, without) = (logs::with_causes(error), self.without);
        format!("{cause}; without its key {without}; {}", error.remedy())
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error("cannot read the Secret")]
    Read(#[source] kube::Error),
    #[error("cannot write the Secret")]
    Write(#[source] kube::Error),
    #[error("the Secret has no key, and no label that lets floe make one")]
    Foreign,
    #[error("the system provides no random bytes")]
    Random,
    #[error("no answer within {PATIENCE:?}")]
    Silent,
}

impl KeyError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Read(_) => "PeersSecretReadFailed",
            Self::Write(_) => "PeersSecretWriteFailed",
            Self::Foreign => "PeersSecretForeign",
            Self::Random => "PeersSecretNoRandom",
            Self::Silent => "PeersSecretTimeout",
        }
    }

    fn remedy(&self) -> &'static str {
        match self {
            Self::Read(_) | Self::Write(_) => {
                "apply deploy/controller.yaml, which has the Secret and the permissions"
            }
            Self::Foreign => {
                "label it floe.dev/made-by=floe-controller, or delete it and apply \
                 deploy/controller.yaml; floe then makes the key"
            }
            Self::Random | Self::Silent => "floe tries again every 5 s",
        }
    }
}

/// Sees to it that there is a key, and publishes it, until `stop`. After a failure the last
/// key stays in force.
pub async fn keep(
    client: Client,
    place: Place,
    key: watch::Sender<Shared>,
    installation: Installation,
    mut stop: Stop,
) {
    let api = Api::namespaced(client, &place.namespace);
    tokio::select! {
        () = stop.requested() => {}
        () = look_forever(&api, &place, &key, &installation) => {}
    }
}

async fn look_forever(
    api: &Api<Secret>,
    place: &Place,
    key: &watch::Sender<Shared>,
    installation: &Installation,
) {
    let subject = format!("secrets {}/{}", place.namespace, place.name);
    let mut logged: Option<&'static str> = None;
    let mut write_pause = SOON;
    loop {
        let looked = timeout(PATIENCE, look(api, place)).await;
        match looked.unwrap_or(Err(KeyError::Silent)) {
            Ok(found) => {
                if let Some(before) = logged.take() {
                    installation.resolve(before, &subject);
                }
                write_pause = SOON;
                let is_known = found.is_some();
                key.send_replace(found);
                sleep(if is_known { PACE } else { SOON }).await;
            }
            Err(error) => {
                let reason = error.reason();
                let pause = if matches!(error, KeyError::Write(_)) {
                    let next = (write_pause * 2).min(LONGEST_WRITE_PAUSE);
                    std::mem::replace(&mut write_pause, next)
                } else {
                    write_pause = SOON;
                    SOON
                };
                let before = logged.replace(reason);
                if let Some(before) = before.filter(|it| *it != reason) {
                    installation.resolve(before, &subject);
                }
                // A key that is in force goes on working.
                if key.borrow().is_none() {
                    installation.report(reason, &subject, &place.problem(&error));
                }
                if before != Some(reason) {
                    warn!(
                        reason,
                        namespace = place.namespace,
                        secret = place.name,
                        purpose = place.purpose,
                        error = logs::with_causes(&error),
                        remedy = error.remedy(),
                        "cannot get the key for messages between processes",
                    );
                }
                sleep(pause).await;
            }
        }
    }
}

/// The key in the Secret, made where there is none; `None` if another replica was faster.
async fn look(api: &Api<Secret>, place: &Place) -> Result<Shared, KeyError> {
    let found = api.get_opt(place.name).await.map_err(KeyError::Read)?;
    let written = match found {
        Some(secret) if key_of(&secret).is_some() => return Ok(key_of(&secret)),
        Some(secret) if !is_ours(&secret) => return Err(KeyError::Foreign),
        Some(mut secret) => {
            let data = secret.data.get_or_insert_default();
            data.insert(KEY.to_owned(), random()?);
            // Bound to the version that was read, so a key of another replica stays.
            let parameters = PostParams::default();
            api.replace(place.name, &parameters, &secret).await
        }
        None => api.create(&PostParams::default(), &new(place.name)?).await,
    };
    match written {
        Ok(secret) => {
            info!(
                secret = place.name,
                purpose = place.purpose,
                "made a shared key"
            );
            Ok(key_of(&secret))
        }
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(error) => Err(KeyError::Write(error)),
    }
}

fn key_of(secret: &Secret) -> Shared {
    let key = secret.data.as_ref()?.get(KEY)?;
    (key.0.len() >= SHORTEST).then(|| key.clone())
}

fn is_ours(secret: &Secret) -> bool {
    let labels = secret.metadata.labels.as_ref();
    labels
        .and_then(|all| all.get(MADE_BY.0))
        .map(String::as_str)
        == Some(MADE_BY.1)
}

fn new(name: &str) -> Result<Secret, KeyError> {
    let labels = [MADE_BY, ("app.kubernetes.io/part-of", "floe")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        data: Some([(KEY.to_owned(), random()?)].into()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    })
}

fn random() -> Result<ByteString, KeyError> {
    let mut key = vec![0; 32];
    let filled = SystemRandom::new().fill(&mut key);
    filled.map_err(|_| KeyError::Random)?;
    Ok(ByteString(key))
}
