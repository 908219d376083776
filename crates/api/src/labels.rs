//! Names of the labels and annotations on a [`FloatingIP`].
//!
//! What floe adds to a record lives in its metadata: a galaxy client that
//! updates the record drops every spec member that it does not know, and keeps
//! metadata. For the same reason none of floe's additions is the truth about who
//! has an address. They repeat, for people and for selectors, what name and spec
//! say; after a galaxy has written, they may be old.
//!
//! [`FloatingIP`]: crate::galaxy::FloatingIP

pub use floe_core::ipam::names::{IP_TYPE, RESERVED, WORKLOAD};
use floe_core::{fingerprint::fingerprint, ipam::args::IpInfo};
use serde::{Deserialize, Serialize};

/// Annotation: the address in its usual form, which an IPv6 object name is not.
pub const ADDRESS: &str = "floe.dev/address";

/// Annotation: the node for which the address is bound; absent if for none. Also a
/// label, with the value of [`node_value`], so that each node can watch its own.
pub const NODE: &str = "floe.dev/node";

/// Annotation: what the address is to its holder, in one CamelCase word.
pub const STATE: &str = "floe.dev/state";

/// Annotation: length of the subnet, VLAN and gateway that the pod was given with the
/// address, as [`Given`] writes it; absent if no pod has the address.
///
/// Who can edit a pod can edit them there, but not here: nodes compare both.
pub const NETWORK: &str = "floe.dev/network";

/// Label, present with any value: no range of the configuration has the
/// address, and it is free once its holder goes.
pub const OUTSIDE_CONFIGURATION: &str = "floe.dev/outside-configuration";

/// The longest value that a label may have.
const LONGEST_VALUE: usize = 63;

/// The value of the label [`NODE`] for a node: its name, or when that is too long its
/// beginning and a number made of all of it.
pub fn node_value(node: &str) -> String {
    if node.len() <= LONGEST_VALUE {
        return node.to_owned();
    }
    let mark = fingerprint(node.as_bytes());
    let end = node.floor_char_boundary(LONGEST_VALUE - "-0123456789abcdef".len());
    format!("{}-{mark:016x}", &node[..end])
}

/// The label [`NODE`] of a record for a node; none when it is for none.
pub fn node_label(node: &str) -> Option<String> {
    (!node.is_empty()).then(|| node_value(node))
}

/// What the annotation [`NETWORK`] says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The network, in the form of one element of the pod's own annotation.
    #[serde(flatten)]
    pub info: IpInfo,
    /// The uid of the pod that it was given to. Of any other pod it says nothing: a
    /// galaxy that hands the address on leaves the annotation as it is.
    #[serde(default)]
    pub uid: String,
    /// Whether the cloud has still to bring the address to the pod's node. Until then
    /// no interface of the pod is to have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assigning: bool,
}

impl Given {
    /// Reads the value of the annotation; `None` if it makes no sense.
    pub fn parse(value: &str) -> Option<Self> {
        serde_json::from_str(value).ok()
    }

    /// The value of the annotation.
    pub fn value(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers always have a JSON form")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_read_back_as_it_was_written() {
        let text = r#"{"ip":"10.0.0.5/24","vlan":2,"gateway":"10.0.0.1","uid":"u1"}"#;
        let given = Given::parse(text).unwrap();
        assert_eq!((given.info.ip.prefix_len(), given.info.vlan), (24, 2));
        assert_eq!((&*given.uid, given.value()), ("u1", text.to_owned()));
        assert!(!given.assigning);
        let text =
            r#"{"ip":"10.0.0.5/24","vlan":2,"gateway":"10.0.0.1","uid":"u1","assigning":true}"#;
        let given = Given::parse(text).unwrap();
        assert_eq!((given.assigning, given.value()), (true, text.to_owned()));
        for nonsense in ["", "{}", "[]", r#"{"ip":"10.0.0.5/24"}"#] {
            assert_eq!(Given::parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_node_has_its_name_as_value_unless_that_is_too_long() {
        assert_eq!(node_value("node-1.example"), "node-1.example");
        let longest = "n".repeat(63);
        assert_eq!(node_value(&longest), longest);
        let (a, b) = (node_value(&"n".repeat(64)), node_value(&"n".repeat(65)));
        assert_eq!((a.len(), &a[..47]), (63, &*format!("{}-", "n".repeat(46))));
        assert_ne!(a, b);
    }
}
