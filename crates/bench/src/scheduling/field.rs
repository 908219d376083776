//! The cluster: an API server, nodes that are objects only, and a Deployment whose pods
//! nobody but the benchmark makes.

use std::{fmt::Debug, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use floe_api::galaxy::FloatingIP;
use floe_core::{ipam::names, schedule::gate::NODE_SUBNET};
use floe_testbed::{
    cluster::{Cluster, wait},
    kubernetes::Programs,
};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{Node, Pod},
        events::v1::Event,
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Case, scheduler::Scheduler};
use crate::{
    cluster::records,
    program::{self, Controller, Start},
    scene::{self, Size},
};

/// Everything that a turn needs.
pub struct Field<'a> {
    pub cluster: &'a Cluster,
    /// The way of those who create pods and look at them.
    pub client: Client,
    /// The way of the bare loop, which is another, as floe's is.
    pub bare: Client,
    pub size: Size,
    /// What all pods belong to.
    pub owner: OwnerReference,
    programs: Programs,
}

impl<'a> Field<'a> {
    /// Leaves nobody but the API server, and writes what has to be there.
    pub async fn prepare(cluster: &'a Cluster, size: Size) -> Result<Self> {
        let client = cluster.client().await?;
        for program in ["kube-scheduler", "kube-controller-manager"] {
            cluster.stop("control-plane", program).await?;
        }
        cluster.stop("node-1", "kubelet").await?;
        let nodes: Api<Node> = Api::all(client.clone());
        nodes.delete("node-1", &DeleteParams::default()).await?;
        records::write(cluster, &client, size).await?;
        records::write_nodes(&client, size).await?;
        open(&nodes, size).await?;
        let programs = tokio::task::spawn_blocking(Programs::ensure).await??;
        let field = Self {
            cluster,
            owner: own(&client, size.pods).await?,
            client,
            bare: cluster.client().await?,
            size,
            programs,
        };
        field.equip(&nodes).await?;
        Ok(field)
    }

    /// The controller of a case, ready, where it has one.
    pub async fn controller(&self, case: Case) -> Result<Option<Controller>> {
        let Some(arguments) = case.controller() else {
            return Ok(None);
        };
        let paths = self.cluster.paths();
        let start = Start {
            kubeconfig: &paths.kubeconfig(),
            log: &self.log("floe-controller"),
            addresses: self.size.entries(),
            api: program::Api::Open,
            arguments,
            environment: &[],
        };
        Controller::start(start).await.map(Some)
    }

    /// A scheduler; with an extender on that port, if there is one.
    pub fn scheduler(&self, extender: Option<u16>) -> Result<Scheduler> {
        let kubeconfig = self.cluster.paths().kubeconfig();
        let log = self.log("kube-scheduler");
        Scheduler::start(&self.programs, &kubeconfig, &log, extender)
    }

    /// Takes away what a turn has left: pods, records and Events.
    pub async fn clear(&self) -> Result<()> {
        let of_all = Api::namespaced(self.client.clone(), scene::NAMESPACE);
        remove::<Pod>(&of_all).await?;
        remove::<FloatingIP>(&Api::all(self.client.clone())).await?;
        let of_all = Api::namespaced(self.client.clone(), scene::NAMESPACE);
        remove::<Event>(&of_all).await
    }

    /// Has floe tell on all nodes what gates need. That stays, so that the bare loop of
    /// gates finds it too.
    async fn equip(&self, nodes: &Api<Node>) -> Result<()> {
        let controller = self.controller(Case::Gates).await?;
        wait::until("nodes show what gates need", wait::SETTLED, async || {
            let all = nodes.list(&ListParams::default()).await?.items;
            let shown = all.iter().filter(|node| is_equipped(node)).count();
            let wanted = self.size.nodes() as usize;
            ensure!(shown == wanted, "{shown} of {wanted} nodes show it");
            Ok(Some(()))
        })
        .await?;
        match controller {
            Some(controller) => controller.stop().await,
            None => Ok(()),
        }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.cluster.paths().root().join(format!("{name}.log"))
    }
}

/// Nobody is left who would see that the nodes are ready, so they are opened by hand.
async fn open(nodes: &Api<Node>, size: Size) -> Result<()> {
    let patch = json!({ "spec": { "taints": null } });
    for (name, _) in size.node_list() {
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        nodes.patch(&name, &params, &patch).await?;
    }
    Ok(())
}

fn is_equipped(node: &Node) -> bool {
    let offered = node.status.as_ref().and_then(|it| it.allocatable.as_ref());
    node.labels().contains_key(NODE_SUBNET)
        && offered.is_some_and(|it| it.contains_key(names::RESOURCE))
}

/// Makes a Deployment with its `ReplicaSet`, which are objects only as well.
async fn own(client: &Client, replicas: u32) -> Result<OwnerReference> {
    let labels = json!({ "app": APP });
    let object = |owner: Option<&OwnerReference>| {
        json!({
            "metadata": {
                "name": APP, "labels": labels,
                "ownerReferences": owner.map(|owner| vec![owner]),
            },
            "spec": {
                "replicas": replicas, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "main", "image": "nginx" }] },
                },
            },
        })
    };
    let deployment = create::<Deployment>(client, object(None)).await?;
    let owner = deployment.controller_owner_ref(&());
    let owner = owner.context("the Deployment has no uid")?;
    let set = create::<ReplicaSet>(client, object(Some(&owner))).await?;
    let owner = set.controller_owner_ref(&());
    owner.context("the ReplicaSet has no uid")
}

/// What all pods belong to, and the label that says so.
pub const APP: &str = "bench";

async fn create<K>(client: &Client, object: Value) -> Result<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    K: Clone + Debug + DeserializeOwned + serde::Serialize,
{
    let api: Api<K> = Api::namespaced(client.clone(), scene::NAMESPACE);
    let object: K = serde_json::from_value(object)?;
    Ok(api.create(&PostParams::default(), &object).await?)
}

/// Deletes all of a kind, and waits until they are gone.
async fn remove<K>(api: &Api<K>) -> Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    wait::until("what a turn left is gone", wait::SETTLED, async || {
        let at_once = DeleteParams::default().grace_period(0);
        api.delete_collection(&at_once, &ListParams::default())
            .await?;
        let left = api.list_metadata(&ListParams::default().limit(1)).await?;
        Ok(left.items.is_empty().then_some(()))
    })
    .await
}
