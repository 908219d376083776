//! The document of the API and the controller agree: Schemathesis asks what the document
//! allows and what it forbids, and compares every answer with it.
//!
//! It asks as everybody does, by TLS and with a token. What it changes are addresses
//! of a range of its own, and pools that the test removes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::schemathesis;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::api::{Caller, NAME};
use crate::holdings;
use crate::racks;

/// A range that nobody else has, and how it is counted.
const ENTRY: &str = r#"{"nodeSubnets":["10.26.0.0/24"],"ips":["10.0.98.2~10.0.98.17"],"subnet":"10.0.98.0/24","gateway":"10.0.98.1"}"#;
const COUNTED: &str =
    r#"galaxy_ip_counter{type="total",subnet="10.0.98.0/24",first_ip="10.0.98.2"} 16"#;

const HOOKS: &str = include_str!("schema/hooks.py");

/// The stream has no end, so it has a test of its own.
const ENDLESS: &str = "watch";
const CHECKS: [&str; 4] = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
];
const NO_SUMMARY: &str = "schemathesis tells no summary";

/// This only ends what hangs.
const PATIENCE: Duration = Duration::from_mins(4);

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn every_answer_is_one_that_the_openapi_document_has() -> Result<()> {
    let cluster = racks::alone().await?;
    racks::also_configure(&cluster, ENTRY, COUNTED).await?;
    let namespace = TestNamespace::create(&cluster, "schema").await?;
    let before = objects(&cluster).await?;
    cluster.apply(&first_records(namespace.name()), namespace.name())?;
    let asked = ask_everything(&namespace).await;
    remove_all_but(&cluster, &before).await?;
    asked
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn the_stream_tells_of_a_reservation_in_the_documented_form() -> Result<()> {
    let cluster = racks::together().await?;
    let api = Caller::operator(&cluster).await?;
    let mut stream = Stream::follow(&api)?;
    assert_eq!(
        stream.next()?,
        ("Relisted".into(), json!({ "kind": "Relisted" }))
    );

    let body = json!({ "ips": ["10.0.75.9"], "purpose": "stream" });
    let answer = api.post("/v2/ips/reserve", &body)?.json()?;
    assert_eq!(answer["results"][0]["reason"], "Reserved", "{answer}");
    let change = stream.about("10.0.75.9")?;
    assert_eq!(change["kind"], "Changed", "{change}");
    assert_eq!(change["ip"]["state"], "Reserved", "{change}");

    api.post("/v2/ips/unreserve", &json!({ "ips": ["10.0.75.9"] }))?;
    let change = stream.about("10.0.75.9")?;
    assert_eq!(change["kind"], "Freed", "{change}");
    assert_eq!(change["ip"]["state"], "Free", "{change}");
    Ok(())
}

async fn ask_everything(namespace: &TestNamespace<'_>) -> Result<()> {
    let api = Caller::operator(namespace.cluster()).await?;
    let (folder, to) = (tempfile::tempdir()?, api.address().ip());
    let (folder, hosts) = (folder.path(), folder.path().join("hosts"));
    fs::write(&hosts, format!("{to} {NAME}\n"))?;
    fs::write(folder.join("hooks.py"), HOOKS)?;
    // Of its range, one that nobody has configured, and none at all.
    let strange = ["192.0.2.1", "nowhere"].map(str::to_owned);
    let own = (2..=17).map(|last| format!("10.0.98.{last}"));
    let addresses: Vec<String> = own.chain(strange).collect();
    let asked = schemathesis::command(api.host(), &hosts, folder, PATIENCE)?
        .args(["run", &Caller::url("/openapi.json"), "--tls-verify"])
        .arg(api.certificate())
        .args([
            "--header",
            &format!("Authorization: Bearer {}", api.token()),
        ])
        .args(["--exclude-operation-id", ENDLESS])
        .args(["--checks", &CHECKS.join(",")])
        .args([
            "--phases",
            "examples,coverage,fuzzing",
            "--max-examples",
            "40",
        ])
        .args([
            "--seed",
            "1",
            "--generation-database",
            "none",
            "--no-shrink",
        ])
        // The token stays what it is; others test who is refused.
        .args(["--generation-with-security-parameters", "false"])
        .args([
            "--request-timeout",
            "30",
            "--continue-on-failure",
            "--no-color",
        ])
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("FLOE_ADDRESSES", addresses.join(","))
        .env("FLOE_NAMESPACE", namespace.name())
        .output()
        .context("cannot run schemathesis")?;
    let told = String::from_utf8_lossy(&asked.stdout);
    let wrong = String::from_utf8_lossy(&asked.stderr);
    ensure!(asked.status.success(), "{}:\n{told}\n{wrong}", asked.status);
    // It is content with operations that it was not able to ask.
    let figure = |name: &str| told.lines().find_map(|line| line.trim().strip_prefix(name));
    let (selected, tested) = (figure("Selected: "), figure("Tested: "));
    let (selected, all) = selected
        .and_then(|it| it.split_once('/'))
        .context(NO_SUMMARY)?;
    assert_eq!(tested, Some(selected), "{told}");
    let left_out = all.parse::<u32>()? - selected.parse::<u32>()?;
    assert_eq!(left_out, 1, "only {ENDLESS} is left out:\n{told}");
    Ok(())
}

/// The stream of changes. It ends with this value.
struct Stream {
    curl: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Stream {
    fn follow(api: &Caller) -> Result<Self> {
        let mut curl = api.curl();
        let mut curl = curl
            .args(["--no-buffer", &Caller::url("/v2/watch")])
            .stdout(Stdio::piped())
            .spawn()?;
        let output = curl.stdout.take().context("it was asked for")?;
        let lines = BufReader::new(output).lines();
        Ok(Self { curl, lines })
    }

    /// The name and the data of the next event.
    fn next(&mut self) -> Result<(String, Value)> {
        let mut name = String::new();
        loop {
            let line = self.lines.next().context("the stream has ended")??;
            if let Some(rest) = line.strip_prefix("event:") {
                rest.trim().clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data:") {
                return Ok((name, serde_json::from_str(data)?));
            }
        }
    }

    /// The data of the next event about an address.
    fn about(&mut self, ip: &str) -> Result<Value> {
        loop {
            let (name, change) = self.next()?;
            assert_eq!(change["kind"], name.as_str());
            if change["ip"]["ip"] == ip {
                return Ok(change);
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.curl.kill();
        let _ = self.curl.wait();
    }
}

/// Addresses of the range that have a record: a kept one, and a reserved one.
fn first_records(namespace: &str) -> String {
    format!(
        "
apiVersion: galaxy.k8s.io/v1alpha1
kind: FloatingIP
metadata: {{ name: 10.0.98.2 }}
spec: {{ key: sts_{namespace}_web_web-0, policy: 2 }}
---
apiVersion: galaxy.k8s.io/v1alpha1
kind: FloatingIP
metadata: {{ name: 10.0.98.3, labels: {{ reserved: this-is-not-for-pods }} }}
spec: {{ key: pool__reserved-for-node_, policy: 2 }}
"
    )
}

/// All pools and records, by kind and name.
async fn objects(cluster: &Cluster) -> Result<BTreeSet<(Option<String>, String)>> {
    let client = cluster.client().await?;
    let everything = ListParams::default();
    let pools = pools(client.clone()).list(&everything).await?;
    let records = holdings::api(client).list(&everything).await?;
    let all = pools.items.iter().chain(&records.items);
    Ok(all.map(|it| (it.namespace(), it.name_any())).collect())
}

fn pools(client: kube::Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("galaxy.k8s.io", "v1alpha1", "Pool");
    Api::all_with(client, &ApiResource::from_gvk(&kind))
}

/// Removes all other pools and records, until none comes back.
async fn remove_all_but(
    cluster: &Cluster,
    before: &BTreeSet<(Option<String>, String)>,
) -> Result<()> {
    let client = cluster.client().await?;
    let kind = GroupVersionKind::gvk("galaxy.k8s.io", "v1alpha1", "Pool");
    let kind = ApiResource::from_gvk(&kind);
    wait::until("what was asked for is gone", LIMIT, async || {
        let now = objects(cluster).await?;
        let mut new = now.difference(before).peekable();
        if new.peek().is_none() {
            return Ok(Some(()));
        }
        for (namespace, name) in new {
            let api = match namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
                None => holdings::api(client.clone()),
            };
            match api.delete(name, &DeleteParams::default()).await {
                Err(kube::Error::Api(gone)) if gone.code == 404 => {}
                other => drop(other?),
            }
        }
        Ok(None)
    })
    .await
}
