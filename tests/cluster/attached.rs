//! The address in the annotation is the one in the pod, and the world reaches it.

use std::net::SocketAddr;

use anyhow::Result;
use floe_testbed::cluster::namespace::TestNamespace;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::LIMIT;
use crate::float_ips::NGINX;
use crate::holdings::addresses;
use crate::http::{get, pod_ip};
use crate::segment;

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn pods_of_the_documented_deployment_answer_at_their_addresses() -> Result<()> {
    let cluster = segment::together().await?;
    let namespace = TestNamespace::create(&cluster, "attached").await?;
    namespace.apply(NGINX)?;
    let held = addresses(&namespace, "app=nginx", 3).await?;
    let pods = namespace.ready_pods("app=nginx", 3, LIMIT).await?;
    let outside = cluster.outside().await?;
    for pod in &pods {
        let ip = pod_ip(pod)?;
        assert_eq!(
            held[&pod.name_any()],
            ip.to_string(),
            "as in the annotation"
        );
        let network = cluster.pod_network(pod)?;
        let shown = network.network_script("ip -o -4 addr show dev eth0")?;
        assert!(shown.contains(&format!("inet {ip}/24 ")), "{shown}");
        assert_eq!(shown.lines().count(), 1, "exactly its address: {shown}");

        let answer = get(&outside, SocketAddr::new(ip, 80))?;
        let expected = format!("pod={} server={ip} client=10.200.0.200", pod.name_any());
        assert!(answer.contains(&expected), "{answer} lacks {expected}");
        for other in pods.iter().filter(|other| node(other) != node(pod)) {
            let answer = get(&network, SocketAddr::new(pod_ip(other)?, 80))?;
            let expected = format!("server={} client={ip}", pod_ip(other)?);
            assert!(answer.contains(&expected), "{answer} lacks {expected}");
        }
    }
    Ok(())
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}
