//! The annotation of the user document: on pods, as it is printed there, on the `DaemonSet` and
//! the Deployment on which the author found it to do nothing, and on other workloads; and
//! floe's own name for it.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, ensure};
use floe_api::floe::virtualip::VirtualIP;
use floe_core::vip::claim::ALIAS;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

use super::ground::{CLAIM, holder, pings, seen, served, status, together};
use crate::LIMIT;
use crate::holdings::{records, told};
use crate::http::get;

/// As printed, but for the name and for an address that is set aside here.
const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: NAME
  labels:
    app: centos7
  annotations:
    cni.projectcalico.org/floatingIPs: '["ADDRESS"]'
spec:
  containers:
  - name: centos7
    image: registry.cn-hangzhou.aliyuncs.com/generals-space/centos7
    command: ['tail', '-f', '/etc/os-release']
"#;

/// As printed, but for the namespace and for an address that is set aside here.
const DAEMON_SET: &str = r#"
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: test-ds
  labels:
    app: test-ds
  annotations:
    cni.projectcalico.org/floatingIPs: '["ADDRESS"]'
spec:
  selector:
    matchLabels:
      app: test-ds
  template:
    metadata:
      labels:
        app: test-ds
    spec:
      containers:
      - name: centos7
        image: registry.cn-hangzhou.aliyuncs.com/generals-space/centos7-devops
        imagePullPolicy: IfNotPresent
        command: ["tail", "-f", "/etc/os-release"]
      tolerations:
      - key: node-role.kubernetes.io/master
        operator: Exists
        effect: NoSchedule
"#;

/// Has the pods of the user document say who they are on port 80: their image has a web
/// server, which nobody starts.
fn start_web_servers(namespace: &TestNamespace<'_>, pods: &[Pod]) -> Result<()> {
    const START: &str = "echo pod=$(hostname) end > /tmp/index.html && httpd -p 80 -h /tmp";
    for pod in pods {
        namespace.kubectl(&["exec", &pod.name_any(), "--", "sh", "-c", START])?;
    }
    Ok(())
}

/// How many echo requests a pod has got.
fn echoes(namespace: &TestNamespace<'_>, pod: &Pod) -> Result<u64> {
    let network = namespace.cluster().pod_network(pod)?;
    let shown = network.network_script("cat /proc/net/snmp")?;
    let mut rows = shown.lines().filter(|line| line.starts_with("Icmp:"));
    let (names, values) = rows
        .next()
        .zip(rows.next())
        .context("no counters of ICMP")?;
    let mut both = names.split_whitespace().zip(values.split_whitespace());
    let found = both.find(|(name, _)| *name == "InEchos");
    Ok(found.context("no counter of echoes")?.1.parse()?)
}

/// Pings an address from outside and asks for a page: one and the same pod gets and
/// answers all of it, the one that `kubectl get vip` shows.
async fn only_the_holder_answers(
    namespace: &TestNamespace<'_>,
    ip: &str,
    pods: &[Pod],
) -> Result<VirtualIP> {
    const PINGS: usize = 10;
    let vip = served(namespace, ip, |_| true).await?;
    let holder = holder(&vip)?;
    let outside = namespace.cluster().outside().await?;
    let count = || -> Result<Vec<u64>> { pods.iter().map(|it| echoes(namespace, it)).collect() };
    let before = count()?;
    let address: IpAddr = ip.parse()?;
    ensure!(
        pings(&outside, address, PINGS)? == PINGS,
        "some pings are lost"
    );
    for ((pod, before), after) in pods.iter().zip(before).zip(count()?) {
        let wanted = if pod.name_any() == holder.pod {
            PINGS
        } else {
            0
        };
        let got = usize::try_from(after - before)?;
        ensure!(
            got == wanted,
            "{} got {got} pings, not {wanted}",
            pod.name_any()
        );
    }
    for _ in 0..PINGS {
        let page = get(&outside, SocketAddr::new(address, 80))?;
        ensure!(page.contains(&format!("pod={} ", holder.pod)), "{page}");
    }
    let shown = namespace.kubectl(&["get", "vip"])?;
    let row = shown
        .lines()
        .find(|line| line.starts_with(&format!("{ip} ")));
    let row = row.with_context(|| format!("kubectl get vip shows {shown}"))?;
    let row: Vec<&str> = row.split_whitespace().collect();
    let wanted = [ip, ip, &holder.pod, &holder.node];
    ensure!(
        row[..4] == wanted && row[5] == pods.len().to_string(),
        "{row:?}"
    );
    Ok(vip)
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn three_documented_pods_with_one_address_are_shown_and_one_of_them_answers() -> Result<()> {
    const IP: &str = "10.200.0.210";
    let cluster = together().await?;
    let namespace = TestNamespace::create(&cluster, "documented").await?;
    for name in ["centos7-pod", "centos7-pod-2", "centos7-pod-3"] {
        namespace.apply(&POD.replace("NAME", name).replace("ADDRESS", IP))?;
    }
    let pods = namespace.ready_pods("app=centos7", 3, LIMIT).await?;
    start_web_servers(&namespace, &pods)?;
    let all = |vip: &VirtualIP| status(vip).candidates.len() == 3;
    seen(&namespace, IP, "has three candidates", all).await?;
    let vip = only_the_holder_answers(&namespace, IP, &pods).await?;
    assert_eq!(status(&vip).moves, 0, "a first holder is no move");
    told(&namespace, IP, "FirstHolder", &holder(&vip)?.pod).await?;
    let key = format!("vip__{}_{IP}_", namespace.name());
    let records = records(&cluster, &key).await?;
    assert_eq!(records.keys().collect::<Vec<_>>(), [IP]);
    assert_eq!(
        (records[IP].key.as_str(), records[IP].state.as_str()),
        (key.as_str(), "Shared")
    );

    // Nobody claims it any more, so that others can have it.
    namespace.kubectl(&["delete", "pod", "--all", "--grace-period=1"])?;
    is_gone(&namespace, IP).await?;
    assert!(crate::holdings::records(&cluster, &key).await?.is_empty());
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn the_annotation_on_the_documented_daemon_set_counts_for_its_pods() -> Result<()> {
    const IP: &str = "10.200.0.211";
    let cluster = together().await?;
    let namespace = TestNamespace::create(&cluster, "daemons").await?;
    namespace.apply(&DAEMON_SET.replace("ADDRESS", IP))?;
    let pods = namespace.ready_pods("app=test-ds", 3, LIMIT).await?;
    start_web_servers(&namespace, &pods)?;
    let all = |vip: &VirtualIP| status(vip).candidates.len() == 3;
    seen(&namespace, IP, "has three candidates", all).await?;
    only_the_holder_answers(&namespace, IP, &pods).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn the_annotation_on_a_deployment_counts_for_its_pods_and_can_be_taken_off() -> Result<()> {
    const IP: &str = "10.200.0.212";
    let cluster = together().await?;
    let namespace = TestNamespace::create(&cluster, "deployment").await?;
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "shop" },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "shop" } },
            "template": {
                "metadata": { "labels": { "app": "shop" } },
                "spec": { "containers": [{ "name": "web", "image": "nginx:1.7.9" }] },
            },
        },
    });
    namespace.apply(&deployment.to_string())?;
    let pods = namespace.ready_pods("app=shop", 3, LIMIT).await?;
    // The pods run already, and nothing about them changes.
    let annotation = format!("{CLAIM}=[\"{IP}\"]");
    namespace.kubectl(&["annotate", "deployment", "shop", &annotation])?;
    let all = |vip: &VirtualIP| status(vip).candidates.len() == 3;
    seen(&namespace, IP, "has three candidates", all).await?;
    only_the_holder_answers(&namespace, IP, &pods).await?;

    namespace.kubectl(&["annotate", "deployment", "shop", &format!("{CLAIM}-")])?;
    is_gone(&namespace, IP).await?;
    let outside = cluster.outside().await?;
    let address = SocketAddr::new(IP.parse()?, 80);
    assert!(get(&outside, address).is_err(), "nobody claims it");
    namespace.ready_pods("app=shop", 3, LIMIT).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn the_annotation_counts_on_other_workloads_and_by_its_own_name() -> Result<()> {
    let cluster = together().await?;
    let namespace = TestNamespace::create(&cluster, "workloads").await?;
    let claims = [
        ("stateful", "StatefulSet", CLAIM, "10.200.0.243"),
        ("replicas", "ReplicaSet", CLAIM, "10.200.0.244"),
        ("alias", "ReplicaSet", ALIAS, "10.200.0.245"),
    ];
    for (name, kind, annotation, ip) in claims {
        let workload = json!({
            "apiVersion": "apps/v1", "kind": kind,
            "metadata": { "name": name, "annotations": { annotation: format!("[\"{ip}\"]") } },
            "spec": {
                "replicas": 2,
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "web", "image": "nginx:1.7.9" }] },
                },
            },
        });
        namespace.apply(&workload.to_string())?;
    }
    for (name, _, _, ip) in claims {
        let pods = namespace
            .ready_pods(&format!("app={name}"), 2, LIMIT)
            .await?;
        let all = |vip: &VirtualIP| status(vip).candidates.len() == 2;
        seen(&namespace, ip, "has two candidates", all).await?;
        only_the_holder_answers(&namespace, ip, &pods).await?;
    }
    Ok(())
}

/// Waits until an object that nobody asks for any more is gone.
async fn is_gone(namespace: &TestNamespace<'_>, name: &str) -> Result<()> {
    let vips = namespace.api::<VirtualIP>();
    wait::until(&format!("{name} is gone"), 2 * LIMIT, async || {
        Ok(vips.get_opt(name).await?.is_none().then_some(()))
    })
    .await
}
