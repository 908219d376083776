//! The watches that keep the caches current.

use std::fmt::Debug;

use floe_shell::stop::Stop;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use kube::{
    Api, Client, Resource,
    runtime::watcher::{Config, Event},
};

use super::{
    Cluster,
    builtin::{self, Sort},
    nodes, pods,
    slim::{Nothing, ScaledSpec, Slim},
};
use crate::store::{Seen, Store, rewind::follow};

/// What the feeds need.
pub struct Feeds {
    /// The way to the API server.
    pub client: Client,
    /// Where everything is entered.
    pub cluster: Cluster,
    /// Where it is told that the first lists are in.
    pub store: Store,
}

/// Keeps all caches current until `stop`, also those of custom workloads that
/// somebody asks for later.
pub async fn feed(feeds: Feeds, mut stop: Stop) {
    let run = async {
        let rewinds = feeds.store.rewinds();
        tokio::join!(
            follow_pods(&feeds),
            follow_nodes(&feeds),
            follow_builtin::<Deployment>(&feeds, Sort::Deployment, "deployments"),
            follow_builtin::<ReplicaSet>(&feeds, Sort::ReplicaSet, "replicasets"),
            follow_builtin::<StatefulSet>(&feeds, Sort::StatefulSet, "statefulsets"),
            follow_builtin::<DaemonSet>(&feeds, Sort::DaemonSet, "daemonsets"),
            (feeds.cluster.0.custom).run(&feeds.client, &feeds.cluster, &rewinds),
        )
    };
    tokio::select! {
        () = stop.requested() => {}
        _ = run => {}
    }
}

async fn follow_pods(feeds: &Feeds) {
    let enter = |event| {
        let listed = matches!(event, Event::InitDone);
        pods::enter(&feeds.cluster, event);
        if listed {
            feeds.store.warm(|warmth| warmth.pods = true);
        }
    };
    follow(
        feeds.store.rewinds(),
        Api::all(feeds.client.clone()),
        Config::default(),
        "pods",
        enter,
    )
    .await;
}

async fn follow_nodes(feeds: &Feeds) {
    let enter = |event| {
        let listed = matches!(event, Event::InitDone);
        nodes::enter(&feeds.cluster, event);
        if listed {
            feeds.store.warm(|warmth| warmth.nodes = true);
        }
    };
    follow(
        feeds.store.rewinds(),
        Api::all(feeds.client.clone()),
        Config::default(),
        "nodes",
        enter,
    )
    .await;
}

async fn follow_builtin<K>(feeds: &Feeds, sort: Sort, what: &'static str)
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
{
    let api: Api<Seen<Slim<K, ScaledSpec, Nothing>>> = Api::all(feeds.client.clone());
    let enter = |event| {
        let listed = matches!(event, Event::InitDone);
        builtin::enter(&feeds.cluster, sort, event);
        if listed && feeds.cluster.0.builtin.is_complete() {
            feeds.store.warm(|warmth| warmth.workloads = true);
        }
    };
    follow(feeds.store.rewinds(), api, Config::default(), what, enter).await;
}
