//! Node floating IPs: addresses of a cloud that follow nodes and pods, and names that follow
//! the addresses. Cluster, nodes, pods and floe are real; the cloud is a fake of
//! `DigitalOcean` that the test can look into.

mod buying;
mod crashes;
mod following;
pub mod ground;
mod manifests;
mod migration;
mod names;
mod old_crds;
mod secrets;
mod silence;
