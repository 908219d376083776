//! `kubectl floe check`.

use crate::{args, cluster::Cluster, console::Console, failure::Failure};

/// Runs the command.
#[expect(clippy::unused_async, reason = "it is to ask the cluster")]
pub async fn run(_: &Cluster, _: &mut Console, _: &args::Check) -> Result<(), Failure> {
    Err(Failure::Unavailable("check"))
}
