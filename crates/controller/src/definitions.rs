//! Whether the API server serves the resources of galaxy as floe defines them.
//!
//! floe needs no right to write definitions, only to read these two. An
//! administrator applies them; until then this says what to do.

use std::time::Duration;

use floe_api::{crds, galaxy::VERSION};
use floe_shell::{logs, stop::Stop};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt as _};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use crate::metrics::Metrics;

/// What to do about a missing or old definition.
const REMEDY: &str = "kubectl apply --server-side --force-conflicts -f deploy/crds/galaxy.yaml";

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
    /// Served with another schema: galaxy's, or that of another floe.
    Differs,
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
            Self::Forbidden => "DefinitionForbidden",
            Self::NotServed => "DefinitionNotServed",
            Self::Missing => "DefinitionMissing",
            Self::Unknown => "DefinitionUnknown",
        }
    }

    /// Whether a watch of the kind can work.
    fn allows_watch(self) -> bool {
        match self {
            Self::Served | Self::Differs | Self::Forbidden => true,
            Self::NotServed | Self::Missing | Self::Unknown => false,
        }
    }
}

/// Looks at the definitions again and again until `stop`. `defined` becomes true
/// once all of them can be watched, and stays so.
pub async fn check(client: Client, metrics: Metrics, defined: watch::Sender<bool>, mut stop: Stop) {
    let api = Api::all(client);
    tokio::select! {
        () = stop.requested() => {}
        () = look_forever(&api, &metrics, &defined) => {}
    }
}

async fn look_forever(
    api: &Api<CustomResourceDefinition>,
    metrics: &Metrics,
    defined: &watch::Sender<bool>,
) {
    let mut definitions: Vec<(CustomResourceDefinition, Option<State>)> =
        crds::all().into_iter().map(|it| (it, None)).collect();
    loop {
        for (ours, last) in &mut definitions {
            let (state, error) = look(api, ours).await;
            if *last != Some(state) {
                tell(&ours.name_any(), state, error.as_deref());
                metrics.definition(&ours.name_any(), state);
                *last = Some(state);
            }
        }
        let mut states = definitions.iter().filter_map(|(_, state)| *state);
        let watchable = states.all(State::allows_watch);
        if watchable {
            defined.send_replace(true);
        }
        sleep(if watchable { LATER } else { SOON }).await;
    }
}

async fn look(
    api: &Api<CustomResourceDefinition>,
    ours: &CustomResourceDefinition,
) -> (State, Option<String>) {
    match timeout(PATIENCE, api.get_opt(&ours.name_any())).await {
        Ok(Ok(served)) => (compare(ours, served.as_ref()), None),
        Ok(Err(error)) => {
            let forbidden = matches!(&error, kube::Error::Api(status) if status.code == 403);
            let state = if forbidden {
                State::Forbidden
            } else {
                State::Unknown
            };
            (state, Some(logs::with_causes(&error)))
        }
        Err(_) => (
            State::Unknown,
            Some(format!("no answer within {PATIENCE:?}")),
        ),
    }
}

/// Only the schema is compared: the columns are for people, and the rest cannot
/// change.
fn compare(ours: &CustomResourceDefinition, served: Option<&CustomResourceDefinition>) -> State {
    let Some(served) = served else {
        return State::Missing;
    };
    let version = |definition: &CustomResourceDefinition| {
        let mut versions = definition.spec.versions.iter();
        versions.find(|it| it.name == VERSION && it.served).cloned()
    };
    let Some(theirs) = version(served) else {
        return State::NotServed;
    };
    let conditions = served
        .status
        .iter()
        .flat_map(|it| it.conditions.iter().flatten());
    let established = conditions
        .into_iter()
        .any(|it| it.type_ == "Established" && it.status == "True");
    if !established {
        State::NotServed
    } else if version(ours).is_some_and(|ours| ours.schema == theirs.schema) {
        State::Served
    } else {
        State::Differs
    }
}

fn tell(definition: &str, state: State, error: Option<&str>) {
    let reason = state.reason();
    match state {
        State::Served => info!(reason, definition, "definition is served"),
        State::Differs => warn!(
            reason,
            definition,
            remedy = REMEDY,
            "definition has another schema than this floe's, perhaps an older one",
        ),
        State::Forbidden => warn!(
            reason,
            definition, error, "definition may not be read, so its schema is not checked",
        ),
        State::NotServed | State::Missing => warn!(
            reason,
            definition,
            remedy = REMEDY,
            "definition is not served; waiting for it",
        ),
        State::Unknown => warn!(
            reason,
            definition, error, "definition could not be looked up; trying again",
        ),
    }
}

#[cfg(test)]
mod tests;
