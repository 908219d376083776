//! `cargo xtask demo`: floe on a local cluster, in one command.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use floe_testbed::cluster::Cluster;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::floe;
use floe_testbed::progress::Step;

use crate::child::mortal;
use crate::cluster::{DEFAULT_NAME, print};
use crate::tools::cargo;

/// Options of the demo.
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(show())
}

async fn show() -> Result<()> {
    Step::run("building floe", build)?;
    let (cluster, new) = match Cluster::attach(DEFAULT_NAME).await? {
        Some(cluster) => (cluster, false),
        None => (Cluster::up(&ClusterSpec::new(DEFAULT_NAME))?, true),
    };
    Step::run("installing floe and a sample on the cluster", || {
        floe::install(&cluster)?;
        floe::configure_example(&cluster)?;
        floe::install_example(&cluster, "nginx-never", "nginx-deployment")
    })?;
    let screen = screen(&cluster).await?;
    if new {
        cluster.detach()?;
    }
    print(&screen)
}

fn build() -> Result<()> {
    let mut build = cargo();
    build.current_dir(crate::workspace()).args([
        "build",
        "--quiet",
        "--bins",
        "--package",
        "floe-testbed",
        "--package",
        "floe-controller",
    ]);
    let status = mortal(&build)?.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("floe does not build");
    }
    Ok(())
}

async fn screen(cluster: &Cluster) -> Result<String> {
    let size = size(&cluster.status().await?.spec);
    let leader = floe::leader(cluster, Duration::from_secs(30)).await?;
    let nodes = kubectl(cluster, &["get", "nodes"])?;
    let shown = "NAMESPACE:.metadata.namespace,NAME:.metadata.name,PHASE:.status.phase,IP:.status.podIP,NODE:.spec.nodeName";
    let pods = kubectl(
        cluster,
        &[
            "get",
            "pods",
            "--all-namespaces",
            &format!("--output=custom-columns={shown}"),
        ],
    )?;
    let records = kubectl(cluster, &["get", "fip"])?;
    let kubectl = "cargo xtask cluster kubectl --";
    Ok(format!(
        "
floe runs on a local cluster of {size}.

{nodes}
{pods}
Each nginx has a float IP, which the Deployment keeps even when it is deleted:

{records}
{leader} leads; another one takes over when it goes.

Try next:
  {kubectl} delete deployment nginx-deployment
  {kubectl} get fip
  {kubectl} apply -f deploy/examples/nginx-never.yaml
  {kubectl} get fip
  {kubectl} describe pod -l app=nginx
  {kubectl} -n kube-system delete pod {leader}
  {kubectl} -n kube-system get lease galaxy-ipam
  {kubectl} -n kube-system logs deployment/floe-controller
  cargo xtask cluster status
  cargo xtask cluster down        (nothing is left behind)

Your own kubectl works too:
  export KUBECONFIG={kubeconfig}
",
        nodes = indent(&nodes),
        pods = indent(&pods),
        records = indent(&records),
        kubeconfig = cluster.paths().kubeconfig().display(),
    ))
}

fn size(spec: &ClusterSpec) -> String {
    let nodes = match spec.nodes {
        1 => "one node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    match spec.fake_nodes {
        0 => nodes,
        fake => format!("{nodes} and {fake} fake ones"),
    }
}

fn kubectl(cluster: &Cluster, arguments: &[&str]) -> Result<String> {
    let output = cluster
        .kubectl()
        .args(arguments)
        .output()
        .context("cannot run kubectl")?;
    if !output.status.success() {
        bail!(
            "kubectl {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn indent(text: &str) -> String {
    text.lines().fold(String::new(), |text, line| {
        text + "  " + line.trim_end() + "\n"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_the_cluster_s_own() {
        let spec = |nodes| ClusterSpec::new("floe").nodes(nodes);
        assert_eq!(size(&spec(1)), "one node");
        assert_eq!(size(&spec(5)), "5 nodes");
        assert_eq!(size(&spec(3).fake_nodes(50)), "3 nodes and 50 fake ones");
    }
}
