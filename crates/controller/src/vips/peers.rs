//! The key by which agents know each other's messages.

use crate::shared_key::Place;

/// The Secret with the key; agents read it from there.
pub fn place() -> Place {
    Place {
        namespace: "kube-system".to_owned(),
        name: "floe-agent-peers",
        purpose: "messages between agents",
        without: "agents make no promises, so a node that loses the API server stops serving shared \
                  addresses within seconds",
    }
}
