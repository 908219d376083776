//! What people may change by hand: release addresses, reserve them, and set pools.
//!
//! Each is safe on any replica: records are written against the version that was
//! decided on, and taken by their unique names.
//!
//! - [`release`]: addresses that nobody runs with.
//! - [`reserve`]: addresses that no pod shall get.
//! - [`pool`]: limits, and addresses that are taken ahead of pods.

use std::future::Future;

use futures::{StreamExt as _, stream};
use kube::Client;

use crate::{
    cloud::Cloud, cluster::Cluster, metrics::Metrics, records::Records, store::Store, turns::Turns,
};

pub mod pool;
pub mod release;
pub mod reserve;

/// How many addresses of one request are worked on at a time.
const PARALLEL: usize = 16;

/// What people may change.
#[derive(Clone)]
pub struct Actions {
    /// The way to the API server, to look for pods and to write pools.
    pub client: Client,
    /// Nodes and pods.
    pub cluster: Cluster,
    /// The books.
    pub store: Store,
    /// Writes of records.
    pub records: Records,
    /// The cloud around the cluster.
    pub cloud: Cloud,
    /// One at a time for each pod name, and for the spares of each pool.
    pub turns: Turns,
    /// Where it is counted.
    pub metrics: Metrics,
}

impl Actions {
    /// Does something for each address, some of them at a time, and counts what is
    /// refused. The results are in their order.
    async fn some_at_a_time<T, E>(
        &self,
        work: Vec<impl Future<Output = Result<T, E>>>,
        reason: fn(&E) -> &'static str,
    ) -> Vec<Result<T, E>> {
        let results: Vec<_> = stream::iter(work).buffered(PARALLEL).collect().await;
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            self.metrics.api_refused(reason(error));
        }
        results
    }
}
