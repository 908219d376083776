//! What can never work is refused when it is applied. And whatever becomes of the webhook,
//! nobody waits for it who does not ask for an address.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::{ARGS, POLICY, POOL, addresses, holds};
use crate::racks;

const MANIFEST: &str = include_str!("../../deploy/webhook.yaml");
const KIND: &str = "validatingwebhookconfiguration";
const SECRET: &str = "floe-webhook-tls";

/// The webhook, until this is dropped: other tests want to see what becomes of pods that it
/// would have refused.
struct Webhook<'a>(&'a Cluster);

impl<'a> Webhook<'a> {
    /// Applies it as an administrator would, and waits until the API server asks floe.
    async fn install(namespace: &'a TestNamespace<'_>) -> Result<Self> {
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
}

impl Drop for Webhook<'_> {
    fn drop(&mut self) {
        // Whoever applies a bad pod next finds out.
        for name in ["floe", "floe-untrusted"] {
            let _ = self
                .0
                .kubectl()
                .args(["delete", KIND, name, "--ignore-not-found"])
                .stdout(Stdio::null())
                .status();
        }
    }
}

/// What `kubectl apply` says to a person, whether it succeeds or not.
fn apply(namespace: &TestNamespace<'_>, object: &Value, more: &[&str]) -> Result<String> {
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
fn plain(name: &str) -> Value {
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

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn nobody_waits_for_the_webhook_who_does_not_ask_for_an_address() -> Result<()> {
    let cluster = racks::alone().await?;
    let namespace = TestNamespace::create(&cluster, "unrelated").await?;
    let _webhook = Webhook::install(&namespace).await?;

    // A certificate that has ended is made anew at once.
    let secrets: Api<Secret> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let ended = ended(&secrets.get(SECRET).await?)?;
    let patch = Patch::Merge(json!({ "stringData": ended }));
    secrets
        .patch(SECRET, &PatchParams::default(), &patch)
        .await?;
    wait::until("there is another certificate", LIMIT, async || {
        let now = secrets.get(SECRET).await?.data.unwrap_or_default();
        let other = now
            .get("tls.crt")
            .filter(|it| it.0 != ended["tls.crt"].as_bytes());
        Ok(other.cloned())
    })
    .await?;
    let good = racks::in_rack(racks::pod("good", &json!({})), "document");
    wait::until("the webhook is trusted", LIMIT, async || {
        let told = apply(&namespace, &good, &[])?;
        ensure!(told.contains("pod/good "), "{told}");
        Ok(Some(()))
    })
    .await?;
    addresses(&namespace, "app=good", 1).await?;

    // The API server does not trust it, as with a clock that is wrong: a copy that floe
    // does not mend.
    untrusted(&cluster)?;
    let asking = |name: &str| racks::in_rack(racks::pod(name, &json!({})), "document");
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

    // Nobody answers at all.
    floe::scale(&cluster, 0)?;
    let told = apply(&namespace, &asking("late"), &[])?;
    for part in ["failed calling webhook", "pods.floe.dev"] {
        ensure!(told.contains(part), "{told}");
    }
    ensure!(
        namespace.api::<Pod>().get_opt("late").await?.is_none(),
        "it was stored: {told}"
    );
    let mut workload = racks::workload("Deployment", "plain", 1, &json!({}));
    workload["spec"]["template"]["spec"] = plain("plain")["spec"].clone();
    namespace.apply(&workload.to_string())?;
    namespace.ready_pods("app=plain", 1, LIMIT).await?;
    // A pod with an address ends, whatever finalizers and labels others have on it.
    namespace.kubectl(&["label", "pod", "good", "colour=blue"])?;
    namespace.kubectl(&["delete", "pod", "good", "--timeout=60s"])?;
    // And floe comes back by itself.
    floe::scale(&cluster, 2)?;
    wait::until("a pod with an address is taken", LIMIT, async || {
        let told = apply(&namespace, &asking("late"), &[])?;
        ensure!(told.contains("pod/late "), "{told}");
        Ok(Some(()))
    })
    .await?;
    addresses(&namespace, "app=late", 1).await?;
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
    let folder = tempfile::tempdir()?;
    openssl(
        folder.path(),
        &["req", "-x509", "-subj", "/CN=others", "-out", "ca.crt"],
    )?;
    let others = ByteString(std::fs::read(folder.path().join("ca.crt"))?);
    let webhooks = copy["webhooks"].as_array_mut().context("it has some")?;
    for webhook in webhooks {
        webhook["clientConfig"]["caBundle"] = json!(others);
    }
    cluster.apply_all(&copy.to_string())
}

/// A certificate of the Secret's authority that has ended.
fn ended(secret: &Secret) -> Result<std::collections::BTreeMap<&'static str, String>> {
    let folder = tempfile::tempdir()?;
    for name in ["ca.crt", "ca.key"] {
        let data = secret.data.as_ref().and_then(|data| data.get(name));
        let data = data.with_context(|| format!("{} has no {name}", secret.name_any()))?;
        std::fs::write(folder.path().join(name), &data.0)?;
    }
    let names = "subjectAltName=DNS:floe-webhook,DNS:floe-webhook.kube-system.svc";
    std::fs::write(folder.path().join("names"), names)?;
    openssl(
        folder.path(),
        &["req", "-new", "-subj", "/CN=floe", "-out", "request"],
    )?;
    let output = Command::new("openssl")
        .current_dir(folder.path())
        .args(["x509", "-req", "-in", "request", "-extfile", "names"])
        .args(["-CA", "ca.crt", "-CAkey", "ca.key", "-days", "-1"])
        .args(["-out", "tls.crt"])
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    let read =
        |name| -> Result<_> { Ok((name, std::fs::read_to_string(folder.path().join(name))?)) };
    Ok([read("tls.crt")?, read("tls.key")?].into())
}

fn openssl(folder: &std::path::Path, arguments: &[&str]) -> Result<()> {
    let output = Command::new("openssl")
        .current_dir(folder)
        .args(arguments)
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-noenc", "-keyout", "tls.key"])
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(())
}
