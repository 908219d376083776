//! Certificates that floe makes itself: an authority and what it signs, in one
//! Secret that all replicas share.
//!
//! Whichever replica comes first makes or renews them; the others lose the race by
//! the version of the object, and take what they find. All of them follow the
//! Secret, so that new certificates are in force without a restart. Nothing here
//! knows what the certificates are for.
//!
//! Guarantees: a Secret without our label is neither used nor touched. Content that
//! is of no use is told, never overwritten, and what was in force stays so.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use floe_core::certificates::{Decision, Issue, Why, decide};
use floe_shell::{follow, logs, stop::Stop};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, ResourceExt as _, api::PostParams, runtime::watcher};
use rustls::pki_types::ServerName;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tracing::{info, warn};

use crate::{metrics::Metrics, transport::tls::Secrets};

mod issue;
mod material;
mod object;

use issue::IssueError;
use material::{Material, MaterialError};

/// How often it is looked whether something is to be done.
const PERIOD: Duration = Duration::from_mins(5);

/// The same after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// How long the API server may take.
const LIMIT: Duration = Duration::from_secs(10);

/// How often a lost race is run again at once.
const RACES: usize = 5;

/// Where the certificates are, and what for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of both objects.
    pub namespace: String,
    /// The Secret that has them.
    pub secret: String,
    /// The `ConfigMap` that shows clients whom to trust, if they look there.
    pub shown: Option<String>,
    /// The names and addresses of whoever serves them.
    pub names: BTreeSet<String>,
    /// That of the names by which replicas know each other.
    pub peer: ServerName<'static>,
}

/// Why there is no certificate, or no new one.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("cannot read the {0}")]
    Read(&'static str, #[source] kube::Error),
    #[error("cannot write the {0}")]
    Write(&'static str, #[source] kube::Error),
    #[error("others write the {0} all the time")]
    Conflict(&'static str),
    #[error("no answer within {LIMIT:?}")]
    Silent,
    #[error(
        "the {0} has no label {label}={value}, so it is not floe's; remove it or choose another name",
        label = object::LABEL,
        value = object::VALUE
    )]
    Foreign(&'static str),
    #[error("the Secret is of no use; remove its data to have floe make new certificates")]
    Material(#[source] MaterialError),
    #[error("cannot make a certificate")]
    Issue(#[source] IssueError),
    #[error(
        "the certificate has not begun, and was made anew a moment ago: the clocks of the replicas differ"
    )]
    Clocks,
}

impl KeepError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Read(..) => "CertificateReadFailed",
            Self::Write(..) => "CertificateWriteFailed",
            Self::Conflict(_) => "CertificateConflict",
            Self::Silent => "CertificateTimeout",
            Self::Foreign(_) => "CertificateObjectForeign",
            Self::Material(error) => error.reason(),
            Self::Issue(_) => "CertificateNotMade",
            Self::Clocks => "CertificateClocksDiffer",
        }
    }
}

/// Keeps certificates valid and in force.
pub struct Keeper {
    secrets: Api<Secret>,
    maps: Api<ConfigMap>,
    settings: Settings,
    clock: fn() -> Timestamp,
    /// What is in force, as it is in the Secret.
    held: Option<Material>,
    /// What went wrong last; the same is told once.
    failure: Option<String>,
    /// When this replica last took a certificate back that another clock has made.
    corrected: Option<Instant>,
    metrics: Metrics,
    sender: watch::Sender<Arc<Secrets>>,
    authorities: watch::Sender<Vec<u8>>,
}

impl Keeper {
    /// Nothing is in force yet.
    pub fn new(client: Client, settings: Settings) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &settings.namespace),
            maps: Api::namespaced(client, &settings.namespace),
            settings,
            clock: Timestamp::now,
            held: None,
            failure: None,
            corrected: None,
            metrics: Metrics::default(),
            sender: watch::Sender::new(Arc::new(Secrets::none())),
            authorities: watch::Sender::default(),
        }
    }

    /// The same, which also notes here until when they are good.
    pub fn noting(self, metrics: Metrics) -> Self {
        Self { metrics, ..self }
    }

    /// What is in force.
    pub fn secrets(&self) -> watch::Receiver<Arc<Secrets>> {
        self.sender.subscribe()
    }

    /// Whom clients shall trust, in PEM; empty as long as there is nobody.
    pub fn authorities(&self) -> watch::Receiver<Vec<u8>> {
        self.authorities.subscribe()
    }

    /// Keeps them until `stop`.
    pub async fn run(mut self, mut stop: Stop) {
        let changed = Notify::new();
        let name = self.settings.secret.clone();
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let watched = follow(self.secrets.clone(), config, "certificates", |event| {
            let ours = match &event {
                watcher::Event::Apply(secret) | watcher::Event::Delete(secret) => {
                    secret.name_any() == name
                }
                // What went on while nobody watched is not known.
                watcher::Event::InitDone => true,
                watcher::Event::Init | watcher::Event::InitApply(_) => false,
            };
            if ours {
                changed.notify_one();
            }
        });
        let kept = async {
            loop {
                let pause = self.look().await;
                tokio::select! {
                    () = changed.notified() => {}
                    () = sleep(pause) => {}
                }
            }
        };
        tokio::select! {
            () = stop.requested() => {}
            () = watched => {}
            () = kept => {}
        }
    }

    /// Does what is to be done now, and says when to look again.
    async fn look(&mut self) -> Duration {
        let result = timeout(LIMIT, self.settle()).await;
        match result.unwrap_or(Err(KeepError::Silent)) {
            Ok(()) => {
                self.failure = None;
                PERIOD
            }
            Err(error) => {
                let told = logs::with_causes(&error);
                if self.failure.as_ref() != Some(&told) {
                    warn!(
                        reason = error.reason(),
                        error = told,
                        secret = self.settings.secret,
                        namespace = self.settings.namespace,
                        "certificates are not as they should be, the old ones stay in force",
                    );
                }
                self.failure = Some(told);
                RETRY
            }
        }
    }

    async fn settle(&mut self) -> Result<(), KeepError> {
        for _ in 0..RACES {
            match self.take_up().await {
                Err(KeepError::Conflict(_)) => {}
                Err(error) => return Err(error),
                Ok(()) => return self.show().await,
            }
        }
        Err(KeepError::Conflict("Secret"))
    }

    /// Reads the Secret, has something made if it must be, and puts it in force.
    async fn take_up(&mut self) -> Result<(), KeepError> {
        let found = self.secrets.get_opt(&self.settings.secret).await;
        let found = found.map_err(|error| KeepError::Read("Secret", error))?;
        if found.as_ref().is_some_and(|found| !object::is_ours(found)) {
            return Err(KeepError::Foreign("Secret"));
        }
        let material = match &found {
            Some(found) => object::material(found).map_err(KeepError::Material)?,
            None => None,
        };
        let now = (self.clock)();
        let held = material.as_ref().map(Material::held).transpose();
        let held = held.map_err(KeepError::Material)?;
        match decide(held.as_ref(), &self.settings.names, now) {
            Decision::Keep { .. } => match material {
                Some(material) => self.enforce(material),
                // The decision was made on it.
                None => Ok(()),
            },
            Decision::Issue(wanted) => {
                let corrects = wanted.why == Why::NotBegun;
                // Two replicas whose clocks differ would correct each other without a pause.
                if corrects && self.corrected.is_some_and(|last| last.elapsed() < PERIOD) {
                    return Err(KeepError::Clocks);
                }
                self.issue(found, material, &wanted, now).await?;
                if corrects {
                    self.corrected = Some(Instant::now());
                }
                Ok(())
            }
        }
    }

    async fn issue(
        &mut self,
        found: Option<Secret>,
        material: Option<Material>,
        wanted: &Issue,
        now: Timestamp,
    ) -> Result<(), KeepError> {
        let made = issue::issue(material.as_ref(), wanted, now).map_err(KeepError::Issue)?;
        let (params, name) = (PostParams::default(), &self.settings.secret);
        let written = match found {
            None => {
                let object = object::new_secret(name, &made);
                self.secrets.create(&params, &object).await
            }
            // It has the version that was read, so that nobody's write is lost.
            Some(found) => {
                let object = object::into_secret(found, &made);
                self.secrets.replace(name, &params, &object).await
            }
        };
        settled(written, "Secret")?;
        info!(
            reason = wanted.why.reason(),
            secret = name,
            successor = wanted.successor,
            "made a certificate"
        );
        self.enforce(made)
    }

    fn enforce(&mut self, material: Material) -> Result<(), KeepError> {
        if self.held.as_ref() == Some(&material) {
            return Ok(());
        }
        let secrets = material.secrets(self.settings.peer.clone(), (self.clock)());
        let secrets = secrets.map_err(KeepError::Material)?;
        let held = material.held().map_err(KeepError::Material)?;
        let end = held.certificate.end;
        self.metrics.certificate(&self.settings.secret, end);
        self.authorities.send_replace(material.authorities.clone());
        self.sender.send_replace(Arc::new(secrets));
        self.held = Some(material);
        info!(secret = self.settings.secret, "certificates are in force");
        Ok(())
    }

    /// Shows clients whom to trust.
    async fn show(&self) -> Result<(), KeepError> {
        let (Some(held), Some(name)) = (&self.held, &self.settings.shown) else {
            return Ok(());
        };
        let params = PostParams::default();
        for _ in 0..RACES {
            let found = self.maps.get_opt(name).await;
            let found = found.map_err(|error| KeepError::Read("ConfigMap", error))?;
            let written = match found {
                None => {
                    let object = object::new_map(name, held);
                    self.maps.create(&params, &object).await
                }
                Some(found) if !object::is_ours(&found) => {
                    return Err(KeepError::Foreign("ConfigMap"));
                }
                Some(found) if object::shows(&found, held) => return Ok(()),
                Some(found) => {
                    let object = object::into_map(found, held);
                    self.maps.replace(name, &params, &object).await
                }
            };
            match settled(written, "ConfigMap") {
                Err(KeepError::Conflict(_)) => {}
                result => return result,
            }
        }
        Err(KeepError::Conflict("ConfigMap"))
    }
}

/// Tells a lost race from other failures.
fn settled<K>(written: kube::Result<K>, what: &'static str) -> Result<(), KeepError> {
    match written {
        Ok(_) => Ok(()),
        // Both "already exists" and "conflict"; and what was to be replaced is gone.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {
            Err(KeepError::Conflict(what))
        }
        Err(error) => Err(KeepError::Write(what, error)),
    }
}

#[cfg(test)]
mod tests;
