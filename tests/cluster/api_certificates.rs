//! The certificates of the management API: signed by whom the cluster says, renewed and
//! made anew while the controllers run.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::LIMIT;
use crate::api::{Caller, NAME, PORT};
use crate::http::pod_ip;
use crate::racks;

const SECRET: &str = "floe-api-tls";
const MANIFEST: &str = include_str!("../../deploy/controller.yaml");

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn certificates_are_renewed_and_made_anew_without_a_restart() -> Result<()> {
    let cluster = racks::alone().await?;
    let secrets: Api<Secret> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let lives = lives(&cluster).await?;
    let first = served(&cluster, |_| true).await?;

    // One that ends tomorrow, signed by the same authority: it is replaced.
    let authority = shown(&cluster).await?;
    let short = short_lived(&secrets.get(SECRET).await?)?;
    let patch = Patch::Merge(json!({ "stringData": short }));
    secrets
        .patch(SECRET, &PatchParams::default(), &patch)
        .await?;
    let short = short["tls.crt"].trim();
    let renewed = served(&cluster, |now| now != first && now != short).await?;
    assert_eq!(
        shown(&cluster).await?,
        authority,
        "the authority is the same"
    );

    // The way of the guide to have all of it made anew.
    let remove = r#"[{"op":"remove","path":"/data"}]"#;
    let mut kubectl = cluster.kubectl();
    kubectl.args([
        "-n",
        "kube-system",
        "patch",
        "secret",
        SECRET,
        "--type=json",
    ]);
    ensure!(
        kubectl.args(["-p", remove]).status()?.success(),
        "not patched"
    );
    let anew = served(&cluster, |now| now != renewed).await?;
    assert_ne!(
        shown(&cluster).await?,
        authority,
        "the authority is another one"
    );

    // floe may not create Secrets. Without one, the certificate stays in force.
    secrets.delete(SECRET, &DeleteParams::default()).await?;
    logged(&cluster, "CertificateWriteFailed").await?;
    assert_eq!(served(&cluster, |_| true).await?, anew);
    cluster.apply(empty_secret()?, floe::NAMESPACE)?;
    served(&cluster, |now| now != anew).await?;
    assert_eq!(self::lives(&cluster).await?, lives, "nobody was restarted");
    Ok(())
}

/// Waits until all controllers serve the same certificate, which is of this kind and
/// signed by the authority that is shown.
async fn served(cluster: &Cluster, is: impl Fn(&str) -> bool) -> Result<String> {
    wait::until("all serve such a certificate", LIMIT, async || {
        // Trusts what is shown now.
        let caller = Caller::nobody(cluster).await?;
        let mut all = Vec::new();
        for pod in controllers(cluster).await? {
            let replica = caller.at(SocketAddr::new(pod_ip(&pod)?, PORT));
            let mut curl = replica.curl();
            curl.args(["--output", "/dev/null", "--write-out", "%{certs}"]);
            let output = curl.arg(Caller::url("/openapi.json")).output()?;
            let wrong = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{}: {wrong}", pod.name_any());
            all.push(first_certificate(&String::from_utf8(output.stdout)?)?);
        }
        all.dedup();
        let one = all.len() == 1 && is(&all[0]);
        Ok(one.then(|| all.remove(0)))
    })
    .await
}

fn first_certificate(text: &str) -> Result<String> {
    let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
    let start = text.find(begin).context("no certificate is served")?;
    let length = text[start..].find(end).context("it has an end")?;
    Ok(text[start..start + length + end.len()].to_owned())
}

/// What clients are shown.
async fn shown(cluster: &Cluster) -> Result<String> {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let data = maps.get("floe-api-ca").await?.data;
    data.and_then(|mut data| data.remove("ca.crt"))
        .context("no authority is shown")
}

/// A certificate for one day, by the authority of the Secret.
fn short_lived(secret: &Secret) -> Result<BTreeMap<&'static str, String>> {
    let folder = tempfile::tempdir()?;
    for name in ["ca.crt", "ca.key"] {
        let data = secret.data.as_ref().and_then(|data| data.get(name));
        let data = data.with_context(|| format!("the Secret has no {name}"))?;
        std::fs::write(folder.path().join(name), &data.0)?;
    }
    let output = Command::new("openssl")
        .current_dir(folder.path())
        .args([
            "req", "-x509", "-CA", "ca.crt", "-CAkey", "ca.key", "-days", "1",
        ])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args([
            "-noenc", "-subj", "/CN=floe", "-keyout", "tls.key", "-out", "tls.crt",
        ])
        .args(["-addext", &format!("subjectAltName=DNS:{NAME}")])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    let read =
        |name| -> Result<_> { Ok((name, std::fs::read_to_string(folder.path().join(name))?)) };
    Ok([read("tls.crt")?, read("tls.key")?].into())
}

/// The Secret as it is installed.
fn empty_secret() -> Result<&'static str> {
    let mut documents = MANIFEST.split("\n---\n");
    let found = documents.find(|it| it.contains("\nkind: Secret\n"));
    found.context("the manifest has no Secret")
}

async fn controllers(cluster: &Cluster) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let controllers = ListParams::default().labels(floe::CONTROLLER);
    let mut found = pods.list(&controllers).await?.items;
    found.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(found)
}

/// The controllers, and how often each was started again.
async fn lives(cluster: &Cluster) -> Result<BTreeMap<String, i32>> {
    let pods = controllers(cluster).await?;
    let restarts = |pod: &Pod| {
        let status = pod.status.as_ref()?;
        let first = status.container_statuses.as_ref()?.first()?;
        Some(first.restart_count)
    };
    let lives = pods
        .iter()
        .map(|pod| (pod.name_any(), restarts(pod).unwrap_or(-1)));
    Ok(lives.collect())
}

/// Waits until every controller's log has a text.
async fn logged(cluster: &Cluster, text: &str) -> Result<()> {
    wait::until(&format!("all log {text}"), LIMIT, async || {
        for pod in controllers(cluster).await? {
            let mut kubectl = cluster.kubectl();
            kubectl.args(["logs", "--namespace", floe::NAMESPACE, &pod.name_any()]);
            let log = String::from_utf8_lossy(&kubectl.output()?.stdout).into_owned();
            ensure!(log.contains(text), "{} does not", pod.name_any());
        }
        Ok(Some(()))
    })
    .await
}
