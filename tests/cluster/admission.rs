//! What can never work is refused when it is applied. And whatever becomes of the webhook,
//! nobody waits for it who does not ask for an address (`faults`).

use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::{ARGS, POLICY, POOL, addresses, holds};
use crate::racks;

mod faults;
mod material;

const MANIFEST: &str = include_str!("../../deploy/webhook.yaml");
const GATES: &str = include_str!("../../deploy/webhook-gates.yaml");
const KIND: &str = "validatingwebhookconfiguration";

/// The webhook, until this is dropped: other tests want to see what becomes of pods that it
/// would have refused.
pub struct Webhook<'a>(&'a Cluster);

impl<'a> Webhook<'a> {
    /// Applies it as an administrator would, and waits until the API server asks floe.
    pub async fn install(namespace: &'a TestNamespace<'_>) -> Result<Self> {
        // Made first, so that a half-done start is undone, too.
        let webhook = Self(namespace.cluster());
        webhook.0.apply_all(MANIFEST)?;
        let bad = racks::pod("probe", &json!({ POOL: "a_b" }));
        wait::until("a bad pod is refused", LIMIT, async || {
            let told = apply(namespace, &bad, &["--dry-run=server"])?;
            ensure!(told.contains("InvalidPoolName"), "{told}");
            Ok(Some(()))
        })
        .await?;
        Ok(webhook)
    }

    /// The same with the part that puts pods at their gate.
    pub async fn install_with_gates(namespace: &'a TestNamespace<'_>) -> Result<Self> {
        let webhook = Self::install(namespace).await?;
        webhook.0.apply_all(GATES)?;
        let pod = racks::pod("probe", &json!({}));
        wait::until("a pod comes to the gate", LIMIT, async || {
            let told = apply(namespace, &pod, &["--dry-run=server", "--output=json"])?;
            ensure!(told.contains("floe.dev/ip"), "{told}");
            Ok(Some(()))
        })
        .await?;
        Ok(webhook)
    }
}

impl Drop for Webhook<'_> {
    fn drop(&mut self) {
        // Whoever applies a bad pod next finds out.
        for (kind, name) in [
            ("mutatingwebhookconfiguration", "floe"),
            (KIND, "floe"),
            (KIND, "floe-untrusted"),
        ] {
            let _ = self
                .0
                .kubectl()
                .args(["delete", kind, name, "--ignore-not-found"])
                .stdout(Stdio::null())
                .status();
        }
    }
}

/// What `kubectl apply` says to a person, whether it succeeds or not.
pub fn apply(namespace: &TestNamespace<'_>, object: &Value, more: &[&str]) -> Result<String> {
    let mut kubectl = namespace
        .cluster()
        .kubectl()
        .args(["--namespace", namespace.name(), "apply", "--filename", "-"])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = kubectl.stdin.take().context("its input is piped")?;
    stdin.write_all(object.to_string().as_bytes())?;
    drop(stdin);
    let output = kubectl.wait_with_output()?;
    let all = [output.stderr, output.stdout].concat();
    Ok(String::from_utf8_lossy(&all).into_owned())
}

/// A pod that wants nothing of floe.
pub fn plain(name: &str) -> Value {
    let mut pod = racks::pod(name, &json!({}));
    pod["spec"]["containers"][0]["resources"] = json!({});
    pod
}

fn configuration(text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "floatingip-config", "namespace": floe::NAMESPACE },
        "data": { "floatingips": text },
    })
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn what_can_never_work_is_refused_when_it_is_applied() -> Result<()> {
    let cluster = racks::alone().await?;
    let namespace = TestNamespace::create(&cluster, "admission").await?;
    let _webhook = Webhook::install(&namespace).await?;

    // A workload, with the reason that its pods would have hung with.
    let range = json!({ ARGS: r#"{"request_ip_range":[["10.0.70.9~10.0.70.2"]]}"# });
    for kind in ["Deployment", "StatefulSet"] {
        let told = apply(&namespace, &racks::workload(kind, "bad", 1, &range), &[])?;
        for part in [
            "workloads.floe.dev",
            "InvalidRange: spec.template.metadata.annotations[k8s.v1.cni.galaxy.io/args]",
            "invalid ip range 10.0.70.9~10.0.70.2",
        ] {
            ensure!(told.contains(part), "{kind}: {told}");
        }
    }
    let mut web = racks::workload("Deployment", "bad", 1, &json!({ POLICY: "never" }));
    web["metadata"]["annotations"] = json!({ "floe.dev/rollout": "Handover" });
    let told = apply(&namespace, &web, &[])?;
    let text = "InvalidRollout: metadata.annotations[floe.dev/rollout]";
    ensure!(told.contains(text), "{told}");
    let listed = namespace.kubectl(&["get", "deployment,statefulset", "--output=name"])?;
    ensure!(listed.is_empty(), "{listed}");

    // What works, but maybe not as meant, is taken with a warning.
    let kept = racks::workload("Deployment", "kept", 1, &json!({ POLICY: "immutable" }));
    let told = apply(&namespace, &racks::in_rack(kept, "document"), &[])?;
    let warning = "Warning: RolloutInterrupts: spec.strategy: one replica with one address";
    ensure!(told.contains(warning), "{told}");
    ensure!(told.contains("deployment.apps/kept created"), "{told}");

    // floe writes what a pod was given, and nobody else does.
    let pods = addresses(&namespace, "app=kept", 1).await?;
    let (pod, ip) = pods.iter().next().context("it has a pod")?;
    let forged =
        r#"{"common":{"ipinfos":[{"ip":"10.0.70.99/24","vlan":2,"gateway":"10.0.70.1"}]}}"#;
    let annotation = format!("{ARGS}={forged}");
    let annotate = ["annotate", "--overwrite", "pod", pod, &annotation];
    let refused = namespace.kubectl(&annotate).unwrap_err().to_string();
    ensure!(refused.contains("IpInfosForbidden"), "{refused}");
    let own = "--as=system:serviceaccount:kube-system:floe-controller";
    let dry = ["--dry-run=server", own];
    namespace.kubectl(&[&annotate[..], &dry[..]].concat())?;
    // Everything else of the pod is everybody's.
    namespace.kubectl(&["label", "pod", pod, "colour=blue"])?;

    // A configuration that takes the pod's address away, and one that is none.
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let before = maps.get("floatingip-config").await?.data;
    let system = ["--namespace", floe::NAMESPACE];
    let write = |text: &str| apply_in(&cluster, &configuration(text), &system);
    let told = write("[]")?;
    let victim = format!("{ip} of pod {}/{pod}", namespace.name());
    ensure!(told.contains("ConfigurationHarms"), "{told}");
    ensure!(told.contains(&victim), "{victim}: {told}");
    let told = write("[{")?;
    ensure!(told.contains("InvalidJson: data.floatingips"), "{told}");
    ensure!(
        maps.get("floatingip-config").await?.data == before,
        "it was changed"
    );
    // Another one of the namespace is nobody's business.
    let mut other = configuration("[{");
    other["metadata"]["name"] = json!("other");
    let told = apply_in(&cluster, &other, &system)?;
    ensure!(told.contains("configmap/other created"), "{told}");
    maps.delete("other", &kube::api::DeleteParams::default())
        .await?;

    // Records by hand.
    let record = |name: &str| json!({ "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "FloatingIP", "metadata": { "name": name }, "spec": { "key": "by hand" } });
    let told = apply(&namespace, &record("192.0.2.1"), &["--dry-run=server"])?;
    let warning = "Warning: AddressNotConfigured: metadata.name: 192.0.2.1 is in no entry";
    ensure!(told.contains(warning), "{told}");

    namespace.kubectl(&["delete", "deployment", "kept"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

/// The same in a namespace of the cluster's own.
fn apply_in(cluster: &Cluster, object: &Value, more: &[&str]) -> Result<String> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), object.to_string())?;
    let mut kubectl = cluster.kubectl();
    kubectl.args(more).args(["apply", "--filename"]);
    let output = kubectl.arg(file.path()).output()?;
    let all = [output.stderr, output.stdout].concat();
    Ok(String::from_utf8_lossy(&all).into_owned())
}
