//! Every replica answers, whoever leads: the others pass the call on, so that what was
//! written through one is read through all.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use floe_testbed::floe;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::LIMIT;
use crate::api::{Caller, PORT};
use crate::http::pod_ip;
use crate::racks;

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_release_through_the_follower_is_read_at_once_through_both_replicas() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "follower").await?;
    let operator = Caller::operator(&cluster).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let controllers = ListParams::default().labels(floe::CONTROLLER);
    let leader = floe::leader(&cluster, LIMIT).await?;
    let (leads, follows): (Vec<_>, Vec<_>) = pods
        .list(&controllers)
        .await?
        .items
        .into_iter()
        .partition(|pod| pod.name_any() == leader);
    let at = |pods: &[Pod]| -> Result<Caller> {
        let pod = pods.first().context("there are two replicas")?;
        Ok(operator.at(SocketAddr::new(pod_ip(pod)?, PORT)))
    };
    let (leader, follower) = (at(&leads)?, at(&follows)?);

    let name = namespace.name();
    let list = format!("/v1/ip?namespace={name}&appName=web");
    let mine = format!("/v2/ips?namespace={name}");
    for ip in ["10.0.75.2", "10.0.75.3"] {
        let number = ip.len() - 1;
        let pod = format!("web-{}", &ip[number..]);
        let record = json!({
            "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "FloatingIP",
            "metadata": { "name": ip },
            "spec": { "key": format!("sts_{name}_web_{pod}"), "policy": 2 },
        });
        namespace.apply(&record.to_string())?;
    }
    wait::until("both are listed", LIMIT, async || {
        let page = leader.get(&list)?.json()?;
        Ok((page["totalElements"] == 2).then_some(()))
    })
    .await?;
    for path in [&list, &mine] {
        let (one, other) = (leader.get(path)?, follower.get(path)?);
        assert_eq!((one.status, &one.body), (200, &other.body), "{path}");
    }

    // Through the follower in galaxy's way, and in ours.
    let element = json!({ "ip": "10.0.75.2", "namespace": name, "appName": "web",
        "podName": "web-2", "appType": "statefulset" });
    let answer = follower.post("/v1/ip", &json!({ "ips": [element] }))?;
    assert_eq!(answer.body, r#"{"code":200,"message":""}"#);
    for replica in [&follower, &leader] {
        let page = replica.get(&list)?.json()?;
        assert_eq!(page["totalElements"], 1, "{page}");
        assert_eq!(page["content"][0]["ip"], "10.0.75.3", "{page}");
    }
    let answer = follower.post(
        "/v2/ips/release",
        &json!({ "ips": [{ "ip": "10.0.75.3" }] }),
    )?;
    let answer = answer.json()?;
    assert_eq!(answer["results"][0]["reason"], "Released", "{answer}");
    for replica in [&leader, &follower] {
        let page = replica.get(&mine)?.json()?;
        assert_eq!(page["total"], 0, "{page}");
    }

    // Who is refused by the leader is refused by the follower.
    let (answer, other) = (leader.with("x").get(&list)?, follower.with("x").get(&list)?);
    assert_eq!((answer.status, answer.body), (401, other.body));
    Ok(())
}
