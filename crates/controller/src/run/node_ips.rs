//! Wiring of what keeps addresses of clouds on nodes.

use std::{sync::Arc, time::Duration};

use floe_providers::registry::{Provider, Registry};
use kube::Client;
use tokio::sync::watch;
use tracing::{info, warn};

use super::Tasks;
use crate::{
    addresses::Reporter,
    contact::Contact,
    events::Events,
    health::Probes,
    leader::Standing,
    metrics::Metrics,
    nodepools::{
        Needs, Steward,
        l2::{self, L2},
    },
    store::{Store, Warmth},
};

/// What of the process node addresses need.
pub struct Surrounding {
    /// Where Events go.
    pub events: Events,
    /// Where it is counted.
    pub metrics: Metrics,
    /// Whether this process leads.
    pub standing: watch::Receiver<Standing>,
    /// Counts changes of CRDs.
    pub crd_changes: watch::Receiver<u64>,
}

/// Starts what looks after pools of node addresses and names of nodes. Where floe looks after
/// shared addresses as well, its agents can keep some of them on nodes.
pub fn start(tasks: &mut Tasks, client: &Client, with_agents: bool, surrounding: Surrounding) {
    let Surrounding {
        events,
        metrics,
        standing,
        crd_changes,
    } = surrounding;
    let (mut registry, problems) = Registry::from_environment(&|name| std::env::var(name).ok());
    for problem in problems {
        warn!(
            reason = "ProviderMisconfigured",
            problem, "a provider is left out"
        );
    }
    if with_agents {
        let ips = Arc::new(L2::new(client.clone()));
        registry.insert(
            l2::NAME,
            Provider {
                ips: Some(ips),
                dns: None,
            },
        );
    }
    let providers: Vec<&str> = registry.names().collect();
    info!(?providers, "providers of node addresses and names");
    let steward = Steward::new(Needs {
        client: client.clone(),
        registry,
        events,
        metrics,
        standing,
        crd_changes,
    });
    tasks.start(|stop| steward.run(stop));
}

/// How readiness is judged when nothing but this is done: nothing else has to be listed.
pub fn probes(
    apiserver: Contact,
    lease: Option<Contact>,
    standing: watch::Receiver<Standing>,
    store: &Store,
    metrics: &Metrics,
    limit: Duration,
) -> Probes {
    store.warm(|warmth| {
        *warmth = Warmth {
            records: true,
            pools: true,
            configuration: true,
            pods: true,
            nodes: true,
            workloads: true,
        };
    });
    Probes {
        apiserver,
        lease,
        standing,
        warmth: store.warmth(),
        configuration: Reporter::new(None, metrics.clone()).state(),
        installation: metrics.installation().clone(),
        limit,
    }
}
