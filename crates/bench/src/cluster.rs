//! The controller as it ships, on an API server.
//!
//! The cluster is one of `floe-testbed` with its scheduler and its controllers
//! stopped: nobody else writes while something is measured. Nodes are objects
//! without a machine, and pods are bound and never run.
//!
//! 1. [`records`]: all held addresses are written.
//! 2. [`start`]: how long the controller takes to be ready, and what it needs.
//! 3. [`calls`]: how long a filter call takes, over HTTP.
//! 4. [`binds`]: how many pods it binds each second.

mod binds;
mod calls;
pub mod records;
mod start;

use anyhow::{Context as _, Result};
use floe_testbed::{
    cluster::{Cluster, spec::ClusterSpec},
    progress::Step,
};

use crate::{
    program::{Api, Controller, Start},
    scene::Size,
    table::Row,
};

/// The name of the cluster.
const NAME: &str = "bench";

/// Makes a cluster and measures on it. It is gone afterwards, however that ends.
pub async fn measure(size: Size) -> Result<Vec<Row>> {
    let cluster = tokio::task::spawn_blocking(|| Cluster::up(&ClusterSpec::new(NAME).nodes(1)))
        .await?
        .context("cannot make a cluster")?;
    let rows = Box::pin(measure_on(&cluster, size)).await;
    // It waits for the cluster's end, which blocks.
    tokio::task::spawn_blocking(|| drop(cluster)).await?;
    rows
}

async fn measure_on(cluster: &Cluster, size: Size) -> Result<Vec<Row>> {
    cluster.stop("control-plane", "kube-scheduler").await?;
    cluster
        .stop("control-plane", "kube-controller-manager")
        .await?;
    let client = cluster.client().await?;
    let title = format!("writing {} FloatingIP objects", size.held());
    Step::run_async(title, records::write(cluster, &client, size)).await?;

    let scene = Scene {
        cluster,
        client,
        size,
    };
    let mut rows = Vec::new();
    let start = Step::run_async("starting the controller", start::measure(&scene)).await;
    add(&mut rows, "start of the controller", start);
    let title = format!("writing {} nodes", size.nodes());
    Step::run_async(title, records::write_nodes(&scene.client, size)).await?;
    let calls = Step::run_async("calling filter", Box::pin(calls::measure(&scene))).await;
    add(&mut rows, "filter calls", calls);
    let title = format!("binding {} pods", size.pods);
    let binds = Step::run_async(title, binds::measure(&scene)).await;
    add(&mut rows, "binds", binds);
    let title = "starting the controller beside pods";
    let beside = Step::run_async(title, start::measure_beside_pods(&scene)).await;
    add(&mut rows, "memory beside pods", beside);
    Ok(rows)
}

/// Everything that a measurement needs.
struct Scene<'a> {
    cluster: &'a Cluster,
    client: kube::Client,
    size: Size,
}

impl Scene<'_> {
    /// A controller that has read everything.
    async fn controller(&self) -> Result<Controller> {
        let paths = self.cluster.paths();
        let start = Start {
            kubeconfig: &paths.kubeconfig(),
            log: &paths.root().join("floe-controller.log"),
            addresses: self.size.entries(),
            api: Api::Open,
            arguments: &[],
            environment: &[],
        };
        Controller::start(start).await
    }
}

/// Adds what was measured. A failure is told in the table; the rest goes on.
fn add(rows: &mut Vec<Row>, name: &str, measured: Result<Vec<Row>>) {
    match measured {
        Ok(measured) => rows.extend(measured),
        Err(error) => rows.push(Row::failed(name, &error)),
    }
}
