//! Records that an administrator edits while their pods run, and reverts.
//!
//! | the key names | the controller | the agent |
//! | --- | --- | --- |
//! | a pod that nothing can be kept for | gives the record back to the pod that runs | nothing: the pod answers all the time |
//! | another pod that may come | keeps the address for that one | takes it off, and restores it after the revert |
//! | another pod, and no controller runs | – | the same, once the record has no uid of this pod |

use std::fs;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use floe_testbed::host::HostRef;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::cli::terminal::Terminal;
use crate::holdings::{POLICY, Record, agrees, ip, records_of, told};
use crate::segment;
use crate::underlay::{answers, pod_on, shown};
use crate::witness::claimants;

/// A bare pod keeps its address only if its name ends in a number.
const POD: &str = "edited-0";

/// The account that asks the controller.
const OPERATOR: &str = include_str!("../../deploy/examples/operator.yaml");

/// A running pod whose record is edited.
struct Scene<'a> {
    namespace: &'a TestNamespace<'a>,
    outside: HostRef,
    terminal: Terminal,
    pod: Pod,
    ip: String,
    record: Record,
}

impl<'a> Scene<'a> {
    async fn prepare(cluster: &Cluster, namespace: &'a TestNamespace<'a>) -> Result<Self> {
        let outside = cluster.outside().await?;
        let pod = pod_on("node-2", POD, &json!({ POLICY: "never" }));
        namespace.apply(&pod.to_string())?;
        let selector = format!("app={POD}");
        namespace.ready_pods(&selector, 1, LIMIT).await?;
        let pod = namespace.api::<Pod>().get(POD).await?;
        let ip = ip(&pod)?;
        answers(&outside, POD, &ip)?;
        let records = records_of(namespace).await?;
        let record = records.get(&ip).context("it has a record")?.clone();
        cluster.apply_all(OPERATOR)?;
        let terminal = Terminal::open(cluster)?;
        fs::copy(cluster.paths().kubeconfig(), terminal.kubeconfig())?;
        Ok(Self {
            namespace,
            outside,
            terminal,
            pod,
            ip,
            record,
        })
    }

    /// Edits the record, as somebody does with kubectl.
    fn edit(&self, spec: &Value) -> Result<()> {
        let patch = json!({ "spec": spec }).to_string();
        let arguments = ["floatingip", &self.ip, "--type=merge", "--patch", &patch];
        let all: Vec<&str> = ["patch"].into_iter().chain(arguments).collect();
        self.namespace.kubectl(&all).map(drop)
    }

    /// The key of another pod beside this one.
    fn key_of(&self, pod: &str) -> String {
        let key = &self.record.key;
        format!("{}{pod}", key.strip_suffix(POD).unwrap_or(key))
    }

    /// The reasons for which `check` reports the pod or its address.
    fn checked(&self) -> Result<Vec<String>> {
        // It ends with 1 when there is something to find.
        let command = "kubectl floe check -o json 2>/dev/null || true";
        let printed = self.terminal.run(command)?;
        let rows: Vec<Value> = serde_json::from_str(&printed).context(printed)?;
        let pod = format!("pod/{}/{POD}", self.namespace.name());
        let record = format!("floatingip/{}", self.ip);
        let is_about = |row: &&Value| row["object"] == *pod || row["object"] == *record;
        let reason = |row: &Value| row["reason"].as_str().unwrap_or_default().to_owned();
        Ok(rows.iter().filter(is_about).map(reason).collect())
    }

    /// Waits until `check` reports this reason about the pod.
    async fn until_checked(&self, reason: &str) -> Result<()> {
        wait::until(&format!("check reports {reason}"), LIMIT, async || {
            let found = self.checked()?;
            ensure!(found.iter().any(|it| it == reason), "{found:?}");
            Ok(Some(()))
        })
        .await
    }

    /// Waits until the address is off the pod, and nobody answers for it.
    async fn until_off(&self) -> Result<()> {
        let network = self.namespace.cluster().pod_network(&self.pod)?;
        wait::until("the address is off", LIMIT, async || {
            let has = shown(&network)?;
            ensure!(!has.iter().any(|it| it.contains(&self.ip)), "{has:?}");
            Ok(Some(()))
        })
        .await?;
        let nobody = claimants(&self.outside, self.ip.parse()?)?;
        ensure!(nobody.is_empty(), "{nobody:?} answers for {}", self.ip);
        ensure!(answers(&self.outside, POD, &self.ip).is_err());
        Ok(())
    }

    /// Waits until the same pod answers with a record of its own, and all say so.
    async fn until_well(&self) -> Result<()> {
        wait::until("the pod answers with its record", LIMIT, async || {
            let records = records_of(self.namespace).await?;
            agrees(&self.pod, records.get(&self.ip))?;
            answers(&self.outside, POD, &self.ip).map(Some)
        })
        .await?;
        wait::until("check reports nothing", LIMIT, async || {
            let found = self.checked()?;
            ensure!(found.is_empty(), "{found:?}");
            Ok(Some(()))
        })
        .await?;
        let now = self.namespace.api::<Pod>().get(POD).await?;
        assert_eq!(now.uid(), self.pod.uid(), "it is the same pod");
        Ok(())
    }

    /// Waits until floe explains the pod with these words.
    async fn until_explained(&self, words: &str) -> Result<()> {
        let pod = format!("{}/{POD}", self.namespace.name());
        let account = format!("{}/floe-operator", floe::NAMESPACE);
        let command = format!("kubectl floe explain {pod} --as-service-account {account}");
        wait::until(&format!("{command}: {words}"), LIMIT, async || {
            let text = self.terminal.run(&command)?;
            ensure!(text.contains(words), "{text}");
            Ok(Some(()))
        })
        .await
    }
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_pod_whose_record_is_edited_and_reverted_is_reached_again() -> Result<()> {
    let cluster = segment::alone().await?;
    let namespace = TestNamespace::create(&cluster, "edited").await?;
    let scene = Scene::prepare(&cluster, &namespace).await?;
    scene.until_well().await?;
    let key = &scene.record.key;

    // Nothing can be kept for a pod without a number: the address is free, and the pod that
    // runs with it has it again before anybody else could.
    let network = cluster.pod_network(&scene.pod)?;
    scene.edit(&json!({ "key": scene.key_of("other") }))?;
    told(&namespace, POD, "AddressAdopted", &scene.ip).await?;
    ensure!(shown(&network)?.iter().any(|it| it.contains(&scene.ip)));
    scene.until_well().await?;
    scene.edit(&json!({ "key": key }))?;
    scene.until_well().await?;

    // For one with a number it is kept. It is that pod's, so this one must not answer.
    scene.edit(&json!({ "key": scene.key_of("other-0") }))?;
    told(&namespace, POD, "AddressMovedAway", &scene.ip).await?;
    scene.until_off().await?;
    scene.until_checked("AddressConflict").await?;
    scene.until_explained("has no address").await?;
    scene.edit(&json!({ "key": key }))?;
    told(&namespace, POD, "AddressRestored", &scene.ip).await?;
    scene.until_well().await?;
    scene.until_explained(&format!("has {}", scene.ip)).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn without_a_controller_an_agent_follows_edits_of_records_by_itself() -> Result<()> {
    let cluster = segment::alone().await?;
    let namespace = TestNamespace::create(&cluster, "edited").await?;
    let scene = Scene::prepare(&cluster, &namespace).await?;
    let key = &scene.record.key;
    let place = json!({ "NodeName": scene.record.node, "Uid": scene.record.uid }).to_string();
    let nobody = json!({ "NodeName": scene.record.node, "Uid": "" }).to_string();
    floe::scale(&cluster, 0)?;

    let other = json!({ "key": scene.key_of("other-0"), "attribute": nobody });
    scene.edit(&other)?;
    told(&namespace, POD, "AddressMovedAway", &scene.ip).await?;
    scene.until_off().await?;
    // Without the uid it is not said yet that it is this pod's again.
    scene.edit(&json!({ "key": key, "attribute": nobody }))?;
    scene.until_checked("AddressMissing").await?;
    scene.until_off().await?;
    scene.edit(&json!({ "key": key, "attribute": place }))?;
    told(&namespace, POD, "AddressRestored", &scene.ip).await?;
    floe::scale(&cluster, 2)?;
    scene.until_well().await
}
