//! floe away, its certificate ended, clocks wrong, the API server slow: whoever does not ask
//! for an address starts as ever, whoever does is told why not and comes in afterwards.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::material::{self, Members};
use super::{KIND, Webhook, apply, plain};
use crate::LIMIT;
use crate::holdings::{addresses, holds, told};
use crate::racks;

const SECRET: &str = "floe-webhook-tls";

/// A pod that asks for an address.
fn asking(name: &str) -> Value {
    racks::in_rack(racks::pod(name, &json!({})), "document")
}

/// A workload whose pods want nothing of floe.
fn plain_workload(name: &str, replicas: u32) -> Value {
    let mut workload = racks::workload("Deployment", name, replicas, &json!({}));
    workload["spec"]["template"]["spec"] = plain(name)["spec"].clone();
    workload
}

/// Waits until a pod that asks is taken, and has its address.
async fn is_taken(namespace: &TestNamespace<'_>, name: &str) -> Result<()> {
    wait::until(&format!("{name} is taken"), LIMIT, async || {
        let told = apply(namespace, &asking(name), &[])?;
        ensure!(told.contains(&format!("pod/{name} ")), "{told}");
        Ok(Some(()))
    })
    .await?;
    addresses(namespace, &format!("app={name}"), 1).await?;
    Ok(())
}

/// The Secret of the webhook.
struct Certificates(Api<Secret>);

impl Certificates {
    async fn of(cluster: &Cluster) -> Result<Self> {
        let client = cluster.client().await?;
        Ok(Self(Api::namespaced(client, floe::NAMESPACE)))
    }

    async fn read(&self) -> Result<Secret> {
        Ok(self.0.get(SECRET).await?)
    }

    async fn write(&self, members: &Members) -> Result<()> {
        let patch = Patch::Merge(json!({ "stringData": members }));
        self.0
            .patch(SECRET, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Waits until each of these is another one.
    async fn are_replaced(&self, members: &Members) -> Result<()> {
        wait::until("there are other certificates", LIMIT, async || {
            let now = self.read().await?.data.unwrap_or_default();
            let is_old = |(name, text): (&&str, &String)| {
                let found = now.get(*name).map(|it| it.0.as_slice());
                found.is_none_or(|it| it == text.as_bytes())
            };
            Ok((!members.iter().any(is_old)).then_some(()))
        })
        .await
    }
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn nobody_waits_for_the_webhook_who_does_not_ask_for_an_address() -> Result<()> {
    let cluster = racks::alone().await?;
    let namespace = TestNamespace::create(&cluster, "unrelated").await?;
    let _webhook = Webhook::install(&namespace).await?;

    // A certificate that has ended is made anew at once.
    let certificates = Certificates::of(&cluster).await?;
    let ended = material::ended(&certificates.read().await?)?;
    certificates.write(&ended).await?;
    certificates.are_replaced(&ended).await?;
    is_taken(&namespace, "good").await?;

    // The API server does not trust it, as with a clock that is wrong: a copy that floe
    // does not mend.
    untrusted(&cluster)?;
    wait::until("a pod with an address is refused", LIMIT, async || {
        let told = apply(&namespace, &asking("early"), &["--dry-run=server"])?;
        ensure!(
            told.contains("pods.floe.dev") && told.contains("x509"),
            "{told}"
        );
        Ok(Some(()))
    })
    .await?;
    namespace.apply(&plain("beside").to_string())?;
    namespace.ready_pods("app=beside", 1, LIMIT).await?;
    cluster_delete(&cluster, "floe-untrusted")?;

    // Nobody answers at all, and meanwhile the certificate ends.
    floe::scale(&cluster, 0)?;
    let ended = material::ended(&certificates.read().await?)?;
    certificates.write(&ended).await?;
    let told_at_once = apply(&namespace, &asking("late"), &[])?;
    for part in ["failed calling webhook", "pods.floe.dev"] {
        ensure!(told_at_once.contains(part), "{told_at_once}");
    }
    ensure!(
        namespace.api::<Pod>().get_opt("late").await?.is_none(),
        "it was stored: {told_at_once}"
    );
    // A workload that asks is stored, and says why it has no pods.
    let waits = racks::workload("Deployment", "waits", 1, &json!({}));
    let waits = racks::in_rack(waits, "document");
    namespace.apply(&waits.to_string())?;
    let set = replica_set(&namespace, "waits").await?;
    told(&namespace, &set, "FailedCreate", "failed calling webhook").await?;
    namespace.apply(&plain_workload("plain", 1).to_string())?;
    namespace.ready_pods("app=plain", 1, LIMIT).await?;
    // A pod with an address ends, whatever finalizers and labels others have on it.
    namespace.kubectl(&["label", "pod", "good", "colour=blue"])?;
    namespace.kubectl(&["delete", "pod", "good", "--timeout=60s"])?;

    // And floe comes back by itself.
    floe::scale(&cluster, 2)?;
    certificates.are_replaced(&ended).await?;
    is_taken(&namespace, "late").await?;
    addresses(&namespace, "app=waits", 1).await?;
    holds(&namespace, 2).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_wrong_clock_and_a_slow_api_server_hold_nobody_else_up() -> Result<()> {
    const PODS: usize = 4;
    let cluster = racks::alone().await?;
    let namespace = TestNamespace::create(&cluster, "clocks").await?;
    let _webhook = Webhook::install(&namespace).await?;

    // A replica whose clock is ahead has made all of it. The others take it back, and have the
    // API server trust what they make.
    let certificates = Certificates::of(&cluster).await?;
    let ahead = material::ahead()?;
    certificates.write(&ahead).await?;
    namespace.apply(&plain("beside").to_string())?;
    namespace.ready_pods("app=beside", 1, LIMIT).await?;
    certificates.are_replaced(&ahead).await?;
    is_taken(&namespace, "after").await?;

    cluster.slow_api_server(Duration::from_millis(200)).await?;
    let slow = racks::workload("Deployment", "slow", u32::try_from(PODS)?, &json!({}));
    namespace.apply(&racks::in_rack(slow, "document").to_string())?;
    namespace.apply(&plain_workload("plain", 2).to_string())?;
    namespace.ready_pods("app=plain", 2, LIMIT).await?;
    addresses(&namespace, "app=slow", PODS).await?;
    cluster.slow_api_server(Duration::ZERO).await?;
    // One each, and none beside.
    holds(&namespace, PODS + 1).await?;
    namespace.kubectl(&["delete", "deployment", "slow"])?;
    holds(&namespace, 1).await?;
    Ok(())
}

/// The `ReplicaSet` of a Deployment that was just made.
async fn replica_set(namespace: &TestNamespace<'_>, app: &str) -> Result<String> {
    let sets = namespace.api::<ReplicaSet>();
    let of_app = ListParams::default().labels(&format!("app={app}"));
    wait::until(&format!("{app} has a ReplicaSet"), LIMIT, async || {
        let found = sets.list(&of_app).await?.items;
        Ok(found.first().map(ResourceExt::name_any))
    })
    .await
}

fn cluster_delete(cluster: &Cluster, name: &str) -> Result<()> {
    let status = cluster.kubectl().args(["delete", KIND, name]).status()?;
    ensure!(status.success(), "{name} was not deleted");
    Ok(())
}

/// A copy of the webhook's configuration by which the API server trusts somebody else.
fn untrusted(cluster: &Cluster) -> Result<()> {
    let mut kubectl = cluster.kubectl();
    let found = kubectl
        .args(["get", KIND, "floe", "--output=json"])
        .output()?;
    let mut copy: Value = serde_json::from_slice(&found.stdout)?;
    copy["metadata"] = json!({ "name": "floe-untrusted" });
    let others = ByteString(material::stranger()?.into_bytes());
    let webhooks = copy["webhooks"].as_array_mut().context("it has some")?;
    for webhook in webhooks {
        webhook["clientConfig"]["caBundle"] = json!(others);
    }
    cluster.apply_all(&copy.to_string())
}
