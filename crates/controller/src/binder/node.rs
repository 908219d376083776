//! Where a node is.

use std::{net::IpAddr, time::Duration};

use floe_core::schedule::refusal::NodeRefusal;
use floe_shell::logs;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tokio::time::timeout;

use super::{BindError, Binder};
use crate::cluster::is_name;

/// How long the API server may take to tell.
const PATIENCE: Duration = Duration::from_secs(3);

impl Binder {
    /// The address of a node, read directly where the cache has none: the node may
    /// be newer than the cache.
    pub(super) async fn node_address(&self, node: &str) -> Result<Option<IpAddr>, BindError> {
        if let Some(address) = self.cluster.node(node).and_then(|node| node.address) {
            return Ok(Some(address));
        }
        // The name comes from outside, and would become part of a path.
        let missing = || Err(BindError::Refused(NodeRefusal::NoSuchNode.into()));
        if !is_name(node) {
            return missing();
        }
        let unreadable = |why| BindError::NodeUnreadable {
            node: node.to_owned(),
            why,
        };
        let nodes: Api<Node> = Api::all(self.client.clone());
        match timeout(PATIENCE, nodes.get_opt(node)).await {
            Ok(Ok(Some(node))) => Ok(internal_address(&node)),
            Ok(Ok(None)) => missing(),
            Ok(Err(error)) => Err(unreadable(logs::with_causes(&error))),
            Err(_) => Err(unreadable(format!("no answer within {PATIENCE:?}"))),
        }
    }
}

/// The first internal address that can be read.
fn internal_address(node: &Node) -> Option<IpAddr> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let mut internal = addresses.iter().filter(|it| it.type_ == "InternalIP");
    let address: IpAddr = internal.find_map(|it| it.address.parse().ok())?;
    Some(address.to_canonical())
}
