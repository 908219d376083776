//! What the holder sends leaves the cluster with the shared address, if it shall.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use floe_testbed::host::HostRef;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

use super::ground::{holder, move_to_node, served, status, together, webs};
use super::raw::{self, Echo, PROTOCOLS};
use crate::LIMIT;
use crate::http::{get, pod_ip};
use crate::moving::node_of;

const IP: &str = "10.200.0.235";
const OUTSIDE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 200, 0, 200));
const PATIENCE: Duration = Duration::from_secs(5);

/// The source of a datagram from a pod, as the host outside sees it. Nobody has to answer.
fn source(pod: &HostRef, outside: &HostRef) -> Result<IpAddr> {
    let ear = outside.network()?.run(|| UdpSocket::bind((OUTSIDE, 0)))?;
    ear.set_read_timeout(Some(PATIENCE))?;
    let to = ear.local_addr()?;
    pod.network()?.run(|| {
        let mouth = UdpSocket::bind(("0.0.0.0", 0))?;
        mouth.send_to(b"hello", to)
    })?;
    let (_, from) = ear
        .recv_from(&mut [0; 16])
        .with_context(|| format!("{} is not heard outside", pod.name))?;
    Ok(from.ip())
}

/// The source of a connection from a pod, as the host outside sees it.
fn caller(pod: &HostRef, outside: &HostRef) -> Result<IpAddr> {
    let listener = outside.network()?.run(|| TcpListener::bind((OUTSIDE, 0)))?;
    let to = listener.local_addr()?;
    let connected = pod
        .network()?
        .run(|| TcpStream::connect_timeout(&to, PATIENCE));
    let _open = connected.with_context(|| format!("{} cannot connect", pod.name))?;
    Ok(listener.accept()?.1.ip())
}

/// The holder leaves with the address by all protocols, and gets the answers; the others do
/// not, and nobody does within the cluster.
async fn only_the_holder_leaves_with_it(
    namespace: &TestNamespace<'_>,
    vip: &VirtualIP,
    pods: &[Pod],
) -> Result<()> {
    let (cluster, shared) = (namespace.cluster(), IP.parse::<IpAddr>()?);
    let outside = cluster.outside().await?;
    let _echo = Echo::start(&outside, "outside")?;
    let held = holder(vip)?;
    for pod in pods {
        let network = cluster.pod_network(pod)?;
        if pod.uid().as_ref() != Some(&held.uid) {
            let seen = source(&network, &outside)?;
            ensure!(seen != shared, "{} is not the holder", pod.name_any());
            continue;
        }
        ensure!(source(&network, &outside)? == shared, "by UDP");
        ensure!(caller(&network, &outside)? == shared, "by TCP");
        for protocol in PROTOCOLS {
            let answer = raw::ask(&network, OUTSIDE, protocol)?;
            let found = (answer.source, answer.seen);
            ensure!(found == (OUTSIDE, shared), "{protocol}: {answer:?}");
        }
        let own = pod_ip(pod)?;
        for other in pods {
            let answer = get(&network, SocketAddr::new(pod_ip(other)?, 80))?;
            let expected = format!("client={own}");
            ensure!(answer.contains(&expected), "{answer} lacks {expected}");
        }
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn what_the_holder_sends_leaves_with_the_address_and_moves_with_it() -> Result<()> {
    let cluster = together().await?;
    let namespace = TestNamespace::create(&cluster, "egress").await?;
    webs(&namespace, &json!({})).await?;
    let object = json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": "sender" },
        "spec": {
            "addresses": [IP], "selector": { "matchLabels": { "app": "web" } },
            "announcement": { "egress": true },
        },
    });
    namespace.apply(&object.to_string())?;
    let pods = namespace.pods("app=web").await?;
    let all = |vip: &VirtualIP| status(vip).candidates.len() == 3;
    let first = served(&namespace, "sender", all).await?;
    only_the_holder_leaves_with_it(&namespace, &first, &pods).await?;

    let held = holder(&first)?.node;
    let mut nodes = pods.iter().filter_map(|it| node_of(it).ok());
    let other = nodes.find(|it| *it != held).context("there are three")?;
    let second = move_to_node(&namespace, &first, &other).await?;
    only_the_holder_leaves_with_it(&namespace, &second, &pods).await?;

    // It is taken off while the address is held.
    let off = json!({ "spec": { "announcement": { "egress": false } } }).to_string();
    namespace.kubectl(&["patch", "vip", "sender", "--type=merge", "-p", &off])?;
    let outside = cluster.outside().await?;
    let uid = holder(&second)?.uid;
    let pod = pods.iter().find(|it| it.uid().as_ref() == Some(&uid));
    let network = cluster.pod_network(pod.context("it runs")?)?;
    wait::until(
        "the holder leaves with its own address",
        LIMIT,
        async || {
            let seen = source(&network, &outside)?;
            ensure!(seen != IP.parse::<IpAddr>()?, "it leaves with {seen}");
            Ok(Some(()))
        },
    )
    .await
}
