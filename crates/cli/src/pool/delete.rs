//! `kubectl floe pool delete`.

use std::collections::BTreeSet;

use kube::{
    ResourceExt as _,
    api::{DeleteParams, Preconditions},
};

use super::{KIND, Pool};
use crate::{
    cluster::{Access, Cluster},
    console::Console,
    failure::Failure,
};

/// Runs the command. All pools are looked for before the first one is deleted.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    namespace: &str,
    names: &[String],
    yes: bool,
) -> Result<(), Failure> {
    let mut pools = Vec::new();
    for name in names.iter().collect::<BTreeSet<_>>() {
        pools.push(super::one(cluster, namespace, name).await?);
    }
    console.confirm(&question(namespace, &pools), yes)?;
    for pool in &pools {
        let name = pool.raw.name_any();
        // Not by version: whatever somebody has set meanwhile is not wanted either.
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: pool.raw.uid(),
            resource_version: None,
        });
        match cluster.pools(Some(namespace)).delete(&name, &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {
                return Err(Failure::Conflict(format!("pool {name:?}")));
            }
            Err(error) => {
                return Err(cluster.failure(&error, Access::pools("delete", Some(namespace))));
            }
        }
        console.done(&format!("{KIND}/{name} deleted"))?;
    }
    Ok(())
}

fn question(namespace: &str, pools: &[Pool]) -> String {
    let told = "These limits go away; their addresses stay with their holders, \
                and replicas limit again:";
    let mut question = vec![told.to_owned()];
    for pool in pools {
        let (name, size) = (pool.raw.name_any(), pool.object.size);
        question.push(format!("  {namespace}/{name}  size {size}"));
    }
    question.push("Go on?".into());
    question.join("\n")
}
