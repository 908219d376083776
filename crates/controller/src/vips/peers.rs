//! The key by which agents know each other's messages, in one Secret. Any replica makes it
//! where there is none, and nobody ever changes one that is there.
//!
//! Guarantees: a Secret without our label is not touched. The key is in no log.

use std::time::Duration;

use floe_shell::{logs, stop::Stop};
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, api::PostParams};
use rustls::crypto::ring;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// Where the Secret is, and its name.
const PLACE: (&str, &str) = ("kube-system", "floe-agent-peers");

/// The member with the key, 32 random bytes.
pub const KEY: &str = "key";

/// The label of what floe may fill.
const MADE_BY: (&str, &str) = ("floe.dev/made-by", "floe-controller");

/// How often it is looked whether the key is there, and how soon again after a failure.
const PACE: Duration = Duration::from_mins(5);
const SOON: Duration = Duration::from_secs(5);

/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
enum PeersError {
    #[error("cannot read Secret kube-system/floe-agent-peers")]
    Read(#[source] kube::Error),
    #[error("cannot write Secret kube-system/floe-agent-peers; deploy/controller.yaml has it")]
    Write(#[source] kube::Error),
    #[error("Secret kube-system/floe-agent-peers has no key, and no label that lets floe make one")]
    Foreign,
    #[error("the system gives no random bytes")]
    Random,
    #[error("no answer within {PATIENCE:?}")]
    Silent,
}

impl PeersError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Read(_) => "PeersSecretReadFailed",
            Self::Write(_) => "PeersSecretWriteFailed",
            Self::Foreign => "PeersSecretForeign",
            Self::Random => "PeersSecretNoRandom",
            Self::Silent => "PeersSecretTimeout",
        }
    }
}

/// Sees to it that there is a key, until `stop`.
pub async fn keep(client: Client, mut stop: Stop) {
    let api = Api::namespaced(client, PLACE.0);
    tokio::select! {
        () = stop.requested() => {}
        () = look_forever(&api) => {}
    }
}

async fn look_forever(api: &Api<Secret>) {
    let mut told = None;
    loop {
        let looked = timeout(PATIENCE, look(api)).await;
        match looked.unwrap_or(Err(PeersError::Silent)) {
            Ok(()) => {
                told = None;
                sleep(PACE).await;
            }
            Err(error) => {
                let reason = error.reason();
                if told.replace(reason) != Some(reason) {
                    let error = logs::with_causes(&error);
                    warn!(reason, error, "agents have no key to know each other by");
                }
                sleep(SOON).await;
            }
        }
    }
}

async fn look(api: &Api<Secret>) -> Result<(), PeersError> {
    let found = api.get_opt(PLACE.1).await.map_err(PeersError::Read)?;
    let written = match found {
        Some(secret) if has_key(&secret) => return Ok(()),
        Some(secret) if !is_ours(&secret) => return Err(PeersError::Foreign),
        Some(mut secret) => {
            let data = secret.data.get_or_insert_default();
            data.insert(KEY.to_owned(), random()?);
            // Bound to the version that was read, so a key of another replica stays.
            api.replace(PLACE.1, &PostParams::default(), &secret).await
        }
        None => api.create(&PostParams::default(), &new()?).await,
    };
    match written {
        Ok(_) => {
            info!("made the key by which agents know each other");
            Ok(())
        }
        // Another replica was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(PeersError::Write(error)),
    }
}

fn has_key(secret: &Secret) -> bool {
    let data = secret.data.as_ref();
    data.and_then(|data| data.get(KEY))
        .is_some_and(|key| !key.0.is_empty())
}

fn is_ours(secret: &Secret) -> bool {
    let labels = secret.metadata.labels.as_ref();
    labels
        .and_then(|all| all.get(MADE_BY.0))
        .map(String::as_str)
        == Some(MADE_BY.1)
}

fn new() -> Result<Secret, PeersError> {
    let labels = [MADE_BY, ("app.kubernetes.io/part-of", "floe")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(PLACE.1.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        data: Some([(KEY.to_owned(), random()?)].into()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    })
}

fn random() -> Result<ByteString, PeersError> {
    let mut key = vec![0; 32];
    let filled = ring::default_provider().secure_random.fill(&mut key);
    filled.map_err(|_| PeersError::Random)?;
    Ok(ByteString(key))
}
