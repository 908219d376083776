//! Everybody reaches everybody: pods, Services, the API server, the outside.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{shared, wait};
use floe_testbed::host::HostRef;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;

use crate::LIMIT;
use crate::http::{get, pod_ip};

const WEB: &str = r"
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: web }
spec:
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      containers: [{ name: web, image: 'nginx:1.7.9', ports: [{ containerPort: 80 }] }]
---
apiVersion: v1
kind: Service
metadata: { name: web }
spec:
  selector: { app: web }
  ports: [{ port: 80 }]
";

async fn web(namespace: &TestNamespace<'_>) -> Result<(Vec<Pod>, IpAddr)> {
    namespace.apply(WEB)?;
    let pods = namespace.ready_pods("app=web", 3, LIMIT).await?;
    let service = namespace.api::<Service>().get("web").await?;
    let ip = service
        .spec
        .and_then(|spec| spec.cluster_ip)
        .context("the Service has no address")?;
    Ok((pods, ip.parse()?))
}

/// A Service is served as soon as the proxy of the asking host knows it.
async fn get_service(from: &HostRef, to: SocketAddr) -> Result<String> {
    wait::until("the Service answers", LIMIT, async || {
        get(from, to).map(Some)
    })
    .await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn pods_on_three_nodes_answer_each_other_a_service_and_the_outside_host() -> Result<()> {
    let cluster = shared::together().await;
    let namespace = TestNamespace::create(&cluster, "connectivity").await?;
    let (pods, service) = web(&namespace).await?;
    let mut nodes: Vec<_> = pods
        .iter()
        .filter_map(|pod| pod.spec.as_ref()?.node_name.clone())
        .collect();
    nodes.sort();
    assert_eq!(nodes, ["node-1", "node-2", "node-3"]);

    let outside = cluster.outside().await?;
    for pod in &pods {
        let network = cluster.pod_network(pod)?;
        for other in &pods {
            let answer = get(&network, SocketAddr::new(pod_ip(other)?, 80))?;
            // The address is not rewritten on the way: each sees the other's own.
            let expected = format!(
                "pod={} server={} client={}",
                other.name_any(),
                pod_ip(other)?,
                pod_ip(pod)?
            );
            assert!(answer.contains(&expected), "{answer} lacks {expected}");
        }
        let answer = get_service(&network, SocketAddr::new(service, 80)).await?;
        assert!(answer.contains("pod=web-"), "{answer}");
        let answer = get(&outside, SocketAddr::new(pod_ip(pod)?, 80))?;
        assert!(answer.contains("client=10.200.0.200"), "{answer}");
    }

    // What passes can be seen at every place: the node's cable, and the pod's.
    let node = cluster.host("node-1").await?;
    assert_eq!(node.shell("hostname")?.trim(), "node-1");
    let pod = pods
        .iter()
        .find(|pod| {
            pod.spec
                .as_ref()
                .is_some_and(|spec| spec.node_name.as_deref() == Some("node-1"))
        })
        .context("no pod on node-1")?;
    let filter = format!("tcp and src 10.200.0.200 and dst {}", pod_ip(pod)?);
    let captures = [
        node.capture("eth0", &filter)?,
        cluster.pod_network(pod)?.capture("eth0", &filter)?,
    ];
    get(&outside, SocketAddr::new(pod_ip(pod)?, 80))?;
    for capture in captures {
        capture.wait_for(LIMIT, |packet| packet.contains("Flags [S]"))?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn pods_reach_the_api_server_at_its_service_address() -> Result<()> {
    let cluster = shared::together().await;
    let namespace = TestNamespace::create(&cluster, "in-cluster").await?;
    let (pods, _) = web(&namespace).await?;
    for pod in &pods {
        let answer = get_service(&cluster.pod_network(pod)?, "10.96.0.1:443".parse()?).await?;
        // It speaks TLS only, and says so to whoever does not.
        assert!(
            answer.contains("HTTP request to an HTTPS server"),
            "{answer}"
        );
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn the_api_server_reaches_a_webhook_through_its_service() -> Result<()> {
    let cluster = shared::together().await;
    let namespace = TestNamespace::create(&cluster, "webhook").await?;
    web(&namespace).await?;
    let name = namespace.name();
    // Nobody but this test's own namespace is asked about.
    namespace.apply(&format!(
        "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{ name: {name} }}
webhooks:
- name: reach.testbed.floe.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 5
  namespaceSelector: {{ matchLabels: {{ kubernetes.io/metadata.name: {name} }} }}
  rules: [{{ apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps] }}]
  clientConfig: {{ service: {{ namespace: {name}, name: web, port: 80 }} }}
"
    ))?;
    // The pod behind the Service is a plain web server. That the API server
    // notices proves that it got there, which a time-out would not.
    let refused = wait::until("the webhook is called", LIMIT, async || {
        match namespace.kubectl(&["create", "configmap", "probe"]) {
            Ok(_) => {
                namespace.kubectl(&["delete", "configmap", "probe"])?;
                Ok(None)
            }
            Err(error) if format!("{error:#}").contains("reach.testbed.floe.dev") => {
                Ok(Some(format!("{error:#}")))
            }
            Err(error) => Err(error),
        }
    })
    .await;
    namespace.kubectl(&["delete", "validatingwebhookconfiguration", name])?;
    let refused = refused?;
    assert!(
        refused.contains("server gave HTTP response to HTTPS client"),
        "{refused}"
    );
    Ok(())
}
