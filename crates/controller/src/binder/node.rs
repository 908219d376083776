//! Where a node is, and whether a pod accepts it.

use std::{net::IpAddr, time::Duration};

use floe_api::extender::PodRef;
use floe_core::schedule::{
    gate::needs::{Accepts, Looks},
    refusal::NodeRefusal,
};
use floe_shell::logs;
use kube::Api;
use tokio::time::timeout;

use super::{BindError, Binder, attempt::full_name};
use crate::{
    claims::ClaimError,
    cluster::{Node, NodeObject, Pod, is_name},
};

/// How long the API server may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

impl Binder {
    /// An error for a node that no scheduler would choose for this pod: one that its
    /// nodeSelector, required node affinity or tolerations exclude, or that is cordoned. A
    /// scheduler has checked that, so it costs a legitimate bind a look at the caches only.
    ///
    /// The caches may lag behind those of the scheduler. So a refusal rests on a direct read of
    /// both objects.
    pub(super) async fn check_node(&self, pod: &Pod, node: &str) -> Result<(), BindError> {
        let Some(needs) = &pod.needs else {
            return Ok(());
        };
        if self.cluster.accepts(needs, node) == Some(Accepts::Yes) {
            return Ok(());
        }
        let found = self.read_node(node).await?;
        let looks = Looks {
            name: node,
            labels: &found.looks.labels,
            taints: &found.looks.taints,
        };
        if needs.accept(looks) == Accepts::Yes {
            return Ok(());
        }
        let asked = PodRef {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        };
        let Some(now) = self.claims.pod_now(&asked).await? else {
            let PodRef {
                namespace,
                name,
                uid,
            } = asked;
            return Err(BindError::Claim(ClaimError::NoSuchPod {
                namespace,
                name,
                uid,
            }));
        };
        match &now.needs {
            Some(needs) if needs.accept(looks) != Accepts::Yes => Err(BindError::NodeNotAccepted {
                pod: full_name(&now),
                node: node.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// The address of a node, read directly where the cache has none: the node may
    /// be newer than the cache.
    pub(super) async fn node_address(&self, node: &str) -> Result<Option<IpAddr>, BindError> {
        if let Some(address) = self.cluster.node(node).and_then(|node| node.address) {
            return Ok(Some(address));
        }
        Ok(self.read_node(node).await?.address)
    }

    async fn read_node(&self, node: &str) -> Result<Node, BindError> {
        // The name comes from outside, and would become part of a path.
        let missing = || Err(BindError::Refused(NodeRefusal::NoSuchNode.into()));
        if !is_name(node) {
            return missing();
        }
        let unreadable = |why| BindError::NodeUnreadable {
            node: node.to_owned(),
            why,
        };
        let nodes: Api<NodeObject> = Api::all(self.client.clone());
        match timeout(PATIENCE, nodes.get_opt(node)).await {
            Ok(Ok(Some(node))) => Ok(Node::from(&node)),
            Ok(Ok(None)) => missing(),
            Ok(Err(error)) => Err(unreadable(logs::with_causes(&error))),
            Err(_) => Err(unreadable(format!("no answer within {PATIENCE:?}"))),
        }
    }
}
