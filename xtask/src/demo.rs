//! `cargo xtask demo`: floe on a local cluster, in one command.

use std::fs;
use std::process;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::host::sibling_program;
use floe_testbed::image::Image;
use floe_testbed::progress::Step;

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
        install(&cluster)
    })?;
    let screen = screen(&cluster).await?;
    if new {
        cluster.detach()?;
    }
    print(&screen)
}

fn build() -> Result<()> {
    let status = process::Command::new(cargo())
        .current_dir(crate::workspace())
        .args([
            "build",
            "--quiet",
            "--bins",
            "--package",
            "floe-testbed",
            "--package",
            "floe-controller",
        ])
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("floe does not build");
    }
    Ok(())
}

fn install(cluster: &Cluster) -> Result<()> {
    let digest = Image::empty()
        .program(&sibling_program("floe-controller")?, "floe-controller")?
        .store(&cluster.paths().registry(), &["floe/controller"])
        .context("cannot make the image of floe-controller")?;
    // A tag of its own per build: nodes keep what they pulled, and a demo that
    // is run again after a change shall show the change.
    let tag: String = digest
        .trim_start_matches("sha256:")
        .chars()
        .take(12)
        .collect();
    let deploy = crate::workspace().join("deploy");
    let controller = fs::read_to_string(deploy.join("controller.yaml"))?;
    cluster.apply(
        &controller.replace("floe/controller:dev", &format!("floe/controller:{tag}")),
        "kube-system",
    )?;
    cluster.apply(
        &fs::read_to_string(deploy.join("examples/hello.yaml"))?,
        "default",
    )?;
    for (namespace, deployment) in [("kube-system", "floe-controller"), ("default", "hello")] {
        let name = format!("deployment/{deployment}");
        kubectl(
            cluster,
            &[
                "--namespace",
                namespace,
                "rollout",
                "status",
                &name,
                "--timeout=120s",
            ],
        )?;
    }
    Ok(())
}

/// The controller that leads; after an upgrade the lease moves to a new one.
async fn leader(cluster: &Cluster) -> Result<String> {
    let pods = [
        "--namespace=kube-system",
        "get",
        "pods",
        "--selector=app.kubernetes.io/name=floe-controller",
    ];
    wait::until("a controller leads", Duration::from_secs(30), async || {
        let lease = ["--namespace=kube-system", "get", "lease", "galaxy-ipam"];
        let holder = kubectl(
            cluster,
            &[&lease[..], &["--output=jsonpath={.spec.holderIdentity}"]].concat(),
        )?;
        let leader = holder.split('_').next().unwrap_or_default().to_owned();
        let running = kubectl(cluster, &[&pods[..], &["--output=name"]].concat())?;
        Ok(running
            .lines()
            .any(|pod| pod == format!("pod/{leader}"))
            .then_some(leader))
    })
    .await
}

async fn screen(cluster: &Cluster) -> Result<String> {
    let leader = leader(cluster).await?;
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
    let kubectl = "cargo xtask cluster kubectl --";
    Ok(format!(
        "
floe runs on a local cluster of three nodes.

{nodes}
{pods}
{leader} leads; its fellow takes over when it goes.

Try next:
  {kubectl} get pods -A -o wide
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
        kubeconfig = cluster.paths().kubeconfig().display(),
    ))
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
