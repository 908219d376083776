//! Installation by the chart, on a cluster that has nothing of floe: the steps of
//! `docs/guide/install.md`, to the end and back, with both ways of scheduling.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use floe_testbed::chart;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::shared::Shared;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::agent;
use floe_testbed::floe::build::Build;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::LIMIT;
use crate::float_ips::NGINX;
use crate::holdings::addresses;
use crate::http::{get, pod_ip};

mod gates;
mod load;
mod readme;
pub mod release;
mod switching;

use load::{Author, Busy, Visitors};
use release::{Release, done, images, text};

pub static BARE: Shared = Shared::new(|| ClusterSpec::new("chart"));

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// What each program of another build ends with.
const MARK: &str = "another build";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_cluster_gets_floe_by_chart_upgrades_it_under_load_switches_and_loses_all_of_it()
-> Result<()> {
    let cluster = BARE.alone().await;
    cluster.schedule_with_extender(true).await?;
    let release = Release::install(&cluster, &[])?;
    let namespace = TestNamespace::create(&cluster, "chart").await?;
    namespace.apply(NGINX)?;
    addresses(&namespace, "app=nginx", 3).await?;
    answered(&cluster, &namespace).await?;
    own_nodes_only(&cluster)?;

    upgraded(&cluster, &release, &namespace).await?;
    switching::there_and_back(&cluster, &release, &namespace).await?;

    namespace.kubectl(&["delete", "deployment", "--all"])?;
    namespace.kubectl(&["wait", "pod", "--all", "--for=delete", "--timeout=90s"])?;
    release.remove().await?;
    gates::forgotten(&cluster).await
}

/// Another build takes the place of this one, and nobody notices: not who asks pods for
/// something, not who applies new ones, and a workload that changes all the time is right in
/// the end.
async fn upgraded(
    cluster: &Cluster,
    release: &Release<'_>,
    namespace: &TestNamespace<'_>,
) -> Result<()> {
    let published = Build::marked(MARK)?.publish(cluster)?;
    let held = addresses(namespace, "app=nginx", 3).await?;
    let mut busy = Busy::start(namespace).await?;
    let (certificate_before, hook_before) = (certificate(cluster).await?, hook(cluster).await?);
    let (floe_before, pods_before) = (floe_pods(cluster).await?, lives(namespace).await?);
    assert_eq!(floe_before.len(), 5, "{floe_before:?}");

    let visitors = Visitors::begin(cluster, &held).await?;
    let author = Author::begin(namespace)?;
    let settings = images(&published);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut upgrade = release.begin_upgrade(&settings)?;
    while !upgrade.has_ended()? {
        busy.stir()?;
    }
    agent::wait_until_ready(cluster)?;
    // All of those before are gone, and those that are here are of the other build.
    wait::until("all run the other build", LIMIT, async || {
        let now = floe_pods(cluster).await?;
        let stayed: Vec<_> = now
            .keys()
            .filter(|it| floe_before.contains_key(*it))
            .collect();
        ensure!(stayed.is_empty(), "there is still {stayed:?}");
        let wanted = BTreeSet::from([&published.controller, &published.agent]);
        let run: BTreeSet<_> = now.values().collect();
        ensure!(
            now.len() == 5 && run == wanted,
            "{now:?} run, not {wanted:?}"
        );
        Ok(Some(()))
    })
    .await?;
    busy.stir()?;
    let taken = author.end().await?;
    let answered_by_each = visitors.end()?;
    ensure!(
        taken > 10 && answered_by_each > 100,
        "{taken} were taken, {answered_by_each} answered"
    );

    busy.is_well().await?;
    assert_eq!(lives(namespace).await?, pods_before);
    assert_eq!(addresses(namespace, "app=nginx", 3).await?, held);
    for node in ["node-1", "node-2", "node-3"] {
        let tail = format!("tail -c {} /opt/cni/bin/galaxy-sdn", MARK.len());
        assert_eq!(cluster.host(node).await?.shell(&tail)?, MARK, "{node}");
    }
    assert_eq!(certificate(cluster).await?, certificate_before);
    // What the controller has written there was not taken out and written again, either.
    assert_eq!(hook(cluster).await?, hook_before);
    Ok(())
}

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
        deploy.join("webhook.yaml"),
        deploy.join("webhook-gates.yaml"),
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

/// All pods of the sample answer at their addresses to a host outside.
pub async fn answered(cluster: &Cluster, namespace: &TestNamespace<'_>) -> Result<()> {
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
    own_entries_only(cluster, agent)
}

/// Of a register, in which all nodes have entries, the agent of node-1 changes its own.
fn own_entries_only(cluster: &Cluster, agent: impl Fn() -> Command) -> Result<()> {
    const NAME: &str = "own-entries-only";
    let holding = |pod: &str| {
        let address = "192.0.2.1";
        let pod = json!({
            "pod": pod, "uid": "1", "nodeAddress": address, "addresses": [address], "mode": "nat",
        });
        pod.to_string()
    };
    let register = json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIPRegister",
        "metadata": { "name": NAME },
        "entries": { "0-x": {
            "vip": "shop/x", "holderNode": "node-2", "holder": holding("a"), "state": "{}",
        } },
    });
    let file = tempfile::NamedTempFile::new()?;
    serde_json::to_writer(&file, &register)?;
    let create = ["create", "--filename", text(file.path())?];
    done(cluster.kubectl().args(create))?;
    let change = |entry: serde_json::Value| {
        let patch = json!({ "entries": { "0-x": entry } }).to_string();
        let words = ["patch", "virtualipregisters", NAME, "--type=merge"];
        done(agent().args(words).args(["--patch", &patch]))
    };
    let next = |holder: &str| json!({ "successorNode": "node-1", "successor": holding("b"), "holder": holding(holder) });
    for (what, tried) in [
        ("takes the entry out", change(json!(null))),
        (
            "changes its state",
            change(json!({ "state": "{\"moves\":9}" })),
        ),
        (
            "lets go for another",
            change(json!({ "holderNode": null, "holder": null })),
        ),
        (
            "gives it to a third",
            change(json!({ "holderNode": "node-3" })),
        ),
        ("changes the holder beside itself", change(next("c"))),
    ] {
        let Err(why) = tried else {
            anyhow::bail!("the agent of another node {what}");
        };
        ensure!(format!("{why:#}").contains("NotOwnNode"), "{what}: {why:#}");
    }
    change(next("a")).context("it says that it is prepared")?;
    change(json!({ "holderNode": "node-1" })).context("it takes the addresses")?;
    change(json!({ "holderNode": "node-3" })).context("it gives them away")?;
    done(
        cluster
            .kubectl()
            .args(["delete", "virtualipregisters", NAME]),
    )
    .map(drop)
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

/// The webhook's configuration: how often it was changed, and whom the API server trusts.
async fn hook(cluster: &Cluster) -> Result<(Option<i64>, Vec<u8>)> {
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client().await?);
    wait::until("the API server knows whom to trust", LIMIT, async || {
        let found = hooks.get("floe").await?;
        let generation = found.metadata.generation;
        let mut bundles = found.webhooks.into_iter().flatten();
        let first = bundles.next().and_then(|it| it.client_config.ca_bundle);
        Ok(first.map(|bundle| (generation, bundle.0)))
    })
    .await
}

/// The uids of floe's own pods, with the digest of the image that each runs.
async fn floe_pods(cluster: &Cluster) -> Result<BTreeMap<String, String>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, chart::NAMESPACE);
    let ours = ListParams::default().labels("app.kubernetes.io/part-of=floe");
    let mut found = BTreeMap::new();
    for pod in pods.list(&ours).await?.items {
        let status = pod.status.clone().unwrap_or_default();
        let image = status.container_statuses.unwrap_or_default();
        let image = image.first().map(|it| it.image_id.clone());
        // It is the name of the image, and after that its digest.
        let digest = image.unwrap_or_default();
        let digest = digest.rsplit('@').next().unwrap_or_default().to_owned();
        found.insert(pod.uid().unwrap_or_default(), digest);
    }
    Ok(found)
}

/// The life of each pod of the sample: its uid, and when its container was started.
pub async fn lives(namespace: &TestNamespace<'_>) -> Result<BTreeMap<String, String>> {
    let mut lives = BTreeMap::new();
    for pod in namespace.pods("app=nginx").await? {
        let status = pod.status.clone().unwrap_or_default();
        let statuses = status.container_statuses.unwrap_or_default();
        let started = statuses
            .iter()
            .map(|it| (&it.container_id, it.restart_count));
        let started: Vec<_> = started.collect();
        lives.insert(pod.uid().unwrap_or_default(), format!("{started:?}"));
    }
    Ok(lives)
}
