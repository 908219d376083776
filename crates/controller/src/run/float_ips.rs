//! Wiring of everything that gives addresses to pods and takes them back.

use floe_core::config::FileConfig;
use kube::Client;
use tokio::sync::watch;

use super::{
    Error, Tasks,
    schedulers::{self, CallerRules},
};
use crate::{
    actions::Actions,
    adopt::Adopter,
    binder::Binder,
    claims::Claims,
    cloud::Cloud,
    cluster::{self, Cluster, Workloads},
    config::{Scheduling, SchedulingSettings},
    directory::Directory,
    events::Events,
    evict::Evictor,
    extender::Extender,
    gates::{Calls, Gatekeeper, NodeKeeper},
    leader::Standing,
    marks::Marker,
    metrics::Metrics,
    pools::{Filler, Preallocator},
    reclaim::Reclaimer,
    records::Records,
    report::Reporter,
    rest::Rest,
    rollouts::Rollouts,
    shared_key,
    store::Store,
    turns::Turns,
    vips::{self, Steward, store::Vips},
    waiting::{Waiting, Waker},
};

/// What the rest of the process has to offer.
pub struct Surroundings {
    /// The way to the API server.
    pub client: Client,
    /// Who takes pods away.
    pub evictor: Evictor,
    /// The books.
    pub store: Store,
    /// Where it is counted.
    pub metrics: Metrics,
    /// Where it is told.
    pub events: Events,
    /// Whether this process leads.
    pub standing: watch::Receiver<Standing>,
    /// Counts changes of CRDs.
    pub crd_changes: watch::Receiver<u64>,
    /// How pods come to their nodes.
    pub scheduling: SchedulingSettings,
}

/// Who answers others.
pub struct Answering {
    /// The scheduler.
    pub extender: Extender,
    /// People and tools.
    pub rest: Rest,
}

/// Starts everything that gives addresses to pods and takes them back.
pub fn start(
    tasks: &mut Tasks,
    surroundings: Surroundings,
    caller_rules: CallerRules,
    file: &FileConfig,
) -> Result<Answering, Error> {
    let Surroundings {
        client,
        evictor,
        store,
        metrics,
        events,
        standing,
        crd_changes,
        scheduling,
    } = surroundings;
    let cluster = Cluster::new();
    let feeds = cluster::Feeds {
        client: client.clone(),
        cluster: cluster.clone(),
        store: store.clone(),
    };
    tasks.start(|stop| cluster::feed(feeds, stop));

    let workloads = Workloads::new(client.clone(), cluster.clone());
    let (waiting, turns, calls) = (Waiting::default(), Turns::default(), Calls::default());
    let claims = Claims::new(
        client.clone(),
        cluster.clone(),
        workloads.clone(),
        store.clone(),
        waiting.clone(),
    );
    let records = Records::new(client.clone(), store.clone(), metrics.clone());
    let cloud = Cloud::new(file.cloud_provider.as_deref(), &metrics)?;
    let reporter = Reporter::new(events.clone(), metrics.clone());

    let reclaimer = Reclaimer {
        client: client.clone(),
        cluster: cluster.clone(),
        workloads: workloads.clone(),
        store: store.clone(),
        records: records.clone(),
        cloud: cloud.clone(),
        turns: turns.clone(),
        waiting: waiting.clone(),
        reporter: reporter.clone(),
        metrics: metrics.clone(),
        standing: standing.clone(),
        interval: file.resync_interval,
    };
    tasks.start(|stop| reclaimer.run(stop));
    let adopter = Adopter {
        claims: claims.clone(),
        cluster: cluster.clone(),
        store: store.clone(),
        records: records.clone(),
        turns: turns.clone(),
        reporter: reporter.clone(),
        metrics: metrics.clone(),
        standing: standing.clone(),
    };
    tasks.start(|stop| adopter.run(stop));
    let filler = Filler {
        store: store.clone(),
        records: records.clone(),
        turns: turns.clone(),
    };
    keep_tidy(tasks, filler, events.clone(), &metrics, &standing);
    let vips = Vips::default();
    let needs = vips::Needs {
        client: client.clone(),
        cluster: cluster.clone(),
        store: store.clone(),
        records: records.clone(),
        vips: vips.clone(),
        events: events.clone(),
        metrics: metrics.clone(),
        standing: standing.clone(),
        crd_changes,
    };
    share(tasks, needs);

    let binder = Binder {
        client,
        claims,
        cluster,
        store,
        records,
        cloud,
        turns,
        waiting,
        reporter,
        metrics,
    };
    wake(tasks, &binder, &calls, &standing);
    let helped = Helped {
        evictor: evictor.clone(),
        workloads,
        events,
    };
    help_rollouts(tasks, &binder, helped, &standing);
    keep_gates(tasks, binder.clone(), evictor, calls, scheduling, &standing);
    Ok(Answering {
        rest: for_people(&binder, vips),
        extender: schedulers::start(tasks, binder, caller_rules, standing),
    })
}

/// Starts what wakes pods for which there is room.
fn wake(tasks: &mut Tasks, binder: &Binder, calls: &Calls, standing: &watch::Receiver<Standing>) {
    let waker = Waker {
        client: binder.client.clone(),
        claims: binder.claims.clone(),
        cluster: binder.cluster.clone(),
        store: binder.store.clone(),
        waiting: binder.waiting.clone(),
        calls: calls.clone(),
        metrics: binder.metrics.clone(),
        standing: standing.clone(),
    };
    tasks.start(|stop| waker.run(stop));
}

/// What helping rolling updates needs beside what a binder has.
struct Helped {
    evictor: Evictor,
    workloads: Workloads,
    events: Events,
}

/// Starts what has rolling updates go on that wait for addresses.
fn help_rollouts(
    tasks: &mut Tasks,
    binder: &Binder,
    helped: Helped,
    standing: &watch::Receiver<Standing>,
) {
    let rollouts = Rollouts {
        evictor: helped.evictor,
        client: binder.client.clone(),
        claims: binder.claims.clone(),
        cluster: binder.cluster.clone(),
        workloads: helped.workloads,
        store: binder.store.clone(),
        waiting: binder.waiting.clone(),
        events: helped.events,
        metrics: binder.metrics.clone(),
        standing: standing.clone(),
    };
    tasks.start(|stop| rollouts.run(stop));
}

/// Starts what lets pods through their gates. Where the scheduler asks an extender there
/// are none, unless somebody has switched over.
fn keep_gates(
    tasks: &mut Tasks,
    binder: Binder,
    evictor: Evictor,
    calls: Calls,
    settings: SchedulingSettings,
    standing: &watch::Receiver<Standing>,
) {
    if settings.mode == Scheduling::Gates {
        let keeper = NodeKeeper {
            client: binder.client.clone(),
            cluster: binder.cluster.clone(),
            store: binder.store.clone(),
            cap: settings.capacity,
            standing: standing.clone(),
        };
        tasks.start(|stop| keeper.run(stop));
    }
    let gatekeeper = Gatekeeper {
        binder,
        evictor,
        calls,
        settings,
        standing: standing.clone(),
    };
    tasks.start(|stop| gatekeeper.run(stop));
}

/// Starts what looks after shared addresses.
fn share(tasks: &mut Tasks, needs: vips::Needs) {
    let (client, store, vips) = (
        needs.client.clone(),
        needs.store.clone(),
        needs.vips.clone(),
    );
    let keeper = client.clone();
    // Agents read the key from the Secret.
    let unread = watch::Sender::default();
    let installation = needs.metrics.installation().clone();
    tasks.start(|stop| shared_key::keep(keeper, vips::peers::place(), unread, installation, stop));
    tasks.start(|stop| vips.feed(client, store, stop));
    let steward = Steward::new(needs);
    tasks.start(|stop| steward.run(stop));
}

fn for_people(binder: &Binder, vips: Vips) -> Rest {
    let actions = Actions {
        client: binder.client.clone(),
        cluster: binder.cluster.clone(),
        store: binder.store.clone(),
        records: binder.records.clone(),
        cloud: binder.cloud.clone(),
        turns: binder.turns.clone(),
        metrics: binder.metrics.clone(),
    };
    Rest {
        directory: Directory::new(binder.store.clone()),
        store: binder.store.clone(),
        cluster: binder.cluster.clone(),
        claims: binder.claims.clone(),
        vips,
        waiting: binder.waiting.clone(),
        actions,
        client: binder.client.clone(),
    }
}

/// Starts what looks after records that no pod is about.
fn keep_tidy(
    tasks: &mut Tasks,
    filler: Filler,
    events: Events,
    metrics: &Metrics,
    standing: &watch::Receiver<Standing>,
) {
    let marker = Marker {
        store: filler.store.clone(),
        records: filler.records.clone(),
        standing: standing.clone(),
    };
    tasks.start(|stop| marker.run(stop));
    let preallocator = Preallocator {
        filler,
        events,
        metrics: metrics.clone(),
        standing: standing.clone(),
    };
    tasks.start(|stop| preallocator.run(stop));
}
