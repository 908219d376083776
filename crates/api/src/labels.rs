//! Names of the labels and annotations on a [`FloatingIP`].
//!
//! What floe adds to a record lives in its metadata: a galaxy client that
//! updates the record drops every spec member that it does not know, and keeps
//! metadata. For the same reason none of floe's additions is the truth about an
//! address. They repeat, for people and for selectors, what name and spec say;
//! after a galaxy has written, they may be old.
//!
//! [`FloatingIP`]: crate::galaxy::FloatingIP

pub use floe_core::ipam::names::{IP_TYPE, RESERVED, WORKLOAD};

/// Annotation: the address in its usual form, which an IPv6 object name is not.
pub const ADDRESS: &str = "floe.dev/address";

/// Annotation: the node for which the address is bound; absent if for none.
pub const NODE: &str = "floe.dev/node";

/// Annotation: what the address is to its holder, in one CamelCase word.
pub const STATE: &str = "floe.dev/state";

/// Label, present with any value: no range of the configuration has the
/// address, and it is free once its holder goes.
pub const OUTSIDE_CONFIGURATION: &str = "floe.dev/outside-configuration";
