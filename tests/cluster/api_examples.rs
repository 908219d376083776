//! The examples of the guide to the management API: each is run as it is printed, and
//! must be answered.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::host::Inside;
use floe_testbed::supervisor::addresses::API_SERVER;
use serde_json::json;
use tempfile::TempDir;

use crate::LIMIT;
use crate::api::{Caller, block, forget_all};
use crate::holdings::{ARGS, POLICY, records};
use crate::racks;

const GUIDE: &str = include_str!("../../docs/guide/api.md");
const ACCESS: &str = include_str!("../../docs/guide/api-access.md");

/// The examples are about a pod of this namespace.
const SHOP: &str = "shop";

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn every_example_of_the_guide_is_answered() -> Result<()> {
    let cluster = racks::alone().await?;
    forget_all(&cluster).await?;
    let tried = try_all(&cluster).await;
    let kubectl = |arguments: &[&str]| cluster.kubectl().args(arguments).output();
    kubectl(&["delete", "namespace", SHOP, "--wait=false"])?;
    kubectl(&["delete", "pool", "blue-green", "--namespace", "kube-system"])?;
    forget_all(&cluster).await?;
    tried
}

async fn try_all(cluster: &Cluster) -> Result<()> {
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SHOP } });
    cluster.apply(&namespace.to_string(), "default")?;
    let annotations = json!({ ARGS: r#"{"request_ip_range":[["10.0.70.3"]]}"#, POLICY: "" });
    let pod = racks::in_rack(racks::pod("db-1", &annotations), "document");
    wait::until("the namespace takes a pod", LIMIT, async || {
        cluster.apply(&pod.to_string(), SHOP).map(Some)
    })
    .await?;
    wait::until("the pod has its address", LIMIT, async || {
        Ok(records(cluster, "_shop_").await?.get("10.0.70.3").cloned())
    })
    .await?;

    let operator = Caller::operator(cluster).await?;
    let folder = tempfile::tempdir()?;
    // What the document leaves out, and where the port-forward would lead.
    let options = format!(
        "curl --silent --show-error --fail-with-body --noproxy '*' --cacert {} \
         -H 'Authorization: Bearer {}' --connect-to localhost:9041:{} ",
        operator.certificate().display(),
        operator.token(),
        operator.address(),
    );
    let lines = GUIDE.replace("\\\n", " ");
    let lines = lines.lines().filter(|line| line.starts_with("curl "));
    let mut count = 0;
    for line in lines {
        let full = line.replacen("curl ", &options, 1);
        let mut shell = operator.host().command(Inside::Network, "sh");
        shell
            .current_dir(&folder)
            .args(["-c", &format!("exec {full}")]);
        if line.starts_with("curl -N ") {
            begins(&mut shell, "event: Relisted")?;
        } else {
            let output = shell.output()?;
            ensure!(output.status.success(), "{line}: {output:?}");
        }
        count += 1;
    }
    ensure!(count >= 8, "the guide has {count} examples only");
    let reserved = records(cluster, "printers").await?;
    ensure!(reserved.len() == 10, "reserved are {reserved:?}");
    reach(cluster, &operator, &folder)
}

/// An answer without an end: its first line counts.
fn begins(command: &mut Command, with: &str) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().context("its output is piped")?;
    let first = BufReader::new(output).lines().next();
    child.kill()?;
    child.wait()?;
    let first = first.context("it says nothing")??;
    ensure!(first == with, "it begins with {first}");
    Ok(())
}

/// The way in, from the beginning: authority, port-forward, token, both APIs.
fn reach(cluster: &Cluster, operator: &Caller, folder: &TempDir) -> Result<()> {
    let mut view = cluster.kubectl();
    view.args(["config", "view", "--raw", "--output", "json"]);
    let mut config: serde_json::Value = serde_json::from_slice(&view.output()?.stdout)?;
    config["clusters"][0]["cluster"]["server"] = json!(format!("https://{API_SERVER}"));
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, config.to_string())?;
    let kubectl = cluster.kubectl().get_program().to_owned();
    let tools = Path::new(&kubectl)
        .parent()
        .context("kubectl has a folder")?;
    // Nobody types so fast that the port-forward would not be there yet.
    let script = format!(
        "set -eu
         PATH={}:$PATH
         trap 'kill $(jobs -p)' EXIT
         curl() {{ command curl --silent --show-error --fail-with-body --noproxy '*' \
             --retry 100 --retry-connrefused --retry-max-time 30 --retry-delay 1 \"$@\"; echo; }}
         {}",
        tools.display(),
        block(ACCESS, "sh", "port-forward")?,
    );
    let mut shell = operator.host().command(Inside::Network, "bash");
    shell.current_dir(folder).env("KUBECONFIG", &file);
    let output = shell.args(["-c", &script]).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{output:?}");
    for part in [r#""totalElements":"#, r#""total":"#] {
        ensure!(printed.contains(part), "it prints {printed}");
    }
    Ok(())
}
