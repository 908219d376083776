//! Installation by the chart, on a cluster that has nothing of floe: the steps of
//! `docs/guide/install.md`, to the end and back.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use floe_testbed::chart;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::shared::Shared;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::{self, agent};
use floe_testbed::helm;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;

use crate::LIMIT;
use crate::float_ips::NGINX;
use crate::holdings::addresses;
use crate::http::{get, pod_ip};

static BARE: Shared = Shared::new(|| ClusterSpec::new("chart"));

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Kinds of which the chart has objects.
const KINDS: &str = "deployments,daemonsets,services,serviceaccounts,secrets,configmaps,roles,\
    rolebindings,clusterroles,clusterrolebindings,poddisruptionbudgets,\
    validatingadmissionpolicies,validatingadmissionpolicybindings";

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_cluster_gets_floe_by_chart_upgrades_it_and_loses_all_of_it() -> Result<()> {
    let cluster = BARE.alone().await;
    let before = owned(&cluster)?;
    ensure!(before.is_empty(), "there is something of floe: {before}");
    let values = values(&cluster)?;

    // Two commands, and everything is there.
    floe::apply_definitions(&cluster)?;
    let release = |words: &[&str]| {
        let mut helm = Command::new(helm::ensure()?);
        helm.env("KUBECONFIG", cluster.paths().kubeconfig())
            .args(["--namespace", chart::NAMESPACE])
            .args(words);
        done(&mut helm)
    };
    let place = chart::folder();
    let folder = place.to_str().context("the path is text")?;
    let file = values.path().to_str().context("the path is text")?;
    let with = ["--wait", "--timeout=180s", "--values", file];
    release(&[&["install", "floe", folder], &with[..]].concat())?;
    let namespace = TestNamespace::create(&cluster, "chart").await?;
    namespace.apply(NGINX)?;
    let held = addresses(&namespace, "app=nginx", 3).await?;
    answered(&cluster, &namespace).await?;
    own_nodes_only(&cluster)?;
    let trusted = certificate(&cluster).await?;

    // Another setting: programs start again, and nobody else notices.
    let noisy = ["--set", "controller.logLevel=debug,agent.logLevel=debug"];
    release(&[&["upgrade", "floe", folder], &with[..], &noisy[..]].concat())?;
    ensure!(
        certificate(&cluster).await? == trusted,
        "the certificate is another one"
    );
    answered(&cluster, &namespace).await?;
    ensure!(
        addresses(&namespace, "app=nginx", 3).await? == held,
        "addresses have changed"
    );

    // Pods with addresses go first, then what is on nodes, then the rest.
    namespace.kubectl(&["delete", "deployment", "--all"])?;
    namespace.kubectl(&["wait", "pod", "--all", "--for=delete", "--timeout=90s"])?;
    release(
        &[
            &["upgrade", "floe", folder],
            &with[..],
            &["--set", "agent.remove=true"],
        ]
        .concat(),
    )?;
    // Helm is content when as many are ready as may be away.
    agent::wait_until_ready(&cluster)?;
    for node in ["node-1", "node-2", "node-3"] {
        let host = cluster.host(node).await?;
        let left = host.shell("ls /etc/cni/net.d /opt/cni/bin | grep galaxy || true")?;
        ensure!(left.trim().is_empty(), "{node} still has {left}");
    }
    release(&["uninstall", "floe", "--wait"])?;
    let left = wait::until("nothing of the chart is left", LIMIT, async || {
        let left = owned(&cluster)?;
        Ok(left.is_empty().then_some(left))
    });
    left.await?;
    // Ordinary pods start.
    let namespace = TestNamespace::create(&cluster, "chart").await?;
    namespace.apply(PLAIN)?;
    namespace.ready_pods("app=plain", 1, LIMIT).await?;
    Ok(())
}

const PLAIN: &str = "{apiVersion: v1, kind: Pod, metadata: {name: plain, labels: {app: plain}}, \
    spec: {containers: [{name: main, image: nginx}]}}";

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn everything_that_is_shipped_is_accepted_by_the_api_server() -> Result<()> {
    let cluster = crate::segment::together().await?;
    let try_out = |words: &[&str]| {
        let mut kubectl = cluster.kubectl();
        kubectl.args(["apply", "--dry-run=server"]).args(words);
        done(&mut kubectl)
    };
    let deploy = Path::new(REPOSITORY).join("deploy");
    let crds = deploy.join("crds");
    try_out(&[
        "--server-side",
        "--force-conflicts",
        "--filename",
        text(&crds)?,
    ])?;
    let mut files = vec![
        deploy.join("controller.yaml"),
        deploy.join("agent.yaml"),
        // The others there are files of the scheduler, not objects.
        deploy.join("scheduler/policy-configmap.yaml"),
        deploy.join("scheduler/service.yaml"),
    ];
    for entry in fs::read_dir(deploy.join("examples"))? {
        let path = entry?.path();
        // Its last object is of a kind that it defines itself.
        if !path.ends_with("custom-workload.yaml") {
            files.push(path);
        }
    }
    files.sort();
    for file in &files {
        try_out(&["--filename", text(file)?])?;
    }
    // Its objects are in a namespace that it makes itself.
    cluster.apply_all("{apiVersion: v1, kind: Namespace, metadata: {name: flipop}}")?;
    let one = Path::new(REPOSITORY).join("k8s/floe.yaml");
    try_out(&["--filename", text(&one)?])?;
    done(
        cluster
            .kubectl()
            .args(["delete", "namespace", "flipop", "--wait=false"]),
    )?;
    Ok(())
}

/// What is set for the testbed: its images, its addresses, and where its scheduler asks.
fn values(cluster: &Cluster) -> Result<tempfile::NamedTempFile> {
    let controller = floe::tag_of(&floe::publish_controller(cluster)?);
    let agent = floe::tag_of(&agent::publish(cluster)?);
    let values = json!({
        "addresses": [{
            "nodeSubnets": ["10.200.0.0/24"], "ips": ["10.200.0.100~10.200.0.180"],
            "subnet": "10.200.0.0/24", "gateway": "10.200.0.1",
        }],
        "networks": {
            "NetworkConf": [{ "type": "galaxy-k8s-vlan", "device": "eth0" }],
            "DefaultNetworks": ["pods"], "ENIIPNetwork": "galaxy-k8s-vlan",
        },
        "controller": {
            "image": { "tag": controller }, "service": { "clusterIP": "10.96.0.40" },
        },
        // All at once, which is quicker.
        "agent": { "image": { "tag": agent }, "maxUnavailable": "100%" },
    });
    let file = tempfile::NamedTempFile::new()?;
    serde_json::to_writer(&file, &values)?;
    Ok(file)
}

/// All pods of the sample answer at their addresses to a host outside.
async fn answered(cluster: &Cluster, namespace: &TestNamespace<'_>) -> Result<()> {
    let outside = cluster.outside().await?;
    for pod in namespace.ready_pods("app=nginx", 3, LIMIT).await? {
        let ip = pod_ip(&pod)?;
        let answer = get(&outside, SocketAddr::new(ip, 80))?;
        ensure!(answer.contains(&format!("server={ip} ")), "{answer}");
    }
    Ok(())
}

/// An agent, known by the node of its token, writes what belongs to that node, and nothing of
/// another one nor of another program.
fn own_nodes_only(cluster: &Cluster) -> Result<()> {
    let bound = ["--bound-object-kind=Node", "--bound-object-name=node-1"];
    let mut create = cluster.kubectl();
    create.args([
        "--namespace",
        chart::NAMESPACE,
        "create",
        "token",
        "floe-agent",
    ]);
    let token = done(create.args(bound))?;
    // A token counts only where no certificate says who calls.
    let server = done(cluster.kubectl().args([
        "config",
        "view",
        "--minify",
        "--output=jsonpath={.clusters[0].cluster.server}",
    ]))?;
    let agent = || {
        let mut kubectl = cluster.kubectl();
        kubectl
            .env("KUBECONFIG", "/dev/null")
            .arg(format!("--server={server}"))
            .args([
                "--insecure-skip-tls-verify",
                "--namespace",
                chart::NAMESPACE,
            ])
            .arg(format!("--token={}", token.trim()));
        kubectl
    };
    let create = |version: &str, kind: &str, name: &str| {
        let file = tempfile::NamedTempFile::new()?;
        let object = json!({
            "apiVersion": version, "kind": kind, "metadata": { "name": name },
        });
        serde_json::to_writer(&file, &object)?;
        let file = text(file.path())?;
        done(agent().args(["create", "--validate=false", "--filename", file]))
    };
    let network = |name: &str| create("floe.dev/v1alpha1", "NodeNetwork", name);
    let lease = |name: &str| create("coordination.k8s.io/v1", "Lease", name);
    for (what, tried, answer) in [
        // It is there, so that is as far as anybody comes.
        ("its own NodeNetwork", network("node-1"), "already exists"),
        ("that of another node", network("node-2"), "NotOwnNode"),
        ("that of nobody", network("node-99"), "NotOwnNode"),
        (
            "the lease of another node",
            lease("floe-vip-node-99"),
            "NotOwnNode",
        ),
        (
            "the sign of life of another node",
            lease("floe-node-node-99"),
            "NotOwnNode",
        ),
        (
            "the lease of another program",
            lease("somebody"),
            "NotOwnNode",
        ),
    ] {
        let Err(why) = tried else {
            anyhow::bail!("an agent may create {what}");
        };
        ensure!(format!("{why:#}").contains(answer), "{what}: {why:#}");
    }
    Ok(())
}

/// The certificate that the controller has made for its API.
async fn certificate(cluster: &Cluster) -> Result<Vec<u8>> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client().await?, chart::NAMESPACE);
    wait::until("there is a certificate", LIMIT, async || {
        let data: BTreeMap<_, _> = secrets.get("floe-api-tls").await?.data.unwrap_or_default();
        Ok(data.get("tls.crt").map(|it| it.0.clone()))
    })
    .await
}

/// All objects that belong to floe.
fn owned(cluster: &Cluster) -> Result<String> {
    let mut kubectl = cluster.kubectl();
    kubectl.args([
        "get",
        KINDS,
        "--all-namespaces",
        "--output=name",
        "--ignore-not-found",
    ]);
    let ours = done(kubectl.arg("--selector=app.kubernetes.io/part-of=floe"))?;
    Ok(ours.trim().to_owned())
}

/// What a command says that must succeed.
fn done(command: &mut Command) -> Result<String> {
    let output = command.output().context("cannot be started")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {told}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is text")
}
