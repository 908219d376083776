//! `cargo xtask demo`: floe on a local cluster, in one command.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use floe_testbed::cluster::Cluster;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::floe::{self, agent};
use floe_testbed::progress::Step;

use crate::child::mortal;
use crate::cluster::{DEFAULT_NAME, print};
use crate::tools::cargo;

/// How long a pod of the sample may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

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
        floe::configure_segment(&cluster)?;
        floe::install(&cluster)?;
        agent::install_example(&cluster)?;
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
        "--package",
        "floe-agent",
        "--package",
        "floe-cni",
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
    let networks = kubectl(cluster, &["get", "nodenetworks"])?;
    let answers = answers(cluster).await?;
    let kubectl = "cargo xtask cluster kubectl --";
    Ok(format!(
        "
floe runs on a local cluster of {size}.

{nodes}
{pods}
Each nginx has a float IP, which the Deployment keeps even when it is deleted:

{records}
A host outside of the cluster asks each of them:

{answers}
Every node tells which networks it can serve:

{networks}
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
        answers = indent(&answers),
        networks = indent(&networks),
        kubeconfig = cluster.paths().kubeconfig().display(),
    ))
}

/// What the pods of the sample answer to a host that is no node.
async fn answers(cluster: &Cluster) -> Result<String> {
    let outside = cluster.outside().await?;
    let shown = "--output=jsonpath={range .items[*]}{.status.podIP}{\"\\n\"}{end}";
    let ips = kubectl(cluster, &["get", "pods", "--selector=app=nginx", shown])?;
    let mut text = String::new();
    for ip in ips.lines() {
        let to = SocketAddr::new(ip.parse().context("a pod has no address")?, 80);
        let answer = outside.network()?.run(|| {
            let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        let answer = answer.with_context(|| format!("{ip} does not answer"))?;
        let said = answer.lines().last().unwrap_or_default();
        writeln!(text, "{ip}  {said}")?;
    }
    Ok(text)
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
