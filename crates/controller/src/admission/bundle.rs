//! Whom the API server trusts: the authorities of the webhook's certificate, written into
//! the webhook configurations.
//!
//! Guarantees: only the member `caBundle` of entries that lead to floe's own service is
//! changed. Whoever applies the configurations anew has it mended at once.

use std::time::Duration;

use floe_shell::{follow, logs, stop::Stop};
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
    },
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    runtime::watcher,
};
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tracing::{info, warn};

/// The name of both configurations.
pub const NAME: &str = "floe";

/// The service by which the API server reaches the webhook.
pub const SERVICE: &str = "floe-webhook";

/// How often it is looked whether something is to be done.
const PERIOD: Duration = Duration::from_mins(5);

/// The same after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// How long the API server may take.
const LIMIT: Duration = Duration::from_secs(10);

/// How often a lost race is run again at once.
const RACES: usize = 5;

/// Why a configuration is not as it should be.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("cannot read the {0}")]
    Read(&'static str, #[source] kube::Error),
    #[error("cannot write the {0}")]
    Write(&'static str, #[source] kube::Error),
    #[error("others write the {0} all the time")]
    Conflict(&'static str),
    #[error("no answer within {LIMIT:?}")]
    Silent,
}

/// Writes them.
pub struct Publisher {
    configurations: [(&'static str, Api<DynamicObject>); 2],
    authorities: watch::Receiver<Vec<u8>>,
    /// What went wrong last; the same is told once.
    failure: Option<String>,
}

impl Publisher {
    /// Writes these authorities, once there are some.
    pub fn new(client: Client, authorities: watch::Receiver<Vec<u8>>) -> Self {
        let validating = ApiResource::erase::<ValidatingWebhookConfiguration>(&());
        let mutating = ApiResource::erase::<MutatingWebhookConfiguration>(&());
        let configurations = [
            (
                "ValidatingWebhookConfiguration",
                Api::all_with(client.clone(), &validating),
            ),
            (
                "MutatingWebhookConfiguration",
                Api::all_with(client, &mutating),
            ),
        ];
        Self {
            configurations,
            authorities,
            failure: None,
        }
    }

    /// Keeps them written until `stop`.
    pub async fn run(mut self, mut stop: Stop) {
        let changed = Notify::new();
        let config = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
        let [(_, validating), (_, mutating)] = self.configurations.clone();
        let watched = follow(validating, config.clone(), "webhooks", |_| {
            changed.notify_one();
        });
        let mutating = follow(mutating, config, "mutating webhooks", |_| {
            changed.notify_one();
        });
        let kept = async {
            let mut authorities = self.authorities.clone();
            loop {
                let pause = self.look().await;
                tokio::select! {
                    () = changed.notified() => {}
                    // The sender lives as long as the process; if not, time goes on.
                    Ok(()) = authorities.changed() => {}
                    () = sleep(pause) => {}
                }
            }
        };
        tokio::select! {
            () = stop.requested() => {}
            () = watched => {}
            () = mutating => {}
            () = kept => {}
        }
    }

    /// Does what is to be done now, and says when to look again.
    async fn look(&mut self) -> Duration {
        let authorities = self.authorities.borrow().clone();
        if authorities.is_empty() {
            return PERIOD;
        }
        let bundle = ByteString(authorities);
        let result = timeout(LIMIT, self.settle(&json!(bundle))).await;
        match result.unwrap_or(Err(Failure::Silent)) {
            Ok(()) => {
                self.failure = None;
                PERIOD
            }
            Err(error) => {
                let told = logs::with_causes(&error);
                if self.failure.as_ref() != Some(&told) {
                    let reason = "WebhookNotTrusted";
                    warn!(
                        reason,
                        error = told,
                        "the API server may not trust the webhook"
                    );
                }
                self.failure = Some(told);
                RETRY
            }
        }
    }

    async fn settle(&self, bundle: &Value) -> Result<(), Failure> {
        for (kind, api) in &self.configurations {
            publish(kind, api, bundle).await?;
        }
        Ok(())
    }
}

async fn publish(
    kind: &'static str,
    api: &Api<DynamicObject>,
    bundle: &Value,
) -> Result<(), Failure> {
    for _ in 0..RACES {
        let found = api.get_opt(NAME).await;
        let found = found.map_err(|error| Failure::Read(kind, error))?;
        // Whoever does not want the webhook has not applied it.
        let Some(patch) = found.as_ref().and_then(|found| patch(found, bundle)) else {
            return Ok(());
        };
        let params = PatchParams::default();
        match api.patch(NAME, &params, &Patch::Merge(&patch)).await {
            Ok(_) => {
                info!(kind, "the API server trusts the webhook from now on");
                return Ok(());
            }
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
            Err(error) => return Err(Failure::Write(kind, error)),
        }
    }
    Err(Failure::Conflict(kind))
}

/// What is to be changed. A list is replaced as a whole, so it is that of the version that
/// was read.
fn patch(found: &DynamicObject, bundle: &Value) -> Option<Value> {
    let mut webhooks = found.data.get("webhooks")?.clone();
    let mut changed = false;
    for webhook in webhooks.as_array_mut()? {
        let client = &mut webhook["clientConfig"];
        if client["service"]["name"] == SERVICE && client["caBundle"] != *bundle {
            client["caBundle"] = bundle.clone();
            changed = true;
        }
    }
    let version = &found.metadata.resource_version;
    changed.then(|| json!({ "metadata": { "resourceVersion": version }, "webhooks": webhooks }))
}

#[cfg(test)]
mod tests;
