//! `cargo xtask demo`: floe on a local cluster, in one command.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use floe_testbed::cluster::Cluster;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::floe::{self, agent};
use floe_testbed::host::sibling_program;
use floe_testbed::progress::Step;

use crate::child::mortal;
use crate::cluster::{DEFAULT_NAME, print};
use crate::tools::cargo;

/// How long a pod of the sample may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The account with whose tokens `kubectl floe` asks the management API.
const OPERATOR: &str = "deploy/examples/operator.yaml";
const ACCOUNT: &str = "--as-service-account=kube-system/floe-operator";

/// The program behind `kubectl floe`.
const CLI: &str = "kubectl-floe";

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
        // The kubeconfig has a client certificate, and the management API wants a token.
        let operator = crate::workspace().join(OPERATOR);
        kubectl(
            &cluster,
            &["apply", "--filename", &operator.to_string_lossy()],
        )?;
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
        "--package",
        "floe-cli",
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
    let address = kubectl(
        cluster,
        &[
            "get",
            "pods",
            "--selector=app=nginx",
            "--output=jsonpath={.items[0].status.podIP}",
        ],
    )?;
    let explained = explain(cluster, &address)?;
    let program = sibling_program(CLI)?;
    let programs = program.parent().unwrap_or(&program);
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
kubectl floe explains why one of the addresses is where it is:

{explained}
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

Your own kubectl works too, and kubectl floe with it:
  export KUBECONFIG={kubeconfig}
  export PATH={programs}:$PATH
  kubectl floe ip list
  kubectl floe explain {address} {ACCOUNT}
",
        nodes = indent(&nodes),
        pods = indent(&pods),
        records = indent(&records),
        answers = indent(&answers),
        explained = indent(&explained),
        programs = programs.display(),
        networks = indent(&networks),
        kubeconfig = cluster.paths().kubeconfig().display(),
    ))
}

/// What `kubectl floe explain` says about an address.
fn explain(cluster: &Cluster, address: &str) -> Result<String> {
    let output = Command::new(sibling_program(CLI)?)
        .env("KUBECONFIG", cluster.paths().kubeconfig())
        .args(["explain", address, ACCOUNT])
        .output()
        .context("cannot run kubectl-floe")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("kubectl floe explain {address} failed: {}", said.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
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
