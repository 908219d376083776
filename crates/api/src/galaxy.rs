//! The resources of `galaxy.k8s.io/v1alpha1`.
//!
//! Both kinds are galaxy's, and both are stored by clusters that galaxy served.
//! The types decode every record that a galaxy could have written: a missing or
//! null member has its Go zero value, an unknown one is skipped.

use serde::{Deserialize, Deserializer};

pub use floatingip::{FloatingIP, FloatingIPSpec};
pub use pool::Pool;

pub mod floatingip;
pub mod pool;

/// The API group of galaxy.
pub const GROUP: &str = "galaxy.k8s.io";
/// The version of both kinds.
pub const VERSION: &str = "v1alpha1";
/// Group and version, as an object names them.
pub const API_VERSION: &str = "galaxy.k8s.io/v1alpha1";

/// Reads null as the zero value, as Go does.
pub(crate) fn null_is_zero<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
