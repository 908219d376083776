//! Whether the API server serves floe's resources with all of their fields.
//!
//! The API server drops fields that its CRD does not know, without an error. So each CRD is
//! compared with the one of this floe, at the start and every 30 s, and fields that it lacks
//! are reported in the log, in an Event on the CRD, in `/readyz` and in metrics. floe needs no
//! permission to write CRDs, only to read these. An administrator applies them.

use std::time::Duration;

use floe_api::crds;
use floe_shell::{logs, stop::Stop};
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, ResourceExt as _};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use crate::{
    events::{Events, News},
    installation::SCHEMA_OUTDATED,
    metrics::Metrics,
};

use compare::compare;

mod compare;

/// The file with the CRDs of node addresses.
pub const NODE_POOLS_FILE: &str = "deploy/crds/flipop.yaml";

/// CRDs of one file.
pub struct Group {
    /// The CRDs as this floe has them.
    pub crds: Vec<CustomResourceDefinition>,
    /// The file to apply.
    pub file: &'static str,
    /// Whether floe waits for them; a cluster may do without the others.
    pub required: bool,
}

impl Group {
    /// The CRDs of pod addresses, which are galaxy's.
    pub fn pod_ips() -> Self {
        Self {
            crds: crds::all(),
            file: "deploy/crds/galaxy.yaml",
            required: true,
        }
    }

    /// The CRDs of floe's own group.
    pub fn own() -> Self {
        Self {
            crds: crds::own(),
            file: "deploy/crds/floe.yaml",
            required: false,
        }
    }

    /// The CRDs of node addresses, which are FLIPOP's.
    pub fn node_pools() -> Self {
        Self {
            crds: crds::node_pools(),
            file: NODE_POOLS_FILE,
            required: false,
        }
    }
}

/// What a CRD lacks, and what to do about it.
pub fn lacks(crd: &str, fields: &[String], file: &str) -> String {
    /// More would not fit into an Event.
    const SHOWN: usize = 12;
    let mut words = fields[..fields.len().min(SHOWN)].join(", ");
    if fields.len() > SHOWN {
        words = format!("{words} and {} more", fields.len() - SHOWN);
    }
    format!(
        "CRD {crd} lacks {words}, which are not stored; {}",
        remedy(file)
    )
}

fn remedy(file: &str) -> String {
    format!("kubectl apply --server-side --force-conflicts -f {file}")
}

/// The pause between two looks while the watches wait, and later.
const SOON: Duration = Duration::from_secs(2);
const LATER: Duration = Duration::from_secs(30);

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a definition stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Served as floe defines it.
    Served,
    /// Served with another schema that has all fields: that of another floe.
    Differs,
    /// Served with a schema that lacks fields: galaxy's, FLIPOP's, or that of an older floe.
    Lacks,
    /// This process may not read it, and so cannot tell.
    Forbidden,
    /// There, but not served yet.
    NotServed,
    /// Not there.
    Missing,
    /// The API server could not be asked.
    Unknown,
}

impl State {
    /// The stable reason for logs and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Served => "DefinitionServed",
            Self::Differs => "DefinitionDiffers",
            Self::Lacks => SCHEMA_OUTDATED,
            Self::Forbidden => "DefinitionForbidden",
            Self::NotServed => "DefinitionNotServed",
            Self::Missing => "DefinitionMissing",
            Self::Unknown => "DefinitionUnknown",
        }
    }

    /// Whether a watch of the kind can work.
    fn allows_watch(self) -> bool {
        match self {
            Self::Served | Self::Differs | Self::Lacks | Self::Forbidden => true,
            Self::NotServed | Self::Missing | Self::Unknown => false,
        }
    }

    /// Whether the API server has answered how the CRD is, or that there is none.
    fn is_answer(self) -> bool {
        match self {
            Self::Served | Self::Differs | Self::Lacks | Self::NotServed | Self::Missing => true,
            Self::Forbidden | Self::Unknown => false,
        }
    }
}

/// What a look at CRDs is reported to.
pub struct Report {
    /// Where it is counted, and where problems are listed.
    pub metrics: Metrics,
    /// Where Events go.
    pub events: Events,
    /// Becomes true once all required CRDs can be watched, and stays so.
    pub defined: watch::Sender<bool>,
    /// Counts changes of CRDs.
    pub changes: watch::Sender<u64>,
}

/// Looks at the CRDs again and again until `stop`.
pub async fn check(client: Client, groups: Vec<Group>, report: Report, mut stop: Stop) {
    let api = Api::all(client);
    tokio::select! {
        () = stop.requested() => {}
        () = look_forever(&api, &groups, &report) => {}
    }
}

async fn look_forever(api: &Api<CustomResourceDefinition>, groups: &[Group], report: &Report) {
    let all = groups
        .iter()
        .flat_map(|group| group.crds.iter().map(move |crd| Followed::new(group, crd)));
    let mut all: Vec<Followed<'_>> = all.collect();
    loop {
        let mut has_changed = false;
        for crd in &mut all {
            let look = look(api, crd.ours).await;
            has_changed |= crd.enter(&look, report);
        }
        if has_changed {
            report.changes.send_modify(|count| *count += 1);
        }
        let mut required = all.iter().filter(|crd| crd.group.required);
        let is_watchable = |look: &Look| look.state.allows_watch();
        let watchable = required.all(|crd| crd.last.as_ref().is_some_and(is_watchable));
        if watchable {
            report.defined.send_replace(true);
        }
        sleep(if watchable { LATER } else { SOON }).await;
    }
}

/// A CRD that is looked at again and again.
struct Followed<'a> {
    group: &'a Group,
    ours: &'a CustomResourceDefinition,
    last: Option<Look>,
    /// The last look that the API server has answered.
    answered: Option<Look>,
}

impl<'a> Followed<'a> {
    fn new(group: &'a Group, ours: &'a CustomResourceDefinition) -> Self {
        Self {
            group,
            ours,
            last: None,
            answered: None,
        }
    }

    /// Records a look and reports what is new. Returns whether the CRD has changed. A failed look
    /// is no change: otherwise writers would forget which fields the API server drops, and write
    /// all of them again whenever the API server is slow.
    fn enter(&mut self, look: &Look, report: &Report) -> bool {
        if self.last.as_ref() == Some(look) {
            return false;
        }
        report.tell(&self.ours.name_any(), self.group, look);
        let is_first_look = self.last.replace(look.clone()).is_none();
        if !look.state.is_answer() {
            return false;
        }
        match self.answered.replace(look.clone()) {
            Some(before) => before != *look,
            // Objects may have been written under another CRD while looks failed.
            None => !is_first_look,
        }
    }
}

/// What a look at a CRD has found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Look {
    state: State,
    /// The fields that it lacks, as paths.
    lacking: Vec<String>,
    /// Why it could not be read.
    error: Option<String>,
    uid: Option<String>,
    /// Counts changes of its specification.
    generation: Option<i64>,
}

impl Look {
    fn failed(state: State, error: String) -> Self {
        Self {
            state,
            lacking: Vec::new(),
            error: Some(error),
            uid: None,
            generation: None,
        }
    }
}

async fn look(api: &Api<CustomResourceDefinition>, ours: &CustomResourceDefinition) -> Look {
    match timeout(PATIENCE, api.get_opt(&ours.name_any())).await {
        Ok(Ok(served)) => {
            let (state, lacking) = compare(ours, served.as_ref());
            let metadata = served.map(|it| it.metadata).unwrap_or_default();
            Look {
                state,
                lacking,
                error: None,
                uid: metadata.uid,
                generation: metadata.generation,
            }
        }
        Ok(Err(error)) => {
            let forbidden = matches!(&error, kube::Error::Api(status) if status.code == 403);
            let state = if forbidden {
                State::Forbidden
            } else {
                State::Unknown
            };
            Look::failed(state, logs::with_causes(&error))
        }
        Err(_) => Look::failed(State::Unknown, format!("no answer within {PATIENCE:?}")),
    }
}

impl Report {
    fn tell(&self, crd: &str, group: &Group, look: &Look) {
        let (reason, error) = (look.state.reason(), look.error.as_deref());
        let remedy = remedy(group.file);
        // A cluster without a kind that floe does not need is as it should be.
        let is_unused = look.state == State::Missing && !group.required;
        if is_unused {
            info!(reason, crd, remedy, "this cluster does without a CRD");
        } else {
            self.metrics.definition(crd, look.state);
        }
        let installation = self.metrics.installation();
        // Only a CRD that was read can have been fixed.
        if look.state.is_answer() {
            installation.resolve(SCHEMA_OUTDATED, crd);
        }
        match look.state {
            State::Served => info!(reason, crd, "CRD is served"),
            State::Differs => warn!(
                reason,
                crd, remedy, "CRD has another schema than the one of this floe",
            ),
            State::Lacks => {
                let message = lacks(crd, &look.lacking, group.file);
                let fields = &look.lacking;
                warn!(
                    reason,
                    crd,
                    ?fields,
                    remedy,
                    "CRD lacks fields, which are not stored"
                );
                installation.report(reason, crd, &message);
                self.events.tell(News {
                    about: ObjectReference {
                        api_version: Some("apiextensions.k8s.io/v1".into()),
                        kind: Some("CustomResourceDefinition".into()),
                        name: Some(crd.to_owned()),
                        uid: look.uid.clone(),
                        resource_version: look.generation.map(|it| it.to_string()),
                        ..ObjectReference::default()
                    },
                    warning: true,
                    reason,
                    action: "Compare",
                    note: message,
                });
            }
            State::Forbidden => warn!(
                reason,
                crd, error, "CRD may not be read, so its schema is not checked",
            ),
            State::NotServed | State::Missing if !is_unused => {
                warn!(reason, crd, remedy, "CRD is not served; waiting for it");
            }
            State::NotServed | State::Missing => {}
            State::Unknown => warn!(
                reason,
                crd, error, "CRD could not be looked up; trying again",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
