//! What is known of custom kinds: how they are served, and where objects of a
//! kind say how many pods they want.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use floe_core::ipam::owner::GroupKind;
use kube::{Api, Client, api::DynamicObject};
use tokio::{sync::Mutex as Turn, time::Instant};

use super::{
    discovery::{self, NotFound, Served},
    replicas::{Found, replicas_at},
};
use crate::cluster::{
    Freshness,
    ask::{Failure, Right, ask},
    lock,
    slim::DefinitionObject,
};

/// How long a good answer is good.
const LONG: Duration = Duration::from_mins(5);

/// How long an answer is good that people may be about to change, and the pause
/// between two discoveries.
const SHORT: Duration = Duration::from_secs(1);

/// The pause after a discovery that failed.
const RETRY: Duration = Duration::from_secs(1);

/// A kind, and where its replicas are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// How it is served.
    pub served: Served,
    /// Where its replicas are.
    pub replicas: Replicas,
}

/// Where the replicas of a kind are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// At this path.
    At(String),
    /// It has none.
    None,
    /// Nobody could tell, and why.
    Unknown(String),
}

/// Why nothing is known of a kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The API server does not serve it.
    #[error("no API serves the kind {0}")]
    NotServed(GroupKind),
    /// It was served, and its definition is deleted, and with it all its objects.
    #[error("{why}")]
    Vanished {
        /// The same in words.
        why: String,
    },
    /// There are several, and nothing tells which.
    #[error("the kind {kind} is ambiguous: {}", fitting.join(", "))]
    Ambiguous {
        /// The kind.
        kind: GroupKind,
        /// Those that fit.
        fitting: Vec<String>,
    },
    /// The API server does not say what it serves.
    #[error("cannot discover the kind {kind}: {why}")]
    Undiscovered {
        /// The kind.
        kind: GroupKind,
        /// What went wrong.
        why: String,
    },
}

impl Kind {
    /// How many pods an object wants.
    pub fn replicas_of(&self, object: &DynamicObject) -> Found {
        match &self.replicas {
            Replicas::At(path) => replicas_at(path, &object.data),
            Replicas::None => Ok(None),
            Replicas::Unknown(why) => Err(why.clone()),
        }
    }
}

/// Finds kinds, and remembers them.
pub struct Kinds {
    client: Client,
    known: Mutex<Known>,
    /// Discoveries happen one at a time.
    turn: Turn<()>,
}

#[derive(Default)]
struct Known {
    served: Vec<Served>,
    /// When that was read.
    discovered: Option<Instant>,
    /// Whether it was found to be wrong since.
    outdated: bool,
    /// When a discovery last failed, and why, if that was the last one.
    failed: Option<(Instant, String)>,
    /// By the name of the definition: when it was read, for which version, and
    /// what it says.
    definitions: HashMap<String, (Instant, String, Replicas)>,
    /// Kinds that had a definition when it was last read.
    defined: Vec<Served>,
}

impl Kinds {
    /// Asks through this client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
            turn: Turn::default(),
        }
    }

    /// A kind. With [`Freshness::Direct`], where its replicas are is read now.
    pub async fn find(&self, wanted: &GroupKind, freshness: Freshness) -> Result<Kind, Missing> {
        let served = self.served(wanted).await;
        if let Err(Missing::NotServed(_)) = &served
            && let Some(why) = self.vanished(wanted).await
        {
            return Err(Missing::Vanished { why });
        }
        let served = served?;
        let replicas = self.replicas(&served, freshness).await;
        Ok(Kind { served, replicas })
    }

    /// What is served is not what discovery has said.
    pub fn outdated(&self) {
        self.known().outdated = true;
    }

    async fn served(&self, wanted: &GroupKind) -> Result<Served, Missing> {
        let fresh = {
            let known = self.known();
            let found = discovery::find(&known.served, wanted);
            // People may be about to define a kind, or to make one scalable.
            let good = match &found {
                Ok(served) if served.has_scale => LONG,
                Ok(_) | Err(_) => SHORT,
            };
            (known.is_younger_than(good) && !known.outdated).then(|| found.cloned())
        };
        let (found, failed) = if let Some(found) = fresh {
            (found, None)
        } else {
            self.discover().await;
            let known = self.known();
            let found = discovery::find(&known.served, wanted).cloned();
            (found, known.failed.clone())
        };
        let kind = wanted.clone();
        match (found, failed) {
            // Where nobody can say it better, what was known goes on.
            (Ok(served), _) => Ok(served),
            (Err(_), Some((_, why))) => Err(Missing::Undiscovered { kind, why }),
            (Err(NotFound::NotServed), None) => Err(Missing::NotServed(kind)),
            (Err(NotFound::Ambiguous(fitting)), None) => Err(Missing::Ambiguous { kind, fitting }),
        }
    }

    async fn discover(&self) {
        let _turn = self.turn.lock().await;
        if !self.known().may_discover() {
            return;
        }
        let right = Right {
            verbs: "discover",
            resource: "resources",
            group: "",
        };
        let answer = tokio::try_join!(
            ask(self.client.list_core_api_versions_aggregated(), right),
            ask(self.client.list_api_groups_aggregated(), right),
        );
        let known = &mut *self.known();
        match answer {
            // Every API server has groups: another form of answer was not understood.
            Ok((_, groups)) if groups.items.is_empty() => {
                known.failed = Some((Instant::now(), "the list of API groups is empty".into()));
            }
            Ok((core, groups)) => {
                known.served = discovery::served(core);
                known.served.extend(discovery::served(groups));
                known.discovered = Some(Instant::now());
                known.outdated = false;
                known.failed = None;
            }
            Err(failure) => known.failed = Some((Instant::now(), failure.to_string())),
        }
    }

    async fn replicas(&self, served: &Served, freshness: Freshness) -> Replicas {
        let name = served.to_string();
        let cached = {
            let known = self.known();
            let cached = known.definitions.get(&name);
            let cached = cached.filter(|(_, version, _)| *version == served.version);
            cached.map(|(at, _, replicas)| (at.elapsed(), replicas.clone()))
        };
        if let (Freshness::Cached, Some((age, replicas))) = (freshness, &cached) {
            let good = match replicas {
                Replicas::At(_) => LONG,
                Replicas::None | Replicas::Unknown(_) => SHORT,
            };
            if *age < good {
                return replicas.clone();
            }
        }
        let definition = self.definition(served).await;
        let replicas = match &definition {
            Ok(definition) => path(definition, &served.version),
            // Without a look at the definition, discovery tells what cannot be scaled.
            Err(Failure::NotFound | Failure::Forbidden(_)) if !served.has_scale => Replicas::None,
            Err(Failure::NotFound) => Replicas::Unknown(format!(
                "{name} has no CustomResourceDefinition that tells where its replicas are"
            )),
            Err(failure) => {
                // One failure is no reason to forget, except where it must be sure.
                if let (Freshness::Cached, Some((_, replicas @ Replicas::At(_)))) =
                    (freshness, cached)
                {
                    return replicas;
                }
                Replicas::Unknown(format!(
                    "cannot read CustomResourceDefinition {name}: {failure}"
                ))
            }
        };
        let known = &mut *self.known();
        if definition.is_ok() && !known.defined.contains(served) {
            known.defined.retain(|it| it.to_string() != name);
            known.defined.push(served.clone());
        }
        let entry = (Instant::now(), served.version.clone(), replicas.clone());
        known.definitions.insert(name, entry);
        replicas
    }

    async fn definition(&self, served: &Served) -> Result<DefinitionObject, Failure> {
        if served.group.is_empty() {
            return Err(Failure::NotFound);
        }
        let api: Api<DefinitionObject> = Api::all(self.client.clone());
        let right = Right {
            verbs: "get",
            resource: "customresourcedefinitions",
            group: "apiextensions.k8s.io",
        };
        ask(api.get(&served.to_string()), right).await
    }

    /// Whether a kind that is not served any more had a definition which is gone.
    /// Only that proves that its objects are gone too: a definition is deleted
    /// after them.
    async fn vanished(&self, wanted: &GroupKind) -> Option<String> {
        let served = {
            let known = self.known();
            discovery::find(&known.defined, wanted).ok()?.clone()
        };
        let definition = self.definition(&served).await;
        (definition.err() == Some(Failure::NotFound))
            .then(|| format!("CustomResourceDefinition {served} is deleted"))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

impl Known {
    fn is_younger_than(&self, age: Duration) -> bool {
        self.discovered.is_some_and(|at| at.elapsed() < age)
    }

    fn may_discover(&self) -> bool {
        match &self.failed {
            Some((at, _)) => at.elapsed() >= RETRY,
            None => !self.is_younger_than(SHORT),
        }
    }
}

/// Where a version of a definition says that the replicas are.
fn path(definition: &DefinitionObject, version: &str) -> Replicas {
    let mut versions = definition.spec.versions.iter();
    let Some(version) = versions.find(|it| it.name == version) else {
        // Served and not defined: the definition is changing right now.
        return Replicas::Unknown(format!("version {version} is not in its definition"));
    };
    match &version.subresources.scale {
        Some(scale) if !scale.spec_replicas_path.is_empty() => {
            Replicas::At(scale.spec_replicas_path.clone())
        }
        _ => Replicas::None,
    }
}
