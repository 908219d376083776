//! The names of resources, annotations and labels that people and records use.
//!
//! Compat: everything outside of `floe.dev/` is galaxy's, byte for byte.

/// The extended resource whose presence in the requests of a regular container
/// says that the pod wants an address. The amount means nothing.
pub const RESOURCE: &str = "tke.cloud.tencent.com/eni-ip";

/// Pod annotation with the release policy: `immutable`, `never` or anything else.
pub const RELEASE_POLICY: &str = "k8s.v1.cni.galaxy.io/release-policy";

/// Pod annotation with the name of the IP pool; empty means none.
pub const POOL: &str = "tke.cloud.tencent.com/eni-ip-pool";

/// Pod annotation with the requested ranges, and with the result after bind.
pub const ARGS: &str = "k8s.v1.cni.galaxy.io/args";

/// Pod annotation that asks for one address of each family it lists.
pub const FAMILIES: &str = "floe.dev/families";

/// Annotation of a Deployment that says how its rolling updates get addresses:
/// `handover`, `surge` or `wait`.
pub const ROLLOUT: &str = "floe.dev/rollout";

/// Label of a `FloatingIP` that an administrator reserved; its value means nothing.
pub const RESERVED: &str = "reserved";

/// Label of records from before galaxy 1.0.8; accepted and ignored.
pub const IP_TYPE: &str = "ipType";

/// Annotation of a `FloatingIP` with what its key cannot say about the workload,
/// see [`App::note`](crate::ipam::owner::App::note).
pub const WORKLOAD: &str = "floe.dev/workload";
