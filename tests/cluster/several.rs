//! Pods with several addresses: every one of them answers, with the hardware address
//! that belongs to it.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use floe_testbed::cluster::Cluster;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::host::HostRef;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::{FAMILIES, POLICY, holds, ips};
use crate::http::pod_ip;
use crate::racks;
use crate::segment;
use crate::underlay::{answers, hardware, neighbour, one_of_each, pod, shown};

/// Ranges of the segment that no other test is likely to come to.
const RANGES: [&str; 3] = [
    "10.200.0.150~10.200.0.159",
    "10.200.0.160~10.200.0.169",
    "10.200.0.170~10.200.0.179",
];

/// On a node without another of its kind, so that what they say to each other
/// leaves the node.
fn apart(mut pod: Value) -> Value {
    pod["metadata"]["labels"]["kind"] = json!("several");
    pod["spec"]["affinity"] = json!({
        "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": { "matchLabels": { "kind": "several" } },
        }] },
    });
    pod
}

async fn started(namespace: &TestNamespace<'_>, name: &str) -> Result<Pod> {
    let pods = namespace
        .ready_pods(&format!("app={name}"), 1, LIMIT)
        .await?;
    pods.into_iter().next().context("there is one")
}

/// A pod whose addresses are on an interface each.
struct Web {
    name: &'static str,
    network: HostRef,
    ips: Vec<String>,
}

impl Web {
    async fn start(
        cluster: &Cluster,
        namespace: &TestNamespace<'_>,
        name: &'static str,
        ranges: &[&str],
    ) -> Result<Self> {
        namespace.apply(&apart(pod(name, &one_of_each(ranges))).to_string())?;
        let pod = started(namespace, name).await?;
        let ips = ips(&pod)?;
        assert_eq!(ips.len(), ranges.len(), "{ips:?}");
        // What Kubernetes takes for the address of the pod is the first.
        assert_eq!(pod_ip(&pod)?.to_string(), ips[0]);
        let network = cluster.pod_network(&pod)?;
        Ok(Self { name, network, ips })
    }

    /// Exactly the addresses of the annotation, in their order.
    fn shows_its_addresses(&self) -> Result<()> {
        let ips = self.ips.iter().enumerate();
        let wanted: Vec<_> = ips.map(|(at, ip)| format!("eth{at} {ip}/24")).collect();
        assert_eq!(shown(&self.network)?, wanted);
        Ok(())
    }

    /// All of them answer, and none with the hardware address of another.
    fn answers_to(&self, from: &HostRef) -> Result<()> {
        for ip in &self.ips {
            answers(from, self.name, ip)?;
        }
        // Only now: an entry that the next address spoils would be seen.
        for ip in &self.ips {
            assert_eq!(
                neighbour(from, ip)?,
                hardware(ip)?,
                "of {ip} at {}",
                from.name
            );
        }
        Ok(())
    }
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn all_addresses_of_pods_with_two_and_with_three_answer_with_their_own_hardware_address()
-> Result<()> {
    let cluster = segment::together().await?;
    let namespace = TestNamespace::create(&cluster, "several").await?;
    let two = Web::start(&cluster, &namespace, "two", &RANGES[..2]).await?;
    let three = Web::start(&cluster, &namespace, "three", &RANGES).await?;
    holds(&namespace, 5).await?;

    let outside = cluster.outside().await?;
    for web in [&two, &three] {
        web.shows_its_addresses()?;
        web.answers_to(&outside)?;
    }
    two.answers_to(&three.network)?;
    three.answers_to(&two.network)?;

    namespace.kubectl(&["delete", "pod", "two", "three"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_pod_of_both_families_answers_at_both_addresses_of_its_one_interface() -> Result<()> {
    let cluster = segment::together().await?;
    let namespace = TestNamespace::create(&cluster, "families").await?;
    let families = json!({ FAMILIES: "v4,v6" });
    for name in ["dual", "other"] {
        namespace.apply(&apart(pod(name, &families)).to_string())?;
    }
    let other = cluster.pod_network(&started(&namespace, "other").await?)?;
    let pod = started(&namespace, "dual").await?;
    let ips = ips(&pod)?;
    assert_eq!(ips.len(), 2, "{ips:?}");
    assert!(ips[0].starts_with("10.200.0."), "{ips:?}");
    assert!(ips[1].starts_with("fd00:200::"), "{ips:?}");
    let told = pod.status.and_then(|status| status.pod_ips);
    let told: Vec<_> = told.into_iter().flatten().map(|it| it.ip).collect();
    assert_eq!(told, ips, "Kubernetes knows both");

    let network = cluster.pod_network(&started(&namespace, "dual").await?)?;
    let wanted = [format!("eth0 {}/24", ips[0]), format!("eth0 {}/64", ips[1])];
    assert_eq!(shown(&network)?, wanted);
    for from in [&cluster.outside().await?, &other] {
        for ip in &ips {
            answers(from, "dual", ip)?;
            assert_eq!(neighbour(from, ip)?, hardware(&ips[0])?, "of {ip}");
        }
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_pod_of_ipv6_alone_answers_with_a_hardware_address_that_its_successor_has_too()
-> Result<()> {
    let cluster = segment::together().await?;
    let namespace = TestNamespace::create(&cluster, "six").await?;
    let outside = cluster.outside().await?;
    let annotations = json!({ FAMILIES: "v6", POLICY: "immutable" });
    let six = racks::workload("StatefulSet", "six", 1, &annotations);
    namespace.apply(&six.to_string())?;
    let mut seen = BTreeSet::new();
    for _ in 0..2 {
        let pod = started(&namespace, "six").await?;
        let ips = ips(&pod)?;
        assert_eq!(ips.len(), 1, "{ips:?}");
        assert!(ips[0].starts_with("fd00:200::"), "{ips:?}");
        assert_eq!(pod_ip(&pod)?.to_string(), ips[0]);
        let wanted = [format!("eth0 {}/64", ips[0])];
        assert_eq!(shown(&cluster.pod_network(&pod)?)?, wanted);
        answers(&outside, "six-0", &ips[0])?;
        seen.insert((ips[0].clone(), neighbour(&outside, &ips[0])?));
        // Only what is learnt anew counts.
        outside.network_script(&format!("ip -6 neighbour flush to {}", ips[0]))?;
        namespace.kubectl(&["delete", "pod", "six-0"])?;
    }
    assert_eq!(
        seen.len(),
        1,
        "an address and its hardware address: {seen:?}"
    );
    Ok(())
}
