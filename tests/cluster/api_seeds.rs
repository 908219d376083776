//! The curl lines of galaxy's documents, as they are printed there, with real curl.
//!
//! The documents find galaxy-ipam at 192.168.99.100:32761 and 192.168.30.7:9041. A host
//! of the test has these addresses and hands connections on to the controllers. Each
//! line is sent twice: with TLS and a token, then as it is to a controller that is open.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::OpenApi;
use floe_testbed::host::{Host, HostRef, Inside, Role};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::task::JoinHandle;

use crate::LIMIT;
use crate::api::{Caller, NAME, PORT, forget_all, only_configure};
use crate::api_golden::comparable;
use crate::holdings::{self, ARGS, POLICY, Record, records};
use crate::racks;

/// The entry of the one document as printed, and one that has the addresses of the other.
const ENTRIES: &str = r#"[{"routableSubnet":"10.0.0.0/16","ips":["10.0.70.2~10.0.70.241"],"subnet":"10.0.70.0/24","gateway":"10.0.70.1","vlan":2},{"nodeSubnets":["10.20.0.0/24"],"ips":["10.0.0.2~10.0.0.238"],"subnet":"10.0.0.0/24","gateway":"10.0.0.1"}]"#;
const TOTAL: &str =
    r#"galaxy_ip_counter{type="total",subnet="10.0.0.0/24",first_ip="10.0.0.2"} 237"#;

const TAPP: &str = include_str!("golden/tapp.txt");
const STATEFUL_SET: &str = include_str!("golden/statefulset.txt");

/// The kind of workload that the document has, and the right to read it.
const KIND: &str = include_str!("golden/tapp.yaml");
const RIGHTS: &str = include_str!("../../deploy/examples/custom-workload-tapp.yaml");

/// Who holds what in the documents.
const HELD: [(&str, &str); 5] = [
    ("10.0.0.112", "sts_default_sts_sts-0"),
    ("10.0.0.174", "sts_default_sts_sts-1"),
    (
        "10.0.70.142",
        "tapp_default_nginx-deployment_nginx-deployment-2",
    ),
    (
        "10.0.70.169",
        "tapp_default_nginx-deployment_nginx-deployment-1",
    ),
    (
        "10.0.70.33",
        "tapp_default_nginx-deployment_nginx-deployment-0",
    ),
];

/// What is left when all lines were sent.
const LEFT: [&str; 2] = ["10.0.70.142", "10.0.70.33"];

/// The host dies with the thread that has made it, so that others serve it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn the_curl_lines_of_galaxys_documents_print_what_is_printed_there() -> Result<()> {
    let cluster = racks::alone().await?;
    only_configure(&cluster, ENTRIES, TOTAL).await?;
    let sent = send_all(&cluster).await;
    let delete = [
        "delete",
        "tapp,statefulset",
        "--all",
        "--namespace",
        "default",
    ];
    let _ = cluster.kubectl().args(delete).output()?;
    let pods = ["delete", "pod", "--all", "--namespace", "default"];
    let _ = cluster.kubectl().args(pods).output()?;
    forget_all(&cluster).await?;
    sent
}

async fn send_all(cluster: &Cluster) -> Result<()> {
    hold_as_documented(cluster).await?;
    let records = holdings::api(cluster.client().await?);
    let kept = records.list(&ListParams::default()).await?.items;
    let operator = Caller::operator(cluster).await?;
    let galaxy = Galaxy::boot(&operator)?;

    for (document, at) in [
        (TAPP, "192.168.99.100:32761"),
        (STATEFUL_SET, "192.168.30.7:9041"),
    ] {
        let safely = |line: &str| {
            let curl = format!(
                "curl --cacert {} --connect-to {NAME}:{PORT}:{at} -H 'Authorization: Bearer {}' ",
                operator.certificate().display(),
                operator.token()
            );
            let line = line.replacen("curl ", &curl, 1);
            line.replace(&format!("http://{at}"), &format!("https://{NAME}:{PORT}"))
        };
        prints(&galaxy, document, safely)?;
    }
    are_left(cluster).await?;

    put_back(cluster, &operator, kept).await?;
    let _open = OpenApi::start(cluster)?;
    // One of two controllers may have to find the leader first.
    let first = step(TAPP, 0)?.0;
    wait::until("the open API answers", LIMIT, async || {
        Ok(galaxy.run(first)?.contains("totalElements").then_some(()))
    })
    .await?;
    prints(&galaxy, TAPP, str::to_owned)?;
    prints(&galaxy, STATEFUL_SET, str::to_owned)?;
    are_left(cluster).await
}

/// Pods with policy never take the addresses of the documents, and go.
async fn hold_as_documented(cluster: &Cluster) -> Result<()> {
    cluster.apply(KIND, "default")?;
    cluster.apply(RIGHTS, "default")?;
    let established = ["wait", "--for=condition=Established", "--timeout=30s"];
    let mut kubectl = cluster.kubectl();
    kubectl.args(established).arg("crd/tapps.apps.tkestack.io");
    ensure!(kubectl.output()?.status.success(), "there are no TApps");
    let name = "nginx-deployment";
    let tapp = json!({
        "apiVersion": "apps.tkestack.io/v1", "kind": "TApp",
        "metadata": { "name": name }, "spec": { "replicas": 3 },
    });
    cluster.apply(&tapp.to_string(), "default")?;
    let mut kubectl = cluster.kubectl();
    let uid = ["get", "tapp", name, "--output", "jsonpath={.metadata.uid}"];
    let uid = kubectl
        .args(["--namespace", "default"])
        .args(uid)
        .output()?;
    let uid = String::from_utf8(uid.stdout)?;
    for (number, ip) in ["10.0.70.33", "10.0.70.169", "10.0.70.142"]
        .iter()
        .enumerate()
    {
        let range = format!(r#"{{"request_ip_range":[["{ip}"]]}}"#);
        let annotations = json!({ ARGS: range, POLICY: "never" });
        let mut pod = racks::pod(&format!("{name}-{number}"), &annotations);
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps.tkestack.io/v1", "kind": "TApp", "controller": true,
            "name": name, "uid": uid,
        }]);
        cluster.apply(&racks::in_rack(pod, "document").to_string(), "default")?;
    }
    // The pods of a StatefulSet come one after the other, and take the first that is free.
    let range = r#"{"request_ip_range":[["10.0.0.112","10.0.0.174"]]}"#;
    let annotations = json!({ ARGS: range, POLICY: "never" });
    let mut sts = racks::workload("StatefulSet", "sts", 2, &annotations);
    sts["spec"]["podManagementPolicy"] = json!("OrderedReady");
    cluster.apply(&racks::in_rack(sts, "ranges").to_string(), "default")?;
    has(cluster, "all pods run", |record| record.state == "Bound").await?;

    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, "default");
    for kinds in ["tapp,statefulset", "pod"] {
        let delete = ["delete", kinds, "--all", "--namespace", "default"];
        let deleted = cluster.kubectl().args(delete).output()?;
        ensure!(deleted.status.success(), "{deleted:?}");
    }
    wait::until("all pods are gone", LIMIT, async || {
        let left = pods.list(&ListParams::default()).await?.items;
        Ok(left.is_empty().then_some(()))
    })
    .await?;
    has(cluster, "all addresses are kept", |record| {
        record.state == "Kept"
    })
    .await
}

/// Waits until the holders of the documents have their addresses, in some state.
async fn has(cluster: &Cluster, what: &str, is: impl Fn(&Record) -> bool) -> Result<()> {
    wait::until(what, LIMIT, async || {
        let found = records(cluster, "").await?;
        let all = HELD.iter().all(|(ip, key)| {
            let record = found.get(*ip);
            record.is_some_and(|it| it.key == *key && it.policy == 2 && is(it))
        });
        ensure!(all && found.len() == HELD.len(), "found {found:?}");
        Ok(Some(()))
    })
    .await
}

async fn are_left(cluster: &Cluster) -> Result<()> {
    let left = records(cluster, "").await?;
    ensure!(left.keys().eq(LEFT), "left is {left:?}");
    Ok(())
}

/// Records that were released are there again.
async fn put_back(cluster: &Cluster, operator: &Caller, kept: Vec<DynamicObject>) -> Result<()> {
    let records = holdings::api(cluster.client().await?);
    for mut record in kept {
        let name = record.metadata.name.clone().unwrap_or_default();
        if LEFT.contains(&name.as_str()) {
            continue;
        }
        record.metadata.resource_version = None;
        record.metadata.uid = None;
        record.metadata.managed_fields = None;
        records.create(&PostParams::default(), &record).await?;
    }
    wait::until("all are listed again", LIMIT, async || {
        let page = operator.get("/v1/ip?keyword=_")?.json()?;
        Ok((page["totalElements"] == HELD.len()).then_some(()))
    })
    .await
}

/// Runs all lines of a document, each as `how` makes it.
fn prints(galaxy: &Galaxy, document: &str, how: impl Fn(&str) -> String) -> Result<()> {
    for number in 0..document.matches("$ curl").count() {
        let (line, printed) = step(document, number)?;
        let (wanted, found) = (comparable(printed), comparable(&galaxy.run(&how(line))?));
        ensure!(
            wanted == found,
            "{line}\nprints\n{found}\ninstead of\n{wanted}"
        );
    }
    Ok(())
}

/// A line of a document, and what it prints.
fn step(document: &str, number: usize) -> Result<(&str, &str)> {
    let step = document.split("$ ").nth(number + 1);
    step.and_then(|step| step.split_once('\n'))
        .context("there is no such line")
}

/// A host where the documents find galaxy-ipam.
struct Galaxy {
    host: Host,
    relays: Vec<JoinHandle<()>>,
}

impl Galaxy {
    fn boot(api: &Caller) -> Result<Self> {
        let host = Host::boot("galaxy", &Role::Plain, None)?;
        host.address().network_script(
            "ip link set lo up
             ip addr add 192.168.99.100/32 dev lo
             ip addr add 192.168.30.7/32 dev lo",
        )?;
        let mut relays = Vec::new();
        for on in ["192.168.99.100:32761", "192.168.30.7:9041"] {
            relays.push(relay(host.address(), on.parse()?, api)?);
        }
        Ok(Self { host, relays })
    }

    /// What a line of a shell prints there.
    fn run(&self, line: &str) -> Result<String> {
        let mut shell = self.host.address().command(Inside::Network, "sh");
        // A proxy of this machine knows nothing of that host.
        let output = shell.args(["-c", line]).env("no_proxy", "*").output()?;
        let wrong = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{line}: {wrong}");
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Galaxy {
    fn drop(&mut self) {
        for relay in &self.relays {
            relay.abort();
        }
    }
}

/// Hands connections on to the API.
fn relay(host: &HostRef, on: SocketAddr, api: &Caller) -> Result<JoinHandle<()>> {
    let listener = host.network()?.listen(on)?;
    let (network, to) = (api.host().network()?, api.address());
    Ok(tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            // Without an answer the client says what it misses.
            if let Ok(mut server) = network.connect(to).await {
                tokio::spawn(async move {
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        }
    }))
}
