//! `kubectl floe version`.

use crate::{
    cluster::{Access, Cluster},
    console::Console,
    failure::Failure,
};

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit it was built from, when the build was told.
const COMMIT: Option<&str> = option_env!("FLOE_GIT_COMMIT");

/// Tells the version of this program.
pub fn client(console: &mut Console) -> Result<(), Failure> {
    let commit = COMMIT.map_or_else(String::new, |commit| format!(" (commit {commit})"));
    console.print(&format!("Client Version: {VERSION}{commit}"))
}

/// Tells the version of the cluster.
pub async fn server(cluster: &Cluster, console: &mut Console) -> Result<(), Failure> {
    let access = Access {
        verb: "get",
        resource: "/version",
        namespace: None,
    };
    let info = cluster.client.apiserver_version().await;
    let info = info.map_err(|error| cluster.failure(&error, access))?;
    console.print(&format!("Kubernetes Version: {}", info.git_version))
}
