//! Addresses that records give to a pod and that the agent of its node does not find there.

use std::{net::IpAddr, time::Duration};

use floe_api::floe::NodeNetwork;
use floe_core::{addr::canonical, audit::Finding};
use floe_shell::logs;
use kube::Api;
use tokio::time::timeout;
use tracing::debug;

use crate::{
    cluster::{Phase, Pod},
    rest::Rest,
};

/// How long to wait for the report of an agent.
const PATIENCE: Duration = Duration::from_secs(5);

/// An address that a pod lacks, as `kubectl floe check` finds it.
pub struct Lacking {
    pub ip: IpAddr,
    pub finding: Finding,
}

impl Lacking {
    /// It in words, after who holds the address.
    pub fn sentence(&self) -> String {
        format!("The pod lacks it: {}.", self.finding)
    }
}

/// What the agent of its node misses in a pod. Nobody can tell without an agent, or while its
/// report cannot be read: then nothing is said about it.
pub async fn of_pod(rest: &Rest, pod: &Pod) -> Vec<Lacking> {
    let Some(node) = pod.node.as_ref().filter(|_| pod.phase != Phase::Finished) else {
        return Vec::new();
    };
    let reports: Api<NodeNetwork> = Api::all(rest.client.clone());
    let report = match timeout(PATIENCE, reports.get_opt(node)).await {
        Ok(Ok(report)) => report,
        Ok(Err(error)) => {
            let error = logs::with_causes(&error);
            debug!(node, error, "cannot read what the agent of a node reports");
            return Vec::new();
        }
        Err(_) => return Vec::new(),
    };
    let missing = report.and_then(|it| it.status).map(|it| it.missing);
    let named = format!("{}/{}", pod.namespace, pod.name);
    let own = missing.into_iter().flatten().filter(|it| it.pod == named);
    own.filter_map(|it| {
        let ip = canonical(it.ip.parse().ok()?);
        let finding = Finding::AddressMissing {
            ip,
            pod: (pod.namespace.clone(), pod.name.clone()),
            node: node.clone(),
        };
        Some(Lacking { ip, finding })
    })
    .collect()
}
