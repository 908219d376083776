//! Pods on nodes that do not answer.
//!
//! A node that is not ready may still run its pods, and they may still answer
//! under their addresses. So nothing is freed until their objects are gone, and
//! people are told how to get there.

use std::{fmt, net::IpAddr};

use super::Reclaimer;
use crate::cluster::Phase;

/// The reason that is told.
const NODE_NOT_READY: &str = "NodeNotReady";

/// What is told to people.
struct Stays<'a> {
    node: &'a str,
    addresses: &'a [IpAddr],
}

impl fmt::Display for Stays<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        write!(
            out,
            "node {} is not ready, and the pod may still answer there: {} stays with it. To move \
             on, taint the node with node.kubernetes.io/out-of-service, delete the node, or \
             force-delete the pod",
            self.node,
            addresses.join(", "),
        )
    }
}

impl Reclaimer {
    /// Tells each pod that holds an address on a node that is not ready: on this
    /// one, or on any.
    pub(super) fn warn_of_silent_nodes(&self, only: Option<&str>) {
        let is_silent = |name: &str| {
            let node = self.cluster.node(name);
            node.is_some_and(|node| !node.ready)
        };
        if only.is_some_and(|name| !is_silent(name)) {
            return;
        }
        for pod in self.cluster.pods() {
            let Some(node) = pod.node.as_deref() else {
                continue;
            };
            let concerned = match only {
                Some(name) => name == node,
                None => is_silent(node),
            };
            if !concerned || pod.phase == Phase::Finished {
                continue;
            }
            let addresses: Vec<IpAddr> = self.store.read(|books| {
                let records = books.of_pod(&pod.namespace, &pod.name);
                let own = records.filter(|record| record.uid == pod.uid);
                own.map(|record| record.ip).collect()
            });
            if !addresses.is_empty() {
                let stays = Stays {
                    node,
                    addresses: &addresses,
                };
                self.reporter.warns(&pod, NODE_NOT_READY, &stays);
            }
        }
    }
}
