//! Taking a pod away so that disruption budgets hold.

use std::time::Duration;

use floe_shell::logs;
use k8s_openapi::{
    api::{core::v1::Pod, policy::v1},
    apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions, Status},
};
use kube::{Api, Client, Error, api::PostParams};
use tokio::time::timeout;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes pods away.
#[derive(Clone)]
pub struct Evictor(Client);

/// A pod, as it has to be.
#[derive(Clone, Copy, Debug)]
pub struct Victim<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// Its version, if it must not have changed.
    pub version: Option<&'a str>,
}

/// What came of it.
pub enum Outcome {
    /// The pod goes.
    Evicted,
    /// There is no such pod any more, or another one of its name.
    Gone,
    /// Not now.
    Refused(Refused),
}

/// Why a pod is not taken away now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A disruption budget protects it.
    #[error("a disruption budget protects it for now: {0}")]
    Budget(String),
    /// Anything else.
    #[error("it cannot be evicted: {0}")]
    Other(String),
}

impl Refused {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Budget(_) => "DisruptionBudget",
            Self::Other(_) => "EvictionFailed",
        }
    }
}

impl Outcome {
    /// The stable reason, or that it goes.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::Gone => "PodGone",
            Self::Refused(refused) => refused.reason(),
        }
    }
}

impl Evictor {
    /// By a client that tells refusals as they are: the usual one tries again for minutes
    /// what a budget refuses for now.
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    /// Asks for the end of a pod. The request is written here, because the client library
    /// does not send along which pod is meant.
    pub async fn evict(&self, victim: Victim<'_>) -> Outcome {
        let pods: Api<Pod> = Api::namespaced(self.0.clone(), victim.namespace);
        let body = v1::Eviction {
            metadata: ObjectMeta {
                namespace: Some(victim.namespace.to_owned()),
                name: Some(victim.name.to_owned()),
                ..ObjectMeta::default()
            },
            delete_options: Some(DeleteOptions {
                preconditions: Some(Preconditions {
                    uid: Some(victim.uid.to_owned()),
                    resource_version: victim.version.map(str::to_owned),
                }),
                ..DeleteOptions::default()
            }),
        };
        let params = PostParams::default();
        let call = pods.create_subresource("eviction", victim.name, &params, &body);
        let error = match timeout(PATIENCE, call).await {
            Ok(Ok(Status { .. })) => return Outcome::Evicted,
            Ok(Err(error)) => error,
            Err(_) => {
                let why = format!("no answer within {PATIENCE:?}");
                return Outcome::Refused(Refused::Other(why));
            }
        };
        if let Error::Api(status) = &error {
            if matches!(status.code, 404 | 409) {
                return Outcome::Gone;
            }
            if status.code == 429 && is_of_budget(status) {
                return Outcome::Refused(Refused::Budget(words(status)));
            }
        }
        Outcome::Refused(Refused::Other(logs::with_causes(&error)))
    }
}

/// The same code also means that the API server has too much to do.
fn is_of_budget(status: &kube::core::Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "DisruptionBudget")
}

/// What the budget says, which is more than that there is one.
fn words(status: &kube::core::Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut said = causes
        .filter(|cause| cause.reason == "DisruptionBudget")
        .map(|cause| cause.message.clone());
    said.next().unwrap_or_else(|| status.message.clone())
}
