//! Wiring of what answers schedulers, and of what decides which callers are schedulers.

use std::sync::Arc;

use floe_core::schedule::caller::Source;
use tokio::sync::watch;

use super::Tasks;
use crate::{
    binder::Binder,
    desk::Desk,
    extender::{
        Extender,
        callers::{self, Callers, TokenFile, follow_api_servers},
    },
    leader::Standing,
    shared_key,
};

/// What a caller has to show.
pub struct CallerRules {
    /// From where it may call.
    pub sources: Vec<Source>,
    /// The token that it has to send.
    pub token: Option<TokenFile>,
    /// The namespace of the Secret by which replicas know each other; `None` where there is
    /// only one replica.
    pub forwards_in: Option<String>,
}

/// Starts what knows about callers, and returns the extender, which is not served yet.
pub fn start(
    tasks: &mut Tasks,
    binder: Binder,
    rules: CallerRules,
    standing: watch::Receiver<Standing>,
) -> Extender {
    let (api_servers, found) = watch::channel(None);
    if rules.sources.contains(&Source::ControlPlane) {
        let client = binder.client.clone();
        tasks.start(|stop| follow_api_servers(client, api_servers, stop));
    }
    let (key, shared) = watch::channel(None);
    if let Some(namespace) = rules.forwards_in {
        let place = callers::peers(namespace);
        let (client, installation) = (binder.client.clone(), binder.metrics.installation().clone());
        tasks.start(|stop| shared_key::keep(client, place, key, installation, stop));
    }
    let token = rules.token.map(|file| {
        let digest = file.digest();
        tasks.start(|stop| file.run(stop));
        digest
    });
    let callers = Callers {
        sources: rules.sources.into(),
        token,
        cluster: binder.cluster.clone(),
        api_servers: found,
        key: shared,
        metrics: binder.metrics.clone(),
        logged: Arc::default(),
    };
    let desk = Desk {
        claims: binder.claims.clone(),
        cluster: binder.cluster.clone(),
        store: binder.store.clone(),
        waiting: binder.waiting.clone(),
        turns: binder.turns.clone(),
        reporter: binder.reporter.clone(),
        metrics: binder.metrics.clone(),
    };
    Extender {
        desk,
        binder,
        standing,
        callers,
    }
}
