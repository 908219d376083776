//! floe itself on a cluster: its images made from what was just built, its
//! manifests applied as they are in the tree.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};

use crate::cluster::{Cluster, wait};
use crate::command;
use crate::host::sibling_program;
use crate::image::Image;

/// The namespace that floe lives in.
pub const NAMESPACE: &str = "kube-system";
/// Selects the pods of the controller.
pub const CONTROLLER: &str = "app.kubernetes.io/name=floe-controller";

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
const LEASE: &str = "galaxy-ipam";

/// Installs floe, or upgrades it, and waits until it is ready.
pub fn install(cluster: &Cluster) -> Result<()> {
    let digest = Image::empty()
        .program(&sibling_program("floe-controller")?, "floe-controller")?
        .store(&cluster.paths().registry(), &["floe/controller"])
        .context("cannot make the image of floe-controller")?;
    // A tag of its own per build: nodes keep what they pulled, and whoever
    // installs again after a change wants to see the change.
    let tag: String = digest
        .trim_start_matches("sha256:")
        .chars()
        .take(12)
        .collect();
    // As an administrator would, over whatever definitions are there already.
    let definitions = Path::new(DEPLOY).join("crds");
    command::read(
        cluster
            .kubectl()
            .args(["apply", "--server-side", "--force-conflicts", "--filename"])
            .arg(definitions),
    )?;
    let manifest = fs::read_to_string(Path::new(DEPLOY).join("controller.yaml"))?;
    let image = format!("floe/controller:{tag}");
    cluster.apply(&manifest.replace("floe/controller:dev", &image), NAMESPACE)?;
    wait_for_rollout(cluster, NAMESPACE, "floe-controller")
}

/// Applies one of the samples in `deploy/examples`, and waits for its Deployment
/// of the same name.
pub fn install_example(cluster: &Cluster, name: &str) -> Result<()> {
    let file = Path::new(DEPLOY)
        .join("examples")
        .join(format!("{name}.yaml"));
    let manifest = fs::read_to_string(&file)
        .with_context(|| format!("there is no example {}", file.display()))?;
    cluster.apply(&manifest, "default")?;
    wait_for_rollout(cluster, "default", name)
}

/// Waits until one of the running controllers leads, and names its pod.
pub async fn leader(cluster: &Cluster, limit: Duration) -> Result<String> {
    let client = cluster.client().await?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);
    wait::until("a controller leads", limit, async || {
        let holder = leases
            .get(LEASE)
            .await?
            .spec
            .and_then(|spec| spec.holder_identity);
        let holder = holder.unwrap_or_default();
        // The identity is the host name, which is the pod's, and a random part.
        let leader = holder.split('_').next().unwrap_or_default();
        let controllers = pods.list(&ListParams::default().labels(CONTROLLER)).await?;
        let leads = controllers.items.iter().any(|pod| {
            pod.metadata.name.as_deref() == Some(leader)
                && pod.metadata.deletion_timestamp.is_none()
        });
        Ok(leads.then(|| leader.to_owned()))
    })
    .await
}

fn wait_for_rollout(cluster: &Cluster, namespace: &str, deployment: &str) -> Result<()> {
    let deployment = format!("deployment/{deployment}");
    let arguments = [
        "rollout",
        "status",
        &deployment,
        "--timeout=120s",
        "--namespace",
        namespace,
    ];
    command::read(cluster.kubectl().args(arguments))?;
    Ok(())
}
